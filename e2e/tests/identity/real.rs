// SPDX-License-Identifier: Apache-2.0
//! A real container that is somebody in the upper cluster.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::cluster::Cluster;
use e2e::door;
use e2e::fixture::RealPair;
use e2e::pods::{Pods, uid};
use e2e::real_node::{self, RealNode};
use e2e::wait::eventually;
use serde_json::{Value, json};

use crate::objects::{Objects, config_map, mounting, secret, secret_of as content, value_of};
use crate::{expire, secret_of, token};

const MINUTE: Duration = Duration::from_secs(60);
/// A name in the certificates of all API servers: containers know it by their `hostAliases`.
const KNOWN_AS: &str = "kubernetes.default.svc";

/// What a command in the container of a lower pod prints.
async fn run(cluster: &Cluster, below: &Pods, command: &[&str]) -> anyhow::Result<String> {
    let args: Vec<&str> = ["-n", below.namespace(), "exec", "main", "--"].iter().chain(command).copied().collect();
    Ok(String::from_utf8(cluster.kubectl(&args).await?.stdout)?)
}

/// A pod that reads everything there is to be read, with the kubectl of this machine.
fn reader(pair: &RealPair, address: SocketAddr) -> Value {
    let file = |path: &str, field: &str| json!({ "path": path, "fieldRef": { "fieldPath": field } });
    let mut pod = mounting(
        pair.link.pod("main"),
        &[
            config_map("settings"),
            secret("login"),
            json!({ "projected": { "sources": [
                { "configMap": { "name": "settings", "items": [{ "key": "key", "path": "map" }] } },
                { "secret": { "name": "login", "items": [{ "key": "key", "path": "secret" }] } },
                { "serviceAccountToken": { "audience": "vault", "expirationSeconds": 1200, "path": "vault" } },
                { "downwardAPI": { "items": [file("uid", "metadata.uid")] } },
            ] } }),
            json!({ "downwardAPI": { "items": [file("name", "metadata.name"), file("namespace", "metadata.namespace"),
                file("uid", "metadata.uid"), file("app", "metadata.labels['app']")] } }),
            json!({ "hostPath": { "path": pair.upper.kubectl_path(), "type": "File" } }),
        ],
    );
    let container = real_node::pod("main", "exec sleep 1000000")["spec"]["containers"][0].clone();
    pod["spec"]["containers"][0] = container;
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    pod["metadata"]["labels"] = json!({ "app": "reader" });
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod["spec"]["hostAliases"] = json!([{ "ip": address.ip(), "hostnames": [KNOWN_AS] }]);
    let main = &mut pod["spec"]["containers"][0];
    main["resources"] = json!({ "limits": { "memory": "256Mi" } });
    main["env"] = json!([
        field("POD", "metadata.name"), field("NAMESPACE", "metadata.namespace"), field("POD_UID", "metadata.uid"),
        field("NODE", "spec.nodeName"), field("ACCOUNT", "spec.serviceAccountName"),
        { "name": "MEMORY", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory" } } },
        { "name": "MAP", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "key" } } },
        { "name": "LOGIN", "valueFrom": { "secretKeyRef": { "name": "login", "key": "key" } } },
    ]);
    main["envFrom"] = json!([{ "configMapRef": { "name": "settings" }, "prefix": "ALL_" }]);
    let places = ["/map", "/secret", "/both", "/down", "/kubectl"].iter().enumerate();
    main["volumeMounts"] =
        places.map(|(index, path)| json!({ "name": format!("v{index}"), "mountPath": path })).collect();
    pod
}

#[test]
fn a_container_talks_to_the_upper_api_server_as_its_account_and_reads_all_it_was_given() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let (upper, lower) = tokio::try_join!(Cluster::builder("upper").start(), async {
            let lower = Cluster::builder("lower").start().await?;
            let node = RealNode::start(&lower, "real").await?;
            anyhow::Ok((lower, node))
        })?;
        let (lower, node) = lower;
        let address = door::open(&node, &upper).await?;
        let server = format!("--upper-apiserver={KNOWN_AS}:{}", address.port());
        let args = [server.as_str(), "--cluster-dns=10.96.0.10", "--cluster-domain=up.local"];
        let link = e2e::link::Link::builder(&upper, &lower, "link").args(&args).start().await?;
        let pair = RealPair { link, node, upper, lower };
        pair.within("real", async |above, below| {
            let maps = Objects::config_maps(&pair.upper, above.namespace());
            maps.create("settings", json!({ "data": { "key": "from the map" } })).await?;
            let secrets = Objects::secrets(&pair.upper, above.namespace());
            secrets.create("login", content("from the secret")).await?;
            let created = above.create(&reader(&pair, address)).await?;
            above.until_ready("main").await?;
            reads_everything(&pair, above, below, &created).await?;
            is_somebody(&pair, above, below).await?;
            sees_changes(&pair, above, below).await
        })
        .await
    })
}

async fn reads_everything(pair: &RealPair, above: &Pods, below: &Pods, created: &Value) -> anyhow::Result<()> {
    let namespace = above.namespace();
    let access = "/var/run/secrets/kubernetes.io/serviceaccount";
    let ca = Objects::config_maps(&pair.upper, namespace).get("kube-root-ca.crt").await?;
    for (path, expected) in [
        ("/map/key", "from the map"),
        ("/secret/key", "from the secret"),
        ("/both/map", "from the map"),
        ("/both/secret", "from the secret"),
        ("/both/uid", uid(created)),
        ("/down/name", "main"),
        ("/down/namespace", namespace),
        ("/down/uid", uid(created)),
        ("/down/app", "reader"),
        (format!("{access}/namespace").as_str(), namespace),
        (format!("{access}/ca.crt").as_str(), ca["data"]["ca.crt"].as_str().unwrap_or_default()),
    ] {
        let found = run(&pair.lower, below, &["cat", path]).await?;
        ensure!(found == expected, "{path}: {found:?}");
    }
    let modes = run(&pair.lower, below, &["stat", "-L", "-c", "%a", &format!("{access}/token"), "/both/vault"]).await?;
    ensure!(modes == "644\n644\n", "{modes}");
    let env = run(&pair.lower, below, &["env"]).await?;
    for line in [
        "POD=main".to_owned(),
        format!("NAMESPACE={namespace}"),
        format!("POD_UID={}", uid(created)),
        "NODE=link".to_owned(),
        "ACCOUNT=default".to_owned(),
        "MEMORY=268435456".to_owned(),
        "MAP=from the map".to_owned(),
        "LOGIN=from the secret".to_owned(),
        "ALL_key=from the map".to_owned(),
        format!("KUBERNETES_SERVICE_HOST={KNOWN_AS}"),
    ] {
        ensure!(env.lines().any(|found| found == line), "{line} is not in\n{env}");
    }
    let resolver = run(&pair.lower, below, &["cat", "/etc/resolv.conf"]).await?;
    for words in ["nameserver 10.96.0.10", &format!("search {namespace}.svc.up.local svc.up.local up.local"), "ndots:5"]
    {
        ensure!(resolver.contains(words), "{words} is not in\n{resolver}");
    }
    Ok(())
}

/// With nothing but what every in-cluster client has: two variables, a token and a CA.
async fn is_somebody(pair: &RealPair, above: &Pods, below: &Pods) -> anyhow::Result<()> {
    let who = ["/kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.extra}"];
    let who = run(&pair.lower, below, &who).await?;
    let account = format!("system:serviceaccount:{}:default ", above.namespace());
    ensure!(who.starts_with(&account) && who.contains("authentication.kubernetes.io/pod-name"), "{who}");
    // It is the upper cluster: only there the pod is bound to the virtual node.
    ensure!(who.contains(r#""authentication.kubernetes.io/node-name":["link"]"#), "{who}");
    let refused =
        run(&pair.lower, below, &["/kubectl", "get", "secrets"]).await.err().context("it may read Secrets")?;
    ensure!(format!("{refused:#}").contains(account.trim()), "{refused:#}");
    Ok(())
}

async fn sees_changes(pair: &RealPair, above: &Pods, below: &Pods) -> anyhow::Result<()> {
    let path = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    let first = run(&pair.lower, below, &["cat", path]).await?;
    let secrets = Objects::secrets(&pair.lower, above.namespace());
    let tokens = secret_of(&pair.lower, below, "main").await?;
    ensure!(token(&tokens, "token-1")? == first, "the file is another token");
    expire(&secrets, &tokens).await?;
    let name = tokens["metadata"]["name"].as_str().unwrap_or_default();
    let renewed =
        secrets.until(name, "is renewed", |secret| secret["data"]["token-1"] != tokens["data"]["token-1"]).await?;
    let upper = Objects::secrets(&pair.upper, above.namespace());
    upper.merge("login", content("changed")).await?;
    secrets.until("login", "has changed", |secret| value_of(secret) == "changed").await?;
    let mut looks = 0;
    eventually(2 * MINUTE, "the container sees the new token and the new Secret", async || {
        // A kubelet looks at the volumes of a pod when the pod changes, or once a minute.
        looks += 1;
        above.annotate("main", "e2e/look", Some(&looks.to_string())).await?;
        let found = run(&pair.lower, below, &["cat", path]).await?;
        ensure!(found == token(&renewed, "token-1")?, "the token is the old one");
        let found = run(&pair.lower, below, &["cat", "/secret/key"]).await?;
        ensure!(found == "changed", "{found}");
        Ok(())
    })
    .await?;
    is_somebody(pair, above, below).await?;
    above.delete("main", None).await?;
    secrets.until_gone(name).await
}
