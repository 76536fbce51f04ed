// SPDX-License-Identifier: Apache-2.0
//! The fault proxy against a real API server: without rules it changes nothing, and each fault is what it says.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::cluster::{Cluster, client_of};
use e2e::kubeconfig::User;
use e2e::wait::eventually;
use futures::{StreamExt as _, TryStreamExt as _};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use tensile_testkit::fault_proxy::{Command, Fault, FaultProxy, Rule, Seen};
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinSet;

const MINUTE: Duration = Duration::from_secs(60);

/// One API server for all tests; each has its own proxy and namespace.
async fn cluster() -> anyhow::Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(async || Cluster::builder("faulty").scheduler(false).start().await).await
}

/// Runs `test` with a proxy and a client that goes through it.
async fn through_proxy(
    name: &str,
    test: impl AsyncFnOnce(&FaultProxy, Api<ConfigMap>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cluster = cluster().await?;
    e2e::namespace::within(name, cluster, &[], async |namespace| {
        let proxy = cluster.fault_proxy().await?;
        let kubeconfig = cluster.kubeconfig_for(namespace, Some(&proxy.url()), &User::Anonymous)?;
        let client: Client = client_of(&kubeconfig).await?;
        test(&proxy, Api::namespaced(client, namespace)).await
    })
    .await
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await
}

fn opens_watch(seen: &Seen) -> bool {
    seen.is_watch() && seen.is_about("configmaps")
}

fn lists(seen: &Seen) -> bool {
    seen.method == Method::GET && !seen.is_watch() && seen.path.ends_with("/configmaps")
}

/// Whatever happens to the first watch, a watcher sees what was made before and after it.
async fn a_watcher_survives(
    proxy: &FaultProxy,
    maps: &Api<ConfigMap>,
    fault: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (names, mut seen) = mpsc::unbounded_channel();
    let watched = watcher(maps.clone(), watcher::Config::default()).default_backoff().touched_objects();
    let mut watching = JoinSet::new();
    watching.spawn(watched.for_each(move |map| {
        // Errors are what the watcher survives; a closed channel means that the test is over.
        map.map(|map| names.send(map.name_any())).ok();
        std::future::ready(())
    }));
    let mut wait_for = async |name: &str| {
        let look = async {
            while seen.recv().await.context("the watcher ended")? != name {}
            anyhow::Ok(())
        };
        tokio::time::timeout(MINUTE, look).await.with_context(|| format!("{name} is not seen"))?
    };
    eventually(MINUTE, "a watch is open", async || {
        ensure!(!proxy.requests(opens_watch).is_empty(), "none");
        Ok(())
    })
    .await?;
    create(maps, "before").await?;
    wait_for("before").await?;
    fault().await?;
    create(maps, "after").await?;
    wait_for("after").await
}

#[test]
fn without_rules_everything_passes() -> anyhow::Result<()> {
    e2e::run(through_proxy("untouched", async |proxy, maps| {
        create(&maps, "made").await?;
        ensure!(maps.get("made").await?.name_any() == "made");
        let posts = proxy.requests(|seen| seen.method == Method::POST);
        ensure!(posts.len() == 1 && posts[0].is_about("configmaps"), "{posts:?}");
        Ok(())
    }))
}

#[test]
fn a_status_is_answered_in_place_of_the_api_server() -> anyhow::Result<()> {
    e2e::run(through_proxy("status", async |proxy, maps| {
        proxy.add(Rule::new(Fault::INTERNAL_ERROR).times(1));
        let refused = create(&maps, "made").await.err().context("it must fail")?;
        let kube::Error::Api(status) = &refused else { anyhow::bail!("{refused}") };
        ensure!(status.code == 500 && status.reason == "InternalError", "{status:?}");
        create(&maps, "made").await?;

        // kube's client retries 429 by itself.
        proxy.add(Rule::new(Fault::too_many_requests(1)).times(2));
        maps.get("made").await?;
        ensure!(proxy.requests(|seen| seen.path.ends_with("/made")).len() == 3, "it asks three times");
        Ok(())
    }))
}

#[test]
fn a_delay_delays_and_a_stall_never_answers() -> anyhow::Result<()> {
    e2e::run(through_proxy("late", async |proxy, maps| {
        let pause = Duration::from_millis(300);
        proxy.add(Rule::new(Fault::Delay(pause)).times(1));
        let begin = Instant::now();
        create(&maps, "made").await?;
        ensure!(begin.elapsed() >= pause, "it took only {:?}", begin.elapsed());

        proxy.add(Rule::new(Fault::Stall).times(1));
        ensure!(tokio::time::timeout(pause, maps.get("made")).await.is_err(), "a stalled request was answered");
        maps.get("made").await?;
        Ok(())
    }))
}

#[test]
fn an_answer_is_cut_after_some_bytes() -> anyhow::Result<()> {
    e2e::run(through_proxy("cut", async |proxy, maps| {
        create(&maps, "made").await?;
        proxy.add(Rule::new(Fault::CutAfterBytes(20)).times(1));
        let cut = maps.get("made").await.err().context("half an object was taken for a whole one")?;
        ensure!(!matches!(cut, kube::Error::Api(_)), "{cut}");
        maps.get("made").await?;
        Ok(())
    }))
}

#[test]
fn a_slow_answer_takes_its_time() -> anyhow::Result<()> {
    e2e::run(through_proxy("slow", async |proxy, maps| {
        create(&maps, "made").await?;
        proxy.add(Rule::new(Fault::Slow { bytes_per_second: 1000 }).times(1));
        let begin = Instant::now();
        maps.get("made").await?;
        // The object is some hundred bytes.
        ensure!(begin.elapsed() >= Duration::from_millis(150), "it took only {:?}", begin.elapsed());
        Ok(())
    }))
}

#[test]
fn a_watch_can_be_cut_in_the_middle_of_an_event() -> anyhow::Result<()> {
    e2e::run(through_proxy("midline", async |proxy, maps| {
        proxy.add(Rule::new(Fault::CutInLine(1)).when(opens_watch).times(1));
        let version = maps.list(&kube::api::ListParams::default()).await?.metadata.resource_version;
        let version = version.context("no resource version")?;
        let mut events = maps.watch(&kube::api::WatchParams::default(), &version).await?.boxed();
        create(&maps, "one").await?;
        create(&maps, "two").await?;
        ensure!(events.try_next().await?.is_some(), "the first event passes");
        let second = events.next().await;
        ensure!(matches!(second, None | Some(Err(_))), "half an event was taken for a whole one");
        Ok(())
    }))
}

#[test]
fn a_watcher_goes_on_after_its_watch_was_cut() -> anyhow::Result<()> {
    e2e::run(through_proxy("resumes", async |proxy, maps| {
        a_watcher_survives(proxy, &maps, async || {
            ensure!(proxy.command_watches(Command::Cut) == 1, "one watch is open");
            Ok(())
        })
        .await?;
        ensure!(proxy.requests(opens_watch).len() == 2, "it watches again");
        ensure!(proxy.requests(lists).len() == 1, "without listing again");
        Ok(())
    }))
}

#[test]
fn a_watcher_lists_again_after_410_in_the_stream() -> anyhow::Result<()> {
    e2e::run(through_proxy("expires", async |proxy, maps| {
        a_watcher_survives(proxy, &maps, async || {
            ensure!(proxy.command_watches(Command::Expire) == 1, "one watch is open");
            Ok(())
        })
        .await?;
        ensure!(proxy.requests(lists).len() == 2, "{:?}", proxy.requests(lists));
        Ok(())
    }))
}

#[test]
fn a_stalled_watch_stays_open_and_silent() -> anyhow::Result<()> {
    e2e::run(through_proxy("silent", async |proxy, maps| {
        let version = maps.list(&kube::api::ListParams::default()).await?.metadata.resource_version;
        let version = version.context("no resource version")?;
        let mut events = maps.watch(&kube::api::WatchParams::default(), &version).await?.boxed();
        create(&maps, "one").await?;
        ensure!(events.try_next().await?.is_some(), "the first event passes");
        ensure!(proxy.command_watches(Command::Stall) == 1, "one watch is open");
        create(&maps, "two").await?;
        let silent = tokio::time::timeout(Duration::from_millis(300), events.next()).await;
        ensure!(silent.is_err(), "a stalled watch spoke");
        Ok(())
    }))
}

#[test]
fn a_watch_tells_again_what_happened_since_an_older_version() -> anyhow::Result<()> {
    e2e::run(through_proxy("again", async |proxy, maps| {
        let before = maps.list(&kube::api::ListParams::default()).await?.metadata.resource_version;
        let before = before.context("no resource version")?;
        create(&maps, "made").await?;
        maps.delete("made", &kube::api::DeleteParams::default()).await?;
        let now = maps.list(&kube::api::ListParams::default()).await?.metadata.resource_version;
        proxy.add(Rule::new(Fault::WatchFrom(before)).when(opens_watch).times(1));
        let now = now.context("no resource version")?;
        let mut events = maps.watch(&kube::api::WatchParams::default(), &now).await?.boxed();
        for kind in ["Added", "Deleted"] {
            let event = events.try_next().await?.context("the watch ended")?;
            ensure!(format!("{event:?}").starts_with(kind), "{event:?} is not {kind}");
        }
        Ok(())
    }))
}
