// SPDX-License-Identifier: Apache-2.0
//! README and the start page: each block of commands is run as it stands there, or it is said here why not.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::binaries::{self, SUPPORTED};
use e2e::process::{Launch, Signal};
use e2e::service;
use e2e::wait::eventually;
use tensile_testkit::shipped::repository;

use crate::desk::Desk;
use crate::pages::commands;

/// A block of commands: its page, and what its first line begins with.
pub(crate) struct Block(&'static str, &'static str);

const README: &str = "README.md";
const START: &str = "docs/src/start.md";
/// Run by the proof.
pub(crate) const INSTALL: Block = Block(README, "kubectl tensile join");
const DEMO: Block = Block(START, "cargo demo");
const LOOK: Block = Block(START, "kubectl --kubeconfig UPPER get nodes");

/// Those that are not run, and why.
const NOT_RUN: [(Block, &str); 3] = [
    (Block(README, "cargo demo"), "the two commands of the start page, once more"),
    (Block(START, "cargo accept"), "it is what runs this test"),
    (
        Block(START, "kind create cluster"),
        "kind needs Docker and a registry; all but its own commands and Docker's are README's, which are run",
    ),
];

/// The demo is there within this time: three clusters, on two cores on which others work too.
const SET: Duration = Duration::from_secs(240);

impl Block {
    /// Its commands.
    pub(crate) fn commands(&self) -> anyhow::Result<Vec<String>> {
        let found = blocks(&fs::read_to_string(repository(self.0))?).into_iter().find(|block| self.is(block));
        found.with_context(|| format!("{} has no block that begins with {}", self.0, self.1))
    }

    fn is(&self, commands: &[String]) -> bool {
        commands.first().is_some_and(|first| first.starts_with(self.1))
    }
}

/// The blocks of a page, each as its commands.
fn blocks(page: &str) -> Vec<Vec<String>> {
    page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()).map(commands).collect()
}

#[test]
fn every_block_of_commands_on_the_first_pages_is_run_or_it_is_said_why_not() -> anyhow::Result<()> {
    let known = || [&INSTALL, &DEMO, &LOOK].into_iter().chain(NOT_RUN.iter().map(|(block, _)| block));
    for page in [README, START] {
        let text = fs::read_to_string(repository(page))?;
        let shown = blocks(&text);
        ensure!(text.matches("\n```").count() == 2 * shown.len(), "{page} has blocks of another kind");
        for block in shown {
            let count = known().filter(|known| known.0 == page && known.is(&block)).count();
            ensure!(count == 1, "{page} shows what {count} tests run, and nobody says why not: {block:?}");
        }
    }
    for block in known() {
        ensure!(!block.commands()?.is_empty(), "{} has an empty block", block.0);
    }
    Ok(())
}

#[test]
fn the_demo_shows_what_the_start_page_says_and_goes_with_all_it_made() -> anyhow::Result<()> {
    e2e::run(async {
        let desk = Desk::new()?;
        desk.program("kubectl", &binaries::kubectl(SUPPORTED[0]).await?)?;
        // The alias of the project: cargo builds this program and runs it.
        desk.script("cargo", &format!("exec {} \"$@\"", service::program("e2e")?.display()))?;
        let demo = DEMO.commands()?.join("\n");
        let log = desk.file("demo.log");
        let launch = Launch::new("demo", "bash", &log).args(["-c", &demo]).env("PATH", desk.path());
        let mut process = launch.start()?;
        let told = eventually(SET, "the demo says how it ends", async || {
            if let Err(ended) = process.ensure_running() {
                return Ok(Err(ended));
            }
            let told = fs::read_to_string(&log)?;
            ensure!(told.contains("Ctrl-C ends it"), "{told}");
            Ok(Ok(told))
        });
        let told = told.await??;
        let of = |cluster: &str| {
            let line = told.lines().find(|line| line.ends_with(&format!("# {cluster}")));
            line.and_then(|line| line.split_whitespace().nth(2)).with_context(|| format!("no kubeconfig of {cluster}"))
        };
        let upper = of("upper")?;
        for command in LOOK.commands()? {
            for lower in [of("east")?, of("west")?] {
                let typed = command.replace("UPPER", upper).replace("LOWER", lower);
                let said = desk.types(&typed, "/dev/null".as_ref()).await?;
                let pods = command.contains("get pods");
                let word = if pods { "Running" } else { "Ready" };
                ensure!(said.contains(word) && !said.contains("No resources"), "$ {typed}\n{said}");
            }
        }
        process.signal(Signal::INT)?;
        let status = process.ended(service::SOON).await?;
        ensure!(status.success(), "{status}");
        ensure!(!std::path::Path::new(upper).exists(), "{upper} is still there");
        Ok(())
    })
}
