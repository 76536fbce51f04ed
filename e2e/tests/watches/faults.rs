// SPDX-License-Identifier: Apache-2.0
//! Broken watches and refused or lost answers, on either side: afterwards everything is as it should be.

use std::time::Duration;

use anyhow::ensure;
use e2e::kubeconfig::User;
use e2e::kwok::FINISH;
use e2e::link::Link;
use e2e::namespace;
use e2e::pods::{PATIENCE, Pods, uid};
use e2e::wait::eventually;
use http::Method;
use serde_json::json;
use tensile_testkit::fault_proxy::{Command, Fault, FaultProxy, Rule, Seen};

use super::world;

/// A virtual node that reaches both API servers through proxies, and its pods.
struct Faulty {
    link: Link,
    upper: FaultProxy,
    lower: FaultProxy,
    above: Pods,
    below: Pods,
}

impl Faulty {
    async fn within(name: &str, test: impl AsyncFnOnce(&Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let world = world().await?;
        let (upper, lower) = (world.upper.fault_proxy().await?, world.lower.fault_proxy().await?);
        let anybody = User::Anonymous;
        let link = Link::builder(&world.upper, &world.lower, name)
            .upper_kubeconfig(&world.upper.kubeconfig_for(name, Some(&upper.url()), &anybody)?)
            .lower_kubeconfig(&world.lower.kubeconfig_for(name, Some(&lower.url()), &anybody)?)
            .start()
            .await?;
        namespace::within(name, &world.upper, &[&world.lower], async |namespace| {
            let (above, below) = (Pods::of(&world.upper, namespace), Pods::of(&world.lower, namespace));
            test(&Self { link, upper, lower, above, below }).await
        })
        .await
    }

    fn sides(&self) -> [(&'static str, &FaultProxy); 2] {
        [("upper", &self.upper), ("lower", &self.lower)]
    }

    async fn create(&self, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            self.above.create(&self.link.pod(name)).await?;
        }
        Ok(())
    }

    async fn until_ready(&self, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            self.above.until_ready(name).await?;
        }
        Ok(())
    }

    /// Makes pods, and changes everything that can change on either side after `begin` and before `end`.
    async fn survives(
        &self,
        round: &str,
        begin: impl AsyncFnOnce() -> anyhow::Result<()>,
        end: impl FnOnce(),
    ) -> anyhow::Result<()> {
        let name = |what: &str| format!("{round}-{what}");
        let (above, below) = (&self.above, &self.below);
        let (old, new) = (["finishes", "deleted", "changes", "vanishes", "stays"], ["new-1", "new-2", "new-3"]);
        self.create(&old.map(name)).await?;
        self.until_ready(&old.map(name)).await?;
        let stays = below.get(&name("stays")).await?;

        begin().await?;
        above.merge(&name("changes"), json!({ "metadata": { "labels": { "round": round } } })).await?;
        below.annotate(&name("finishes"), FINISH, Some("Succeeded")).await?;
        below.until_phase(&name("finishes"), "Succeeded").await?;
        above.delete(&name("deleted"), None).await?;
        below.force_delete(&below.get(&name("vanishes")).await?).await?;
        self.create(&new.map(name)).await?;
        end();

        self.until_ready(&new.map(name)).await?;
        above.until_phase(&name("finishes"), "Succeeded").await?;
        above.until_phase(&name("vanishes"), "Failed").await?;
        above.until_gone(&name("deleted")).await?;
        below.until_gone(&name("deleted")).await?;
        below.until(&name("changes"), "follows", |pod| pod["metadata"]["labels"]["round"] == round).await?;
        ensure!(below.find(&name("vanishes")).await?.is_none(), "a lost pod runs again");
        ensure!(uid(&below.get(&name("stays")).await?) == uid(&stays), "a running pod was made anew");
        Ok(())
    }

    /// On each side in turn: `command` to all open watches. None can be opened again before everything has changed;
    /// the first ones then meet `rule`.
    async fn survives_watches(&self, command: Command, rule: impl Fn() -> Option<Rule>) -> anyhow::Result<()> {
        for (side, proxy) in self.sides() {
            let begin = async || {
                proxy.add(Rule::new(Fault::INTERNAL_ERROR).when(follows_pods));
                let before = proxy.requests(follows_pods).len();
                let open = proxy.command_watches(command);
                ensure!(open >= 2, "{side} has only {open} watches");
                eventually(PATIENCE, "the pods are looked for again", async || {
                    ensure!(proxy.requests(follows_pods).len() > before, "not yet");
                    Ok(())
                })
                .await
            };
            let end = || {
                proxy.clear();
                if let Some(rule) = rule() {
                    proxy.add(rule);
                }
            };
            self.survives(side, begin, end).await?;
        }
        Ok(())
    }

    /// On each side in turn: `rule` holds while everything changes.
    async fn survives_rule(&self, rule: impl Fn() -> Rule) -> anyhow::Result<()> {
        for (side, proxy) in self.sides() {
            let begin = async || {
                proxy.add(rule());
                Ok(())
            };
            self.survives(side, begin, || ()).await?;
            proxy.clear();
        }
        Ok(())
    }
}

/// Lists or watches all pods.
fn follows_pods(seen: &Seen) -> bool {
    seen.method == Method::GET && seen.path == "/api/v1/pods"
}

fn opens_watch(seen: &Seen) -> bool {
    seen.is_watch() && follows_pods(seen)
}

fn writes_pods(seen: &Seen) -> bool {
    seen.method != Method::GET && seen.is_about("pods")
}

#[test]
fn one_watch_of_pods_on_each_side_is_enough_for_all_namespaces() -> anyhow::Result<()> {
    e2e::run(Faulty::within("thrifty", async |faulty| {
        let world = world().await?;
        faulty.create(&["here".to_owned()]).await?;
        faulty.until_ready(&["here".to_owned()]).await?;
        namespace::within("elsewhere", &world.upper, &[&world.lower], async |namespace| {
            let elsewhere = Pods::of(&world.upper, namespace);
            elsewhere.create(&faulty.link.pod("there")).await?;
            elsewhere.until_ready("there").await.map(drop)
        })
        .await?;
        for (side, proxy) in faulty.sides() {
            let watches = proxy.requests(|seen| seen.is_watch() && seen.is_about("pods"));
            ensure!(watches.len() == 1, "{side}: {watches:?}");
        }
        let above = &faulty.upper.requests(opens_watch)[0].query;
        ensure!(above.contains("fieldSelector=spec.nodeName%3Dthrifty"), "other nodes' pods come too: {above}");
        Ok(())
    }))
}

#[test]
fn watches_that_end_are_taken_up_again() -> anyhow::Result<()> {
    e2e::run(Faulty::within("ends", async |faulty| faulty.survives_watches(Command::End, || None).await))
}

#[test]
fn watches_that_are_cut_are_taken_up_again() -> anyhow::Result<()> {
    e2e::run(Faulty::within("cut", async |faulty| faulty.survives_watches(Command::Cut, || None).await))
}

#[test]
fn half_an_event_is_not_taken_for_a_whole_one() -> anyhow::Result<()> {
    e2e::run(Faulty::within("midline", async |faulty| {
        faulty.survives_watches(Command::Cut, || Some(Rule::new(Fault::CutInLine(1)).when(opens_watch).times(3))).await
    }))
}

#[test]
fn a_watch_that_expired_in_the_stream_is_listed_anew() -> anyhow::Result<()> {
    e2e::run(Faulty::within("expires", async |faulty| faulty.survives_watches(Command::Expire, || None).await))
}

#[test]
fn a_watch_that_is_answered_with_410_is_listed_anew() -> anyhow::Result<()> {
    e2e::run(Faulty::within("gone-410", async |faulty| {
        faulty.survives_watches(Command::End, || Some(Rule::new(Fault::EXPIRED).when(opens_watch).times(2))).await
    }))
}

#[test]
fn a_watch_that_begins_with_410_is_listed_anew() -> anyhow::Result<()> {
    e2e::run(Faulty::within("stream-410", async |faulty| {
        let rule = || Some(Rule::new(Fault::ExpiredInStream).when(opens_watch).times(2));
        faulty.survives_watches(Command::End, rule).await
    }))
}

#[test]
fn requests_that_are_too_many_are_made_again() -> anyhow::Result<()> {
    e2e::run(Faulty::within("patience", async |faulty| {
        faulty.survives_rule(|| Rule::new(Fault::too_many_requests(1)).when(writes_pods).times(10)).await
    }))
}

#[test]
fn an_api_server_that_fails_for_a_while_is_asked_again() -> anyhow::Result<()> {
    e2e::run(Faulty::within("burst-500", async |faulty| {
        faulty.survives_watches(Command::Cut, || Some(Rule::new(Fault::INTERNAL_ERROR).times(20))).await
    }))
}

#[test]
fn what_was_done_although_its_answer_got_lost_is_not_done_twice() -> anyhow::Result<()> {
    // The API server has done what was asked; the answer breaks off.
    e2e::run(Faulty::within("lost-answer", async |faulty| {
        faulty.survives_rule(|| Rule::new(Fault::CutAfterBytes(10)).when(writes_pods).times(8)).await
    }))
}

#[test]
fn answers_that_come_after_later_events_do_not_confuse() -> anyhow::Result<()> {
    e2e::run(Faulty::within("late", async |faulty| {
        let late = Fault::Delay(Duration::from_millis(700));
        faulty.survives_rule(|| Rule::new(late.clone()).when(|seen| !seen.is_watch())).await
    }))
}
