// SPDX-License-Identifier: Apache-2.0
//! Everything once that the rights of the charts are for, and nothing that they are not for.

use std::fs;

use anyhow::{Context as _, ensure};
use e2e::objects::Objects;
use e2e::pods::{PATIENCE, Pods};
use e2e::process::Launch;
use e2e::real_node;
use e2e::ship::lab::{Lab, NAMESPACE};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::proof::{NODE, TEAM};

/// Uses the clusters as users and operators do.
pub(crate) async fn everything_once(lab: &Lab, desk: &Desk) -> anyhow::Result<()> {
    let (above, below) = (Pods::of(&lab.upper, TEAM), Pods::of(&lab.lower, TEAM));
    let folder = tempfile::tempdir()?;
    lab.lower.apply([&volume(folder.path())], &[]).await?;
    lab.upper.apply(&objects("first"), &[]).await?;
    let created = above.until_ready("rich").await?;
    below.until_ready("rich").await?;
    changes(lab, &above, &below).await?;
    streams(lab).await?;
    events(lab, &above, &created).await?;
    numbers(lab, desk).await?;
    strangers(lab).await?;
    goes(lab, &above, &below).await
}

/// Runs kubectl against the upper cluster, in the namespace of the users.
async fn kubectl(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    let output = lab.upper.kubectl(&[&["-n", TEAM], args].concat()).await?;
    Ok(String::from_utf8(output.stdout)?)
}

/// A volume below that the claim gets.
fn volume(path: &std::path::Path) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "data" },
        "spec": {
            "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "lower",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": path },
        },
    })
}

/// A pod with all that pods bring along; the content of what it refers to is `content`.
fn objects(content: &str) -> Vec<Value> {
    let named = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": TEAM } });
    let with = |kind, name, more: Value| e2e::pods::with(named(kind, name), more);
    let mut container = real_node::pod("rich", "while sleep 1; do echo tick; done")["spec"]["containers"][0].clone();
    container["volumeMounts"] =
        json!([{ "name": "data", "mountPath": "/data" }, { "name": "settings", "mountPath": "/settings" }]);
    container["env"] = json!([{ "name": "LOGIN", "valueFrom": { "secretKeyRef": { "name": "login", "key": "key" } } }]);
    container["resources"] = json!({ "requests": { "cpu": "10m" } });
    container["resizePolicy"] = json!([{ "resourceName": "cpu", "restartPolicy": "NotRequired" }]);
    let spec = json!({
        "nodeSelector": { "clusterID": NODE }, "terminationGracePeriodSeconds": 0,
        "tolerations": [{ "key": "virtual-kubelet.io/provider", "operator": "Exists" }],
        "volumes": [
            { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
            { "name": "settings", "configMap": { "name": "settings" } },
        ],
        "containers": [container],
    });
    let labels = json!({ "app": "rich", "virtual-pod": "true" });
    vec![
        with("ConfigMap", "settings", json!({ "data": { "key": content } })),
        with("Secret", "login", json!({ "stringData": { "key": content } })),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "lower" },
            "provisioner": "volumes.tensile.io", "volumeBindingMode": "WaitForFirstConsumer",
        }),
        with(
            "PersistentVolumeClaim",
            "data",
            json!({ "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "lower", "resources": { "requests": { "storage": "1Gi" } },
        } }),
        ),
        with(
            "Service",
            "rich",
            json!({ "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "services.tensile.io/lower",
            "selector": { "app": "rich" }, "ports": [{ "port": 80 }],
        } }),
        ),
        with("Pod", "rich", json!({ "metadata": { "labels": labels }, "spec": spec })),
    ]
}

/// What changes upstairs changes below.
async fn changes(lab: &Lab, above: &Pods, below: &Pods) -> anyhow::Result<()> {
    let copies = objects("second");
    lab.upper.apply(&copies[..2], &[]).await?;
    for kind in ["configmap/settings", "secret/login"] {
        eventually(PATIENCE, &format!("{kind} changes below"), async || {
            let data = ["-n", TEAM, "get", kind, "-o", "go-template={{.data.key}}"];
            let data = String::from_utf8(lab.lower.kubectl(&data).await?.stdout)?;
            ensure!(["second", "c2Vjb25k"].contains(&data.as_str()), "{data}");
            Ok(())
        })
        .await?;
    }
    kubectl(lab, &["label", "pod", "rich", "colour=blue"]).await?;
    below.until("rich", "is labelled", |pod| pod["metadata"]["labels"]["colour"] == "blue").await?;
    let resources =
        json!({ "spec": { "containers": [{ "name": "main", "resources": { "requests": { "cpu": "20m" } } }] } });
    above.merge_subresource("rich", "resize", resources).await?;
    let cpu = |pod: &Value| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "20m";
    below.until("rich", "is resized", cpu).await?;
    kubectl(lab, &["debug", "rich", "--image", real_node::BUSYBOX, "--container=look", "--", "true"]).await?;
    below.until("rich", "is looked into", |pod| pod["spec"]["ephemeralContainers"][0]["name"] == "look").await?;
    let ports = r#"--patch={"spec":{"ports":[{"name":"http","port":80}]}}"#;
    kubectl(lab, &["patch", "service", "rich", "--type=merge", ports]).await?;
    eventually(PATIENCE, "the port has its name below", async || {
        let name = ["-n", TEAM, "get", "service", "rich", "-o", "go-template={{(index .spec.ports 0).name}}"];
        let name = lab.lower.kubectl(&name).await?.stdout;
        ensure!(name == b"http", "{}", String::from_utf8_lossy(&name));
        Ok(())
    })
    .await?;
    let address = r#"--patch={"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.80"}]}}}"#;
    lab.lower
        .kubectl(&["-n", TEAM, "patch", "service", "rich", "--subresource=status", "--type=merge", address])
        .await?;
    eventually(PATIENCE, "the address of the load balancer comes up", async || {
        let service = kubectl(lab, &["get", "service", "rich", "-o", "jsonpath={.status.loadBalancer}"]).await?;
        ensure!(service.contains("192.0.2.80"), "{service}");
        Ok(())
    })
    .await
}

/// exec, attach and port-forward, over both protocols that kubectl speaks.
async fn streams(lab: &Lab) -> anyhow::Result<()> {
    for websockets in ["true", "false"] {
        for (args, words) in [
            (["exec", "rich", "--container=main", "--", "echo", "hello"].as_slice(), "hello"),
            (["attach", "rich", "--container=main"].as_slice(), "tick"),
            (["port-forward", "rich", ":80"].as_slice(), "Forwarding from"),
        ] {
            let log = lab.upper.folder().join(format!("{}-{websockets}.log", args[0]));
            let launch = Launch::new(args[0], lab.upper.kubectl_path(), &log)
                .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
                .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
                .arg("--kubeconfig")
                .arg(lab.upper.kubeconfig());
            let _running = launch.args(["-n", TEAM]).args(args).start()?;
            eventually(PATIENCE, &format!("kubectl {} says {words}", args[0]), async || {
                let said = fs::read_to_string(&log)?;
                ensure!(said.contains(words), "{said}");
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

/// Events of lower pods that are repeated, and one of the virtual node's own.
async fn events(lab: &Lab, above: &Pods, rich: &Value) -> anyhow::Result<()> {
    let events = Objects::within::<Event>(&lab.upper, TEAM);
    let spec = rich["spec"].clone();
    let pod = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut spec = json!({
            "nodeSelector": spec["nodeSelector"], "tolerations": spec["tolerations"], "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "containers": real_node::pod(name, "exec sleep 1000000")["spec"]["containers"],
        });
        change(&mut spec);
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "virtual-pod": "true" } }, "spec": spec })
    };
    above
        .create(&pod("unready", &|spec| {
            spec["containers"][0]["readinessProbe"] = json!({ "exec": { "command": ["false"] }, "periodSeconds": 1 });
        }))
        .await?;
    above
        .create(&pod("waits", &|spec| {
            spec["containers"][0]["envFrom"] = json!([{ "configMapRef": { "name": "missing" } }]);
        }))
        .await?;
    let repeated = |event: &Value| {
        event["reason"] == "Unhealthy" && event["count"].as_i64() > Some(1) && event["source"]["component"] == "kubelet"
    };
    events.until_one("involvedObject.name=unready", "is repeated", repeated).await?;
    let series = |event: &Value| event["series"]["count"].as_i64() > Some(1);
    events.until_one("involvedObject.name=waits", "is a series", series).await?;
    // A namespace that is new below.
    lab.upper.kubectl(&["create", "namespace", "fresh"]).await?;
    let fresh = Pods::of(&lab.upper, "fresh");
    eventually(PATIENCE, "pods can be created in the new namespace", async || fresh.create(&pod("new", &|_| {})).await)
        .await?;
    fresh.until_ready("new").await?;
    lab.upper.kubectl(&["delete", "namespace", "fresh"]).await.map(drop)
}

/// Usage: from the metrics API, which is not there, and then from the kubelets, as the operator allows.
async fn numbers(lab: &Lab, desk: &Desk) -> anyhow::Result<()> {
    let summary = format!("/api/v1/nodes/{NODE}/proxy/stats/summary");
    lab.upper.kubectl(&["get", "--raw", &summary]).await.err().context("there is a metrics API")?;
    let manifest = e2e::helm::chart("virtual-node").join("files/lower-rbac-kubelets.yaml").display().to_string();
    lab.lower.kubectl(&["apply", "-f", &manifest]).await?;
    eventually(2 * PATIENCE, "kubectl tensile top shows the pods", async || {
        let said = desk.types("kubectl tensile top --pods", &lab.upper.kubeconfig()).await?;
        ensure!(said.contains("rich"), "{said}");
        Ok(())
    })
    .await
}

/// Who comes to a port of ours with a token is somebody whom the API server knows, and may do what that allows.
async fn strangers(lab: &Lab) -> anyhow::Result<()> {
    let token = kubectl(lab, &["create", "token", "default"]).await?;
    let explain = format!("/explain?namespace={TEAM}&pod=rich");
    for (chart, port, path) in [("virtual-node", "10250", "/healthz"), ("multi-scheduler", "8443", &explain)] {
        for server in servers(lab, chart, port).await? {
            let refused = get(lab, &server, token.trim(), path).await.err().context("anybody may")?;
            ensure!(format!("{refused:#}").contains("orbidden"), "{chart}: {refused:#}");
        }
    }
    let role = "--clusterrole=tensile-tensile-scheduler-multi-scheduler-explain";
    let account = format!("--serviceaccount={TEAM}:default");
    lab.upper.kubectl(&["create", "clusterrolebinding", "explain", role, &account]).await?;
    for server in servers(lab, "multi-scheduler", "8443").await? {
        let told =
            eventually(PATIENCE, "the pod is explained", async || get(lab, &server, token.trim(), &explain).await);
        let told = told.await?;
        ensure!(told.contains(NODE), "{told}");
    }
    lab.upper.kubectl(&["delete", "clusterrolebinding", "explain"]).await.map(drop)
}

/// Where the pods of a chart are reached.
async fn servers(lab: &Lab, chart: &str, port: &str) -> anyhow::Result<Vec<String>> {
    let of_chart = format!("app.kubernetes.io/name={chart}");
    let pods = Objects::within::<Pod>(&lab.upper, NAMESPACE).list("", &of_chart).await?;
    let address = |pod: &Value| Some(format!("https://{}:{port}", pod["status"]["podIP"].as_str()?));
    Ok(pods.iter().filter_map(address).collect())
}

/// What a server answers to somebody with a token.
async fn get(lab: &Lab, server: &str, token: &str, path: &str) -> anyhow::Result<String> {
    let mut command = tokio::process::Command::new(lab.upper.kubectl_path());
    command.args(["--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--server", server, "--token", token]);
    let output = command.args(["get", "--raw", path]).kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "{server}{path}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// What goes upstairs goes below.
async fn goes(lab: &Lab, above: &Pods, below: &Pods) -> anyhow::Result<()> {
    kubectl(lab, &["delete", "pods", "rich", "unready", "waits"]).await?;
    below.until_gone("rich").await?;
    above.until_gone("rich").await?;
    kubectl(lab, &["delete", "service/rich", "pvc/data", "configmap/settings", "secret/login"]).await?;
    for kind in ["services", "persistentvolumeclaims"] {
        eventually(PATIENCE, &format!("{kind} are gone below"), async || {
            let left = lab.lower.kubectl(&["-n", TEAM, "get", kind, "-o", "name"]).await?.stdout;
            ensure!(left.is_empty(), "{}", String::from_utf8_lossy(&left));
            Ok(())
        })
        .await?;
    }
    lab.upper.kubectl(&["delete", "storageclass", "lower"]).await.map(drop)
}
