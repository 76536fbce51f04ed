// SPDX-License-Identifier: Apache-2.0
//! Certificates that change while pods are created.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use e2e::cluster::client_of;
use e2e::kubeconfig::{self, User, kubeconfig};
use e2e::pods::{PATIENCE, Pods};
use e2e::wait::eventually;
use futures::future;
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::client::Body;
use serde_json::json;

use super::{World, choosy, stash, world};

/// Who creates pods at the same time.
const CREATORS: usize = 4;

/// What the Secret holds under this key.
async fn held(world: &World, key: &str) -> anyhow::Result<String> {
    let secrets: Api<Secret> = Api::namespaced(world.pair.upper.client(), &world.hooks.namespace);
    let data = secrets.get("webhook-certificate").await?.data.unwrap_or_default();
    Ok(String::from_utf8(data.get(key).with_context(|| format!("no {key}"))?.0.clone())?)
}

/// The certificates of a bundle.
fn certificates(bundle: &str) -> Vec<String> {
    bundle.split_inclusive("-----END CERTIFICATE-----\n").map(str::to_owned).collect()
}

/// Creates pods until `done`, and fails with the first that is not split.
async fn creates(world: &World, above: &Pods, done: &AtomicUsize, count: &AtomicUsize) -> anyhow::Result<()> {
    while done.load(Ordering::Relaxed) == 0 {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let pod = above.create_dry(&choosy(world, &format!("p-{number}"))).await?;
        ensure!(stash(&pod).is_some(), "pod {number} is not split");
    }
    Ok(())
}

/// Shakes hands with each replica as an API server that was told what is told now, and knows nothing from before.
async fn trusts(world: &World) -> anyhow::Result<()> {
    for (number, replica) in world.hooks.replicas.iter().enumerate() {
        loop {
            let told = world.hooks.bundles().await?;
            let path = world.pair.upper.folder().join(format!("stranger-{number}.kubeconfig"));
            let stranger = kubeconfig("webhook", &replica.server(), Some(&told[number]), &User::Anonymous);
            kubeconfig::write(&path, &stranger)?;
            let answer = client_of(&path).await?.send(Request::get("/healthz").body(Body::empty())?).await;
            match answer {
                Ok(answer) => {
                    ensure!(answer.status() == 200, "{}", answer.status());
                    break;
                }
                // What was read may be older than what is served.
                Err(_) if world.hooks.bundles().await? != told => {}
                Err(error) => return Err(error).with_context(|| format!("replica {number}")),
            }
        }
    }
    Ok(())
}

#[test]
fn across_the_rotation_of_the_ca_not_one_pod_of_a_steady_stream_is_refused() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        world
            .pair
            .within("rotation", async |above, _| {
                let (done, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let creators = future::try_join_all((0..CREATORS).map(|_| creates(world, above, &done, &count)));
                let strangers = async {
                    while done.load(Ordering::Relaxed) == 0 {
                        trusts(world).await?;
                    }
                    anyhow::Ok(())
                };
                let rotated = async {
                    let first = certificates(&held(world, "ca.crt").await?);
                    let mut leaves = vec![held(world, "tls.crt").await?];
                    // Through a whole turn: a new CA is told, signs, and the old one is told no more.
                    eventually(2 * PATIENCE, "there is another CA, alone", async || {
                        let leaf = held(world, "tls.crt").await?;
                        if leaves.last() != Some(&leaf) {
                            leaves.push(leaf);
                        }
                        let now = certificates(&held(world, "ca.crt").await?);
                        ensure!(now.len() == 1 && !first.contains(&now[0]), "{} CAs", now.len());
                        ensure!(world.hooks.bundles().await?.iter().all(|told| *told == now[0]), "not told yet");
                        Ok(())
                    })
                    .await?;
                    done.store(1, Ordering::Relaxed);
                    ensure!(leaves.len() >= 3, "only {} certificates were seen", leaves.len());
                    Ok(())
                };
                tokio::try_join!(creators, strangers, rotated)?;
                ensure!(count.load(Ordering::Relaxed) > 100, "that was no stream of pods: {count:?}");
                Ok(())
            })
            .await
    })
}

#[test]
fn a_bundle_that_was_reset_is_mended() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _alone = world.peace.write().await;
        let mut reset = world.hooks.registration.clone();
        for webhook in reset["webhooks"].as_array_mut().into_iter().flatten() {
            webhook["clientConfig"]["caBundle"] = json!("");
        }
        world.pair.upper.apply([&reset], &["--server-side", "--force-conflicts"]).await?;
        eventually(PATIENCE, "the bundles are back", async || {
            let told = world.hooks.bundles().await?;
            ensure!(told.iter().all(|bundle| bundle.contains("BEGIN CERTIFICATE")), "{told:?}");
            Ok(())
        })
        .await?;
        world
            .pair
            .within("mended", async |above, _| {
                eventually(PATIENCE, "pods are split again", async || {
                    ensure!(stash(&above.create_dry(&choosy(world, "again")).await?).is_some(), "it is not split");
                    Ok(())
                })
                .await
            })
            .await
    })
}

#[test]
fn a_secret_that_was_deleted_or_damaged_is_made_anew() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _alone = world.peace.write().await;
        let namespace = format!("--namespace={}", world.hooks.namespace);
        let damage = r#"{"data":{"ca.key":"Z2FyYmFnZQ=="}}"#;
        for args in [
            ["delete", "secret", "webhook-certificate"].as_slice(),
            &["patch", "secret", "webhook-certificate", "--patch", damage],
        ] {
            let before = held(world, "ca.crt").await?;
            world.pair.upper.kubectl(&[args, &[namespace.as_str()]].concat()).await?;
            eventually(PATIENCE, "there is another CA, and it is told", async || {
                let now = held(world, "ca.crt").await?;
                ensure!(!now.contains(&before), "it is the old one");
                ensure!(world.hooks.bundles().await?.iter().all(|told| *told == now), "not told yet");
                Ok(())
            })
            .await?;
            eventually(PATIENCE, "the replicas serve what it signed", async || trusts(world).await).await?;
        }
        Ok(())
    })
}

#[test]
fn readiness_and_metrics_tell_of_the_certificate() -> anyhow::Result<()> {
    e2e::run(async {
        let world = world().await?;
        let _peace = world.peace.read().await;
        for replica in &world.hooks.replicas {
            let (status, told) = replica.admin("/readyz").await?;
            ensure!(
                (status, told.as_str()) == (200, "[+]caBundle ok\n[+]certificate ok\n[+]claims ok\n[+]webhook ok\n"),
                "{told}"
            );
            let (_, metrics) = replica.admin("/metrics").await?;
            let name = "tensile_webhook_certificate_expiration_seconds ";
            let ends = metrics.lines().find_map(|line| line.strip_prefix(name)).context("no such metric")?;
            let left = ends.parse::<i64>()? - jiff::Timestamp::now().as_second();
            ensure!((0..=12).contains(&left), "it ends in {left} s");
        }
        Ok(())
    })
}
