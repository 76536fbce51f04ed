//! Namespaces below, made when the first pod needs them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client, api::PostParams};
use tensile_core::{names, pod::LinkView};

/// How long a new namespace may take to get its service account.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the namespace, marked as ours, and waits until pods can be created in it.
///
/// One that is there already is left as it is, whoever made it.
pub(crate) async fn create(client: &Client, link: &LinkView, name: &str) -> Result<(), kube::Error> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespace.metadata.labels = Some(
        [
            (names::UPPER_CLUSTER.to_owned(), link.upper_cluster.clone()),
            (names::VIRTUAL_NODE.to_owned(), names::label_value(&link.virtual_node)),
        ]
        .into(),
    );
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => tracing::info!(namespace = name, "namespace created below"),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error),
    }
    service_account(client, name).await;
    Ok(())
}

/// Waits for the namespace's default service account, without which pods are refused. Whether it came shows when the
/// pod is created.
async fn service_account(client: &Client, namespace: &str) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let there = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tick.tick().await;
            if !matches!(accounts.get_opt("default").await, Ok(None)) {
                return;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, there).await.is_err() {
        tracing::warn!(namespace, "the namespace below has no service account yet");
    }
}
