//! Namespaces below come with the first pod.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};

use super::pair;

const MARKS: [&str; 2] = ["tensile.io/upper-cluster", "tensile.io/virtual-node"];

#[test]
fn a_namespace_below_is_made_and_marked() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let upper: Api<Namespace> = Api::all(pair.upper.client());
        let lower: Api<Namespace> = Api::all(pair.lower.client());
        let upper_cluster = upper.get("kube-system").await?.uid().unwrap_or_default();
        pair.within("made", async |above, _| {
            above.create(&pair.link.pod("first")).await?;
            above.until_ready("first").await?;
            let namespace = lower.get(above.namespace()).await?;
            let marks = MARKS.map(|key| namespace.labels().get(key).map(String::as_str));
            ensure!(marks == [Some(upper_cluster.as_str()), Some(pair.link.name())], "{:?}", namespace.metadata);
            Ok(())
        })
        .await
    })
}

#[test]
fn a_namespace_that_is_there_already_is_left_as_it_is() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let lower: Api<Namespace> = Api::all(pair.lower.client());
        pair.within("there", async |above, _| {
            let metadata = ObjectMeta { name: Some(above.namespace().to_owned()), ..ObjectMeta::default() };
            let made = lower.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
            above.create(&pair.link.pod("first")).await?;
            above.until_ready("first").await?;
            let found = lower.get(above.namespace()).await?;
            ensure!(found.metadata.labels == made.metadata.labels, "{:?}", found.metadata);
            ensure!(found.metadata.annotations == made.metadata.annotations, "{:?}", found.metadata);
            Ok(())
        })
        .await
    })
}
