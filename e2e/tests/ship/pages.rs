// SPDX-License-Identifier: Apache-2.0
//! Every command that README and docs show is one that its program takes: flags are known, charts render, files are there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use e2e::binaries::{self, SUPPORTED};
use e2e::helm::helm;
use e2e::service;
use tensile_testkit::shipped::repository;
use tokio::process::Command;

/// Programs of others: nothing here knows their flags.
const OTHERS: [&str; 7] = ["cat", "curl", "docker", "export", "kind", "sudo", "unset"];
/// Our own.
const OURS: [&str; 4] = ["virtual-node", "webhook", "descheduler", "multi-scheduler"];

/// README and all pages.
fn pages() -> anyhow::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (vec![repository("README.md")], vec![repository("docs/src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// What a page shows being typed, with lines that go on put together.
pub(crate) fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut lines = page.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        let Some(typed) = line.strip_prefix("$ ") else { continue };
        let mut command = typed.to_owned();
        while let Some(begun) = command.strip_suffix('\\') {
            command = format!("{begun}{}", lines.next().unwrap_or_default());
        }
        commands.push(command);
    }
    commands
}

/// The words of a command, as a shell makes them, up to where something else begins: a pipe, a comment.
fn words(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut quote) = (None::<String>, None::<char>);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '#' | '&' | '<' | '>') => break,
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The command itself: not what it is assigned to, and not the variables before it.
fn plain(command: &str) -> Vec<String> {
    let inner = command.split_once("=$(").map_or(command, |(_, rest)| rest.trim_end_matches(')'));
    let words = words(inner);
    let is_variable = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let variables = words.iter().take_while(is_variable).count();
    // Three dots stand for what else there may be.
    words.into_iter().skip(variables).filter(|word| word != "...").collect()
}

/// Fails if the program does not take these arguments.
async fn takes(program: &Path, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program).args(args).kill_on_drop(true).output().await?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {}: {told}", program.display(), args.join(" "));
    Ok(())
}

/// Helm renders what the command would install.
async fn renders(args: &[&str]) -> anyhow::Result<()> {
    let [verb @ ("install" | "upgrade" | "template"), release, chart, rest @ ..] = args else {
        bail!("helm {}", args.join(" "))
    };
    let chart = repository(chart).to_string_lossy().into_owned();
    // Values of the reader's own are not here.
    let own = |place: usize| rest[place] == "-f" || place.checked_sub(1).is_some_and(|before| rest[before] == "-f");
    let rest = rest.iter().enumerate().filter(|(place, arg)| **arg != "--create-namespace" && !own(*place));
    let rest: Vec<&str> = rest.map(|(_, arg)| *arg).collect();
    let template = [&["template", *release, chart.as_str(), "--kube-version", SUPPORTED[0]], rest.as_slice()].concat();
    helm(&template).await.with_context(|| format!("helm {verb} {release}")).map(drop)
}

/// Cargo's own subcommands, or an alias of the project.
fn is_known_to_cargo(subcommand: &str) -> anyhow::Result<bool> {
    let aliases = fs::read_to_string(repository(".cargo/config.toml"))?;
    let alias = aliases.lines().any(|line| line.split_once(" = ").is_some_and(|(name, _)| name == subcommand));
    Ok(alias || ["run", "build", "test"].contains(&subcommand))
}

/// Files of this repository that are named exist.
fn ensure_files(args: &[&str]) -> anyhow::Result<()> {
    let ours = args.iter().flat_map(|arg| arg.split('=')).filter(|arg| arg.starts_with("charts/"));
    for file in ours {
        ensure!(repository(file).exists(), "there is no {file}");
    }
    Ok(())
}

async fn check(command: &str) -> anyhow::Result<()> {
    let words = plain(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((program, args)) = words.split_first() else { return Ok(()) };
    ensure_files(args)?;
    let help = [args, &["--help"]].concat();
    match (*program, args) {
        (other, _) if OTHERS.contains(&other) => Ok(()),
        ("cargo", [subcommand, ..]) => {
            ensure!(is_known_to_cargo(subcommand)?, "cargo {subcommand}");
            Ok(())
        }
        ("helm", _) => renders(args).await,
        ("kubectl", ["tensile", ..]) => takes(&service::program("kubectl-tensile")?, &help[1..]).await,
        ("kubectl", _) => takes(&binaries::kubectl(SUPPORTED[0]).await?, &help).await,
        (ours, _) if OURS.contains(&ours) => takes(&service::program(ours)?, &help).await,
        (unknown, _) => bail!("nobody knows {unknown}"),
    }
}

#[test]
fn every_command_in_readme_and_docs_is_one_that_its_program_takes() -> anyhow::Result<()> {
    e2e::run(async {
        let mut checked = 0;
        for page in pages()? {
            for command in commands(&fs::read_to_string(&page)?) {
                let about = || format!("{}: $ {command}", page.display());
                check(&command).await.with_context(about)?;
                checked += 1;
            }
        }
        ensure!(checked > 40, "only {checked} commands were found");
        Ok(())
    })
}

#[test]
fn a_command_that_its_program_does_not_take_is_seen() -> anyhow::Result<()> {
    e2e::run(async {
        for command in [
            "cargo no-such",
            "helm install a charts/no-such",
            "helm install a charts/virtual-node --set no.such=value",
            "kubectl get pods --no-such-flag",
            "kubectl tensile status --no-such-flag",
            "kubectl apply -f charts/no-such.yaml",
            "virtual-node --no-such-flag",
            "no-such",
        ] {
            ensure!(check(command).await.is_err(), "{command} is taken");
        }
        Ok(())
    })
}

#[test]
fn commands_are_read_as_a_shell_reads_them() {
    let page = "text\n  $ SERVER=$(kubectl config view -o jsonpath='{.a b}' | cat)\n$ A=b cargo x \\\n    --y \"z  w\" # why\n";
    let plain: Vec<Vec<String>> = commands(page).iter().map(|command| plain(command)).collect();
    assert_eq!(plain, [vec!["kubectl", "config", "view", "-o", "jsonpath={.a b}"], vec!["cargo", "x", "--y", "z  w"]]);
}
