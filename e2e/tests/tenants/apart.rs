// SPDX-License-Identifier: Apache-2.0
//! The matrix: whatever a pod brings along, each tenant has its own below, under whichever mapping.

use anyhow::{Context as _, ensure};
use e2e::objects::Objects;
use e2e::pods::{PATIENCE, uid, with};
use e2e::wait::eventually;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use crate::{Tenant, place, world};

#[test]
fn with_a_prefix_each_tenant_has_its_own_of_every_kind() -> anyhow::Result<()> {
    e2e::run(matrix("by-prefix", "prefix"))
}

#[test]
fn with_a_suffix_each_tenant_has_its_own_of_every_kind() -> anyhow::Result<()> {
    e2e::run(matrix("by-suffix", "suffix:of-both"))
}

#[test]
fn in_a_single_namespace_each_tenant_has_its_own_of_every_kind() -> anyhow::Result<()> {
    e2e::run(matrix("in-one", "single:in-one-below"))
}

async fn matrix(name: &str, mapping: &str) -> anyhow::Result<()> {
    let world = world().await?;
    // A text that both chose would give both the same namespaces.
    let mappings = if mapping.starts_with("suffix:") { ["suffix:of-a", "suffix:of-b"] } else { [mapping; 2] };
    let start = async |side: usize| {
        let mapping = format!("--namespace-mapping={}", mappings[side]);
        let args = [mapping.as_str(), "--pod-network=separate"];
        Tenant::start(&world.uppers[side], &world.lower, name, name, &args).await
    };
    let (one, two) = tokio::try_join!(start(0), start(1))?;
    let tenants = [one, two];
    for volume in ["1", "2"] {
        let volume = format!("{name}-{volume}");
        let content = json!({ "spec": {
            "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": name,
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": format!("/data/{volume}") },
        } });
        Objects::all::<PersistentVolume>(&world.lower).create(&volume, content).await?;
    }
    for tenant in &tenants {
        let class = json!({ "provisioner": "volumes.tensile.io", "volumeBindingMode": "WaitForFirstConsumer" });
        Objects::all::<StorageClass>(tenant.upper).create(name, class).await?;
        bring(tenant, name).await?;
    }
    for tenant in &tenants {
        tenant.pods().until_ready("web").await?;
    }

    let (one, two) = (tenants[0].lower_pod("web").await?, tenants[1].lower_pod("web").await?);
    ensure!(place(&one) != place(&two) && uid(&one) != uid(&two), "both are {:?}", place(&one));
    for (tenant, pod) in tenants.iter().zip([&one, &two]) {
        has_its_own(tenant, pod).await?;
    }
    events_go_home(&tenants, [&one, &two]).await?;
    changes_stay_at_home(&tenants, [&one, &two]).await
}

/// Everything that a pod can bring along, all under the same names for both.
async fn bring(tenant: &Tenant<'_>, class: &str) -> anyhow::Result<()> {
    let whose = &tenant.id;
    tenant.above::<ConfigMap>().create("app", json!({ "data": { "whose": whose } })).await?;
    tenant.above::<Secret>().create("app", json!({ "stringData": { "whose": whose } })).await?;
    let claim = json!({ "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": { "requests": { "storage": "1Gi" } } } });
    tenant.above::<PersistentVolumeClaim>().create("data", claim).await?;
    let service = json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] } });
    tenant.above::<Service>().create("web", service).await?;
    let volumes = json!([
        { "name": "map", "configMap": { "name": "app" } },
        { "name": "secret", "secret": { "secretName": "app" } },
        { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
    ]);
    // Its account's token comes besides.
    let labels = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "volumes": volumes } });
    tenant.pods().create(&with(tenant.link.pod("web"), labels)).await.map(drop)
}

/// The object of this name beside `pod`.
async fn beside<K: kube::Resource<DynamicType = ()>>(
    tenant: &Tenant<'_>,
    pod: &Value,
    name: &Value,
) -> anyhow::Result<Value> {
    let name = name.as_str().context("the pod names none")?;
    let object = Objects::within::<K>(tenant.lower, &place(pod).0).get(name).await?;
    let labels = &object["metadata"]["labels"];
    ensure!(labels["tensile.io/upper-cluster"] == tenant.id.as_str(), "{name} is another one's: {labels}");
    ensure!(labels["tensile.io/upper-namespace"] == tenant.namespace.as_str(), "{name}: {labels}");
    Ok(object)
}

async fn has_its_own(tenant: &Tenant<'_>, pod: &Value) -> anyhow::Result<()> {
    let volumes = pod["spec"]["volumes"].as_array().context("it has no volumes")?;
    let volume = |name: &str| volumes.iter().find(|volume| volume["name"] == name).unwrap_or(&Value::Null);
    let map = beside::<ConfigMap>(tenant, pod, &volume("map")["configMap"]["name"]).await?;
    ensure!(map["data"]["whose"] == tenant.id.as_str(), "{map}");
    let secret = beside::<Secret>(tenant, pod, &volume("secret")["secret"]["secretName"]).await?;
    ensure!(text(&secret["data"]["whose"])? == tenant.id, "the Secret is another one's");
    let claim =
        beside::<PersistentVolumeClaim>(tenant, pod, &volume("data")["persistentVolumeClaim"]["claimName"]).await?;
    ensure!(claim["status"]["phase"] == "Bound", "{claim}");

    // Only its own upper cluster could have issued the token.
    let noted = pod["metadata"]["annotations"]["tensile.io/tokens"].as_str().context("it has no token")?;
    let noted: Value = serde_json::from_str(noted)?;
    let tokens = beside::<Secret>(tenant, pod, &noted["secret"]).await?;
    ensure!(tokens["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"], "{}", tokens["metadata"]);
    let token = text(&tokens["data"]["token-0"])?;
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token } });
    let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&review)?)?;
    let review: Value = tenant.upper.client().request(request).await?;
    let account = format!("system:serviceaccount:{}:default", tenant.namespace);
    ensure!(review["status"]["user"]["username"] == account.as_str(), "{}", review["status"]);

    // The Service leads to its own pod, and to no other one with the same labels.
    eventually(PATIENCE, "the service below leads to the pod", async || {
        let services = tenant.below::<Service>().await?;
        let service = services.first().context("there is none")?;
        ensure!(services.len() == 1 && place(service).0 == place(pod).0, "{services:?}");
        let of_service = format!("kubernetes.io/service-name={}", place(service).1);
        let slices = Objects::within::<EndpointSlice>(tenant.lower, &place(pod).0).list("", &of_service).await?;
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let found: Vec<&Value> = endpoints.map(|endpoint| &endpoint["addresses"][0]).collect();
        ensure!(found == [&pod["status"]["podIP"]], "{found:?}");
        Ok(())
    })
    .await
}

fn text(bytes: &Value) -> anyhow::Result<String> {
    Ok(String::from_utf8(serde_json::from_value::<ByteString>(bytes.clone())?.0)?)
}

async fn events_go_home(tenants: &[Tenant<'_>; 2], pods: [&Value; 2]) -> anyhow::Result<()> {
    for (side, pod) in pods.into_iter().enumerate() {
        let (namespace, name) = place(pod);
        let event = json!({
            "involvedObject": { "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid(pod) },
            "reason": format!("Told{side}"), "type": "Warning", "count": 1, "source": { "component": "kubelet" },
            "message": format!("pod {namespace}/{name} is told of"),
        });
        Objects::within::<Event>(tenants[side].lower, &namespace).create(&format!("told-{name:.40}"), event).await?;
    }
    for (side, tenant) in tenants.iter().enumerate() {
        let message = tenant.pods().until_event("web", &format!("Told{side}")).await?;
        ensure!(message == format!("pod {}/web is told of", tenant.namespace), "{message}");
    }
    for (side, tenant) in tenants.iter().enumerate() {
        let events = tenant.above::<Event>().list(&format!("reason=Told{}", 1 - side), "").await?;
        ensure!(events.is_empty(), "it was told of another one's pod: {events:?}");
    }
    Ok(())
}

/// What a tenant changes and deletes changes and deletes nothing of the other.
async fn changes_stay_at_home(tenants: &[Tenant<'_>; 2], pods: [&Value; 2]) -> anyhow::Result<()> {
    let [mine, theirs] = tenants;
    let all = async || {
        let mut all = theirs.below::<ConfigMap>().await?;
        all.extend(theirs.below::<Secret>().await?);
        all.extend(theirs.below::<PersistentVolumeClaim>().await?);
        all.extend(theirs.below::<Service>().await?);
        let versions = all.iter().map(|object| {
            (place(object), object["metadata"]["uid"].clone(), object["metadata"]["resourceVersion"].clone())
        });
        anyhow::Ok(versions.collect::<Vec<_>>())
    };
    let before = all().await?;
    ensure!(before.len() >= 5, "{before:?}");
    mine.above::<ConfigMap>().merge("app", json!({ "data": { "whose": "changed" } })).await?;
    let changed = |map: &Value| map["data"]["whose"] == "changed";
    eventually(PATIENCE, "the copy has changed", async || {
        ensure!(mine.below::<ConfigMap>().await?.iter().any(changed), "none has");
        Ok(())
    })
    .await?;
    mine.pods().delete("web", None).await?;
    for object in ["app"] {
        mine.above::<ConfigMap>().delete(object).await?;
        mine.above::<Secret>().delete(object).await?;
    }
    mine.above::<Service>().delete("web").await?;
    mine.above::<PersistentVolumeClaim>().delete("data").await?;
    eventually(PATIENCE, "all of it is gone below", async || {
        let mut left = mine.below::<Pod>().await?;
        left.extend(mine.below::<Service>().await?);
        left.extend(mine.below::<Secret>().await?);
        left.extend(mine.below::<PersistentVolumeClaim>().await?);
        left.extend(mine.below::<ConfigMap>().await?);
        let left: Vec<_> = left.iter().map(place).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await?;
    ensure!(all().await? == before, "something of the other one was touched");
    let pod = theirs.lower_pod("web").await?;
    ensure!(uid(&pod) == uid(pods[1]) && pod["metadata"].get("deletionTimestamp").is_none(), "{}", pod["metadata"]);
    Ok(())
}
