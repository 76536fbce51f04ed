//! The harness itself: clusters start, serve, are measured, and nothing of them stays behind.

use e2e::cluster::Cluster;

#[test]
fn a_cluster_starts_and_serves_kubectl() -> anyhow::Result<()> {
    e2e::run(async {
        let cluster = Cluster::builder("alone").version("1.36.3").audit(true).start().await?;
        let version = cluster.kubectl(&["version"]).await?;
        let version = String::from_utf8(version.stdout)?;
        anyhow::ensure!(version.contains("Server Version: v1.36.3"), "{version}");
        let audit = cluster.audit()?;
        let by_kubectl = audit.by("kubectl/").counts();
        anyhow::ensure!(by_kubectl.get("get /version") == Some(&1), "{by_kubectl:?}");
        Ok(())
    })
}
