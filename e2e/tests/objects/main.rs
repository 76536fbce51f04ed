// SPDX-License-Identifier: Apache-2.0
//! ConfigMaps and Secrets that pods bring along, with one virtual node between two real clusters.

mod conflicts;
mod lives;
mod objects;
mod references;
mod rights;

use e2e::cluster::Cluster;
use e2e::fixture::Pair;
use e2e::link::Link;
use e2e::pods::Pods;
use tokio::sync::OnceCell;

/// The clusters of all tests here.
async fn pair() -> anyhow::Result<&'static Pair> {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();
    let builder = |name| Cluster::builder(name).audit(true);
    SHARED.get_or_try_init(|| Pair::start(builder("upper"), builder("lower"))).await
}

/// The same clusters with a virtual node of its own, for tests that kill it.
async fn own(name: &str) -> anyhow::Result<Own> {
    let pair = pair().await?;
    let link = Link::start(&pair.upper, &pair.lower, name).await?;
    Ok(Own { upper: &pair.upper, lower: &pair.lower, link })
}

struct Own {
    upper: &'static Cluster,
    lower: &'static Cluster,
    link: Link,
}

impl Own {
    async fn within<T>(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods, &Pods) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        e2e::namespace::within(name, self.upper, &[self.lower], async |namespace| {
            test(&Pods::of(self.upper, namespace), &Pods::of(self.lower, namespace)).await
        })
        .await
    }
}
