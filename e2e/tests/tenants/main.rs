// SPDX-License-Identifier: Apache-2.0
//! Tenants of one lower cluster: two upper clusters that share it, and what neither can do to the other.

mod apart;
mod chart;
mod crafted;
mod mapping;
mod quota;
mod real;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::namespace;
use e2e::objects::Objects;
use e2e::pods::{Pods, uid, with};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The clusters of most tests here.
struct World {
    uppers: [Cluster; 2],
    lower: Cluster,
}

async fn world() -> anyhow::Result<&'static World> {
    static SHARED: OnceCell<World> = OnceCell::const_new();
    let start = async || {
        let lower = async {
            let lower = Cluster::builder("lower").start().await?;
            lower.kwok_nodes(NodeShape { count: 2, ..NodeShape::default() }).await?;
            anyhow::Ok(lower)
        };
        let (one, two) = (Cluster::builder("upper-a").start(), Cluster::builder("upper-b").start());
        let (one, two, lower) = tokio::try_join!(one, two, lower)?;
        anyhow::Ok(World { uppers: [one, two], lower })
    };
    SHARED.get_or_try_init(start).await
}

/// An upper cluster, with its virtual node on the lower one.
struct Tenant<'a> {
    upper: &'a Cluster,
    lower: &'a Cluster,
    link: Link,
    /// Its namespace upstairs.
    namespace: String,
    /// By which the lower cluster knows it: the UID of a namespace.
    id: String,
}

impl<'a> Tenant<'a> {
    /// One whose virtual node is called `node`, with a new namespace upstairs.
    async fn start(
        upper: &'a Cluster,
        lower: &'a Cluster,
        node: &str,
        namespace: &str,
        args: &[&str],
    ) -> anyhow::Result<Self> {
        namespace::make(namespace, upper).await?;
        let link = Link::builder(upper, lower, node).args(args).start().await?;
        let system = Objects::all::<Namespace>(upper).get("kube-system").await?;
        Ok(Self { upper, lower, link, namespace: namespace.to_owned(), id: uid(&system).to_owned() })
    }

    /// Both, with virtual nodes of the same name and namespaces of the same name.
    async fn pair(world: &'a World, name: &str, args: &[&str]) -> anyhow::Result<[Self; 2]> {
        let [one, two] = &world.uppers;
        let start = async |upper| Self::start(upper, &world.lower, name, name, args).await;
        tokio::try_join!(start(one), start(two)).map(<[Self; 2]>::from)
    }

    /// Its pods upstairs.
    fn pods(&self) -> Pods {
        Pods::of(self.upper, &self.namespace)
    }

    /// Objects of a kind in its namespace upstairs.
    fn above<K>(&self) -> Objects
    where
        K: kube::Resource<DynamicType = ()>,
    {
        Objects::within::<K>(self.upper, &self.namespace)
    }

    /// Everything of a kind that its virtual node made below.
    async fn below<K>(&self) -> anyhow::Result<Vec<Value>>
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let marks = format!("tensile.io/upper-cluster={},tensile.io/virtual-node={}", self.id, self.link.name());
        Objects::all::<K>(self.lower).list("", &marks).await
    }

    /// The lower pod of its pod `name`.
    async fn lower_pod(&self, name: &str) -> anyhow::Result<Value> {
        let of = format!("{}/{name}", self.namespace);
        let mut pods = self.below::<Pod>().await?;
        pods.retain(|pod| pod["metadata"]["annotations"]["tensile.io/upper-name"] == of.as_str());
        ensure!(pods.len() <= 1, "more than one lower pod of {of}: {pods:?}");
        pods.pop().with_context(|| format!("there is no lower pod of {of}"))
    }

    /// A pod for its virtual node, without a token.
    fn pod(&self, name: &str) -> Value {
        with(self.link.pod(name), json!({ "spec": { "automountServiceAccountToken": false } }))
    }
}

/// Namespace and name of an object.
fn place(object: &Value) -> (String, String) {
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}
