// SPDX-License-Identifier: Apache-2.0
//! The kubelet API of a virtual node on a real control plane: who is let in, what the API server reaches through it, and
//! what is refused. No containers are needed here.

use anyhow::{Context as _, ensure};
use e2e::cluster::{Cluster, client_of};
use e2e::kubeconfig::{self, User, kubeconfig};
use e2e::link::Link;
use e2e::pki::Authority;
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Two clusters and a virtual node whose API the upper API server verifies and reaches. (At a loopback address: logs and
/// streams go there, `nodes/proxy` does not.)
struct Scene {
    upper: Cluster,
    _lower: Cluster,
    link: Link,
    port: u16,
}

async fn scene() -> anyhow::Result<&'static Scene> {
    static SHARED: OnceCell<Scene> = OnceCell::const_new();
    SHARED
        .get_or_try_init(async || {
            let (upper, lower) =
                tokio::try_join!(Cluster::builder("upper").start(), Cluster::builder("lower").start())?;
            let link = Link::builder(&upper, &lower, "link").node_ip("127.0.0.1").certified()?.start().await?;
            let node = link.until_ready().await?;
            let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
            let port = u16::try_from(port.context("the node announces no port")?)?;
            Ok(Scene { upper, _lower: lower, link, port })
        })
        .await
}

impl Scene {
    /// A client that goes straight to the kubelet API.
    async fn direct(&self, name: &str, user: &User<'_>) -> anyhow::Result<Client> {
        let path = self.upper.folder().join(format!("kubelet-{name}.kubeconfig"));
        let server = format!("https://127.0.0.1:{}", self.port);
        let ca = self.upper.authority().identity().certificate;
        kubeconfig::write(&path, &kubeconfig("kubelet", &server, Some(&ca), user))?;
        client_of(&path).await
    }

    /// The token of a service account that may `get` everything of nodes, and nothing else.
    async fn get_only_token(&self) -> anyhow::Result<String> {
        let parts = "--resource=nodes/proxy,nodes/metrics,nodes/stats";
        for args in [
            ["create", "serviceaccount", "getter", "--namespace=default"].as_slice(),
            &["create", "clusterrole", "getter", "--verb=get", parts],
            &["create", "clusterrolebinding", "getter", "--clusterrole=getter", "--serviceaccount=default:getter"],
        ] {
            self.upper.kubectl(args).await?;
        }
        let may =
            ["auth", "can-i", "get", "nodes/link", "--subresource=proxy", "--as=system:serviceaccount:default:getter"];
        eventually(PATIENCE, "the rights of the service account count", async || self.upper.kubectl(&may).await)
            .await?;
        let token = self.upper.kubectl(&["create", "token", "getter", "--namespace=default"]).await?;
        Ok(String::from_utf8(token.stdout)?.trim().to_owned())
    }
}

/// A pod that is bound to `node`, past the scheduler.
fn bound(name: &str, node: &str, link: &Link) -> Value {
    let mut pod = link.pod(name);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

async fn status(client: &Client, method: &str, path: &str) -> anyhow::Result<u16> {
    let request = Request::builder().method(method).uri(path).body(Body::empty())?;
    Ok(client.send(request).await?.status().as_u16())
}

/// Method, path, what the get-only token gets, what an administrator gets. Everybody else is told the same everywhere.
const PATHS: &[(&str, &str, u16, u16)] = &[
    ("GET", "/healthz", 200, 200),
    ("GET", "/pods", 200, 200),
    ("GET", "/runningpods/", 200, 200),
    ("GET", "/configz", 200, 200),
    ("GET", "/metrics", 200, 200),
    ("GET", "/stats/summary", 200, 200),
    ("GET", "/metrics/resource", 200, 200),
    ("GET", "/metrics/cadvisor", 200, 200),
    ("GET", "/metrics/probes", 200, 200),
    ("GET", "/containerLogs/default/absent/main", 404, 404),
    ("GET", "/exec/default/absent/main?output=1&command=id", 403, 404),
    ("POST", "/exec/default/absent/main?output=1&command=id", 403, 404),
    ("GET", "/attach/default/absent/main?output=1", 403, 404),
    ("POST", "/portForward/default/absent", 403, 404),
    ("POST", "/run/default/absent/main?cmd=id", 403, 404),
    ("POST", "/checkpoint/default/absent/main", 403, 501),
    ("GET", "/healthz/ping", 200, 200),
    ("POST", "/attach/default/absent/main?output=1", 403, 404),
    ("GET", "/portForward/default/absent?port=80", 403, 404),
    ("GET", "/exec/default/absent/some-uid/main?output=1&command=id", 403, 404),
    ("GET", "/run/default/absent/main?cmd=id", 403, 405),
    ("POST", "/pods", 403, 405),
    ("DELETE", "/containerLogs/default/absent/main", 403, 405),
    ("PUT", "/exec/default/absent/main", 403, 405),
    // Of the kubelet, and not here: known before it is told that there is nothing.
    ("GET", "/logs/", 403, 404),
    ("GET", "/debug/pprof/", 404, 404),
    ("GET", "/nothing", 404, 404),
];

#[test]
fn every_path_is_closed_to_whoever_has_no_right_to_it() -> anyhow::Result<()> {
    e2e::run(async {
        let scene = scene().await?;
        let powerless = scene.upper.authority().client("powerless", &[])?;
        let stranger = Authority::new("other")?.client("admin", &["system:masters"])?;
        let token = scene.get_only_token().await?;
        let nobody = scene.direct("nobody", &User::Anonymous).await?;
        let forged = scene.direct("forged", &User::Token("forged")).await?;
        let stranger = scene.direct("stranger", &User::Certificate(&stranger)).await?;
        let powerless = scene.direct("powerless", &User::Certificate(&powerless)).await?;
        let getter = scene.direct("getter", &User::Token(&token)).await?;
        // Nobody told the virtual node which authority counts: it is the one that the API server publishes.
        let full = scene.direct("full", &User::Certificate(scene.upper.admin())).await?;
        for (method, path, to_getter, to_full) in PATHS {
            for (who, client, expected) in [
                ("nobody", &nobody, 401),
                ("who has a forged token", &forged, 401),
                ("who has a certificate of another authority", &stranger, 401),
                ("who has no rights", &powerless, 403),
                ("who may get", &getter, *to_getter),
                ("who may everything", &full, *to_full),
            ] {
                let told = status(client, method, path).await?;
                ensure!(told == expected, "{who} is told {told} and not {expected} to {method} {path}");
            }
        }
        Ok(())
    })
}

#[test]
fn pods_are_those_of_the_node() -> anyhow::Result<()> {
    e2e::run(async {
        let scene = scene().await?;
        let full = scene.direct("lister", &User::Certificate(scene.upper.admin())).await?;
        let names = async |path: &str| {
            let list: Value = serde_json::from_str(&full.request_text(Request::get(path).body(Vec::new())?).await?)?;
            ensure!(list["kind"] == "PodList", "{list}");
            let names = list["items"].as_array().into_iter().flatten().map(|pod| pod["metadata"]["name"].to_string());
            anyhow::Ok(names.collect::<Vec<_>>())
        };
        let above = Pods::of(&scene.upper, "default");
        above.create(&bound("seen", scene.link.name(), &scene.link)).await?;
        above.create(&bound("elsewhere", "another-node", &scene.link)).await?;
        eventually(PATIENCE, "the pod is among those of the node", async || {
            let names = names("/pods").await?;
            ensure!(names.iter().any(|name| name == "\"seen\""), "{names:?}");
            ensure!(!names.iter().any(|name| name == "\"elsewhere\""), "{names:?}");
            Ok(())
        })
        .await?;
        ensure!(names("/runningpods/").await?.is_empty(), "nothing runs below");
        Ok(())
    })
}

#[test]
fn through_the_upper_api_server_what_the_lower_one_refuses_is_what_the_user_reads() -> anyhow::Result<()> {
    e2e::run(async {
        let scene = scene().await?;
        Pods::of(&scene.upper, "default").create(&bound("waiting", scene.link.name(), &scene.link)).await?;
        // The lower cluster has no nodes: there is no host to run a command on, and an empty log.
        let exec = ["exec", "waiting", "--namespace=default", "--", "id"];
        eventually(PATIENCE, "the refusal is passed on", async || {
            let refused = scene.upper.kubectl(&exec).await.err().context("it ran")?.to_string();
            ensure!(refused.contains("pod waiting does not have a host assigned"), "{refused}");
            Ok(())
        })
        .await?;
        let log = scene.upper.kubectl(&["logs", "waiting", "--namespace=default"]).await?;
        ensure!(log.stdout.is_empty(), "{log:?}");
        Ok(())
    })
}
