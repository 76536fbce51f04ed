// SPDX-License-Identifier: Apache-2.0
//! Keeps the architecture and the house rules: which crate may depend on which, and what every file owes its reader.
//!
//! Each check is a function from text to complaints, so that the checks themselves are tested, at the end.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace, and those of them that each may use in what it ships. A new crate must be added here.
const MAY_USE: &[(&str, &[&str])] = &[
    ("tensile-core", &[]),
    ("tensile-runtime", &["tensile-core"]),
    ("tensile-testkit", &[]),
    ("virtual-kubelet", &[]),
    ("virtual-node", &["tensile-core", "tensile-runtime", "virtual-kubelet"]),
    ("webhook", &["tensile-core", "tensile-runtime"]),
    ("descheduler", &["tensile-core", "tensile-runtime"]),
    ("multi-scheduler", &["tensile-core", "tensile-runtime"]),
    ("kubectl-tensile", &["tensile-core", "tensile-runtime"]),
    ("e2e", &["tensile-core", "tensile-testkit"]),
];

/// All that the core may use from outside: values and their formats. No clock, no I/O, no async, no client.
const CORE_MAY_USE: &[&str] =
    &["fnv", "foldhash", "jiff", "k8s-openapi", "kube-core", "memchr", "serde", "serde_json", "thiserror"];

/// Longest file that needs no reason, in lines.
const LONGEST: usize = 400;

/// Files that are longer, each with its reason. A file that has become short must leave the table.
const LONG_FILES: &[(&str, &str)] = &[];

/// Longest `main.rs`: it starts the program and decides nothing.
const LONGEST_MAIN: usize = 20;

/// The one file that spells our own labels and annotations.
const NAMES: &str = "crates/tensile-core/src/names.rs";

/// A source file of the workspace.
#[derive(Debug, Clone)]
struct Source {
    /// From the root of the repository.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Rust file under `crates` and `e2e`.
fn sources() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("e2e")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push(Source { path, text });
            }
        }
    }
    assert!(found.len() > 30, "only {} files found: the walk is broken", found.len());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Manifest of each crate, by its folder.
fn manifests() -> Vec<Source> {
    let root = root();
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.push(root.join("e2e"));
    folders.sort();
    let manifest = |folder: PathBuf| {
        let path = folder.join("Cargo.toml");
        Source {
            text: std::fs::read_to_string(&path).unwrap(),
            path: path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(),
        }
    };
    folders.into_iter().map(manifest).collect()
}

/// What cargo knows of the workspace's own crates.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Normal and build dependencies of each crate.
fn dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let texts = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        let shipped = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
        shipped.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
    };
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (package["name"].as_str().unwrap().to_owned(), texts(package))).collect()
}

/// Dependencies that go the wrong way.
fn wrong_ways(crates: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, used) in crates {
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| known == name) else {
            wrong.push(format!("{name} is not in the table of crates"));
            continue;
        };
        for used in used {
            if crates.contains_key(used) && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{name} may not depend on {used}"));
            }
            if name == "tensile-core" && !crates.contains_key(used) && !CORE_MAY_USE.contains(&used.as_str()) {
                wrong.push(format!("the core is pure: it may not depend on {used}"));
            }
        }
    }
    wrong
}

/// Manifests that do not share the workspace's lints and versions.
fn manifest_of_its_own(manifest: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    if !manifest.text.contains("[lints]\nworkspace = true") {
        wrong.push(format!("{} does not take the workspace's lints", manifest.path));
    }
    let mut section = "";
    for line in manifest.text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section.contains("dependencies") && !line.is_empty() && !line.starts_with('#') {
            let shared = line.contains("workspace = true") || line.contains(".workspace = true");
            if !shared || line.contains("version") {
                wrong.push(format!("{} names a version of its own: {line}", manifest.path));
            }
        }
    }
    wrong
}

/// The first line of every file.
const LICENCE: &str = "// SPDX-License-Identifier: Apache-2.0\n";

/// A file that does not say under which licence it is, or what it is.
fn without_header(source: &Source) -> Option<String> {
    let Some(text) = source.text.strip_prefix(LICENCE) else {
        return Some(format!("{} does not open with {:?}", source.path, LICENCE.trim()));
    };
    let says = text.lines().next().and_then(|line| line.strip_prefix("//!")).unwrap_or("").trim();
    (says.split(' ').count() < 3).then(|| format!("{} does not say in a `//!` sentence what it is", source.path))
}

/// A file that is too long, or excused though it is not.
fn too_long(source: &Source, excused: &[(&str, &str)]) -> Option<String> {
    let lines = source.text.lines().count();
    let reason = excused.iter().find(|(path, _)| *path == source.path);
    if source.path.ends_with("main.rs") && !is_test(&source.path) && lines > LONGEST_MAIN {
        return Some(format!("{} has {lines} lines; main decides nothing in {LONGEST_MAIN}", source.path));
    }
    match reason {
        None if lines > LONGEST => Some(format!("{} has {lines} lines and no reason for it", source.path)),
        Some(_) if lines <= LONGEST => Some(format!("{} has {lines} lines and needs no reason any more", source.path)),
        _ => None,
    }
}

/// A file that spells one of our names itself. Comments may, and tests must: their expectations are written out. So must
/// serde's `rename`, which takes only literals: there, the name must be one of `names`.
fn spells_names(source: &Source, names: &str) -> Vec<String> {
    let prefix = concat!("tensile", ".io/");
    if source.path == NAMES || is_test(&source.path) {
        return Vec::new();
    }
    let is_known = |line: &str| {
        let renamed = line.trim().strip_prefix("#[serde(").and_then(|rest| rest.split_once("rename = \""));
        renamed.and_then(|(_, rest)| rest.split('"').next()).is_some_and(|name| names.contains(&format!("\"{name}\"")))
    };
    let spelled = shipped(&source.text).filter(|(_, line)| line.contains(prefix) && !is_known(line));
    spelled.map(|(at, _)| format!("{}:{} spells {prefix} itself; {NAMES} does", source.path, at + 1)).collect()
}

/// What was left for later.
fn unfinished(source: &Source) -> Vec<String> {
    let marks = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!("), concat!("#[ig", "nore")];
    let found = |line: &str| marks.iter().any(|mark| line.contains(mark));
    let lines = source.text.lines().enumerate().filter(|(_, line)| found(line));
    lines.map(|(number, line)| format!("{}:{}: {}", source.path, number + 1, line.trim())).collect()
}

/// Whether a file is compiled only for tests.
fn is_test(path: &str) -> bool {
    path.starts_with("e2e/")
        || path.starts_with("crates/tensile-testkit/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
}

/// Lines of code that ship, with their numbers: no comments, and nothing from the tests at the end of a file on.
fn shipped(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    before_tests.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn dependencies_point_one_way() {
    none(wrong_ways(&dependencies(&metadata())));
}

#[test]
fn every_crate_takes_the_workspaces_lints_and_versions() {
    none(manifests().iter().flat_map(manifest_of_its_own));
}

#[test]
fn every_file_says_what_it_is() {
    none(sources().iter().filter_map(without_header));
}

#[test]
fn no_file_is_long_without_a_reason() {
    let sources = sources();
    none(sources.iter().filter_map(|source| too_long(source, LONG_FILES)));
    let gone = LONG_FILES.iter().filter(|(path, _)| !sources.iter().any(|source| source.path == *path));
    none(gone.map(|(path, _)| format!("{path} is excused and does not exist")));
}

#[test]
fn our_names_are_spelled_in_one_file() {
    let sources = sources();
    let names = sources.iter().find(|source| source.path == NAMES).unwrap();
    none(sources.iter().flat_map(|source| spells_names(source, &names.text)));
}

#[test]
fn nothing_is_left_unfinished() {
    none(sources().iter().flat_map(unfinished));
}

mod the_checks_themselves {
    //! Each check sees what it is for, and nothing else.

    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    fn crates(list: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        list.iter().map(|(name, used)| ((*name).to_owned(), used.iter().map(ToString::to_string).collect())).collect()
    }

    #[test]
    fn a_wrong_way_is_seen() {
        let seen = wrong_ways(&crates(&[
            ("tensile-core", &["tensile-runtime", "tokio", "serde"]),
            ("tensile-runtime", &["tensile-core", "tokio"]),
            ("webhook", &["descheduler"]),
            ("descheduler", &[]),
            ("newcomer", &[]),
        ]));
        assert_eq!(
            seen,
            [
                "newcomer is not in the table of crates",
                "tensile-core may not depend on tensile-runtime",
                "the core is pure: it may not depend on tokio",
                "webhook may not depend on descheduler",
            ]
        );
    }

    #[test]
    fn a_version_of_its_own_is_seen() {
        let text = "[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\nrand = \"0.9\"\n";
        assert_eq!(
            manifest_of_its_own(&source("a/Cargo.toml", text)),
            ["a/Cargo.toml names a version of its own: rand = \"0.9\""]
        );
        assert_eq!(manifest_of_its_own(&source("a/Cargo.toml", "[package]\n")).len(), 1);
    }

    #[test]
    fn a_missing_or_empty_header_is_seen() {
        assert!(without_header(&source("a.rs", &format!("{LICENCE}//! Says what it is.\n"))).is_none());
        assert!(without_header(&source("a.rs", "//! Says what it is.\n")).is_some(), "no licence");
        for text in ["", "use std::fmt;\n", "//! a\n", "/// Not a header of the file.\n"] {
            assert!(without_header(&source("a.rs", &format!("{LICENCE}{text}"))).is_some(), "{text:?}");
        }
    }

    #[test]
    fn length_is_seen_and_an_excuse_that_is_not_needed_too() {
        let long = source("a.rs", &"x\n".repeat(401));
        assert!(too_long(&long, &[]).is_some());
        assert!(too_long(&long, &[("a.rs", "a table")]).is_none());
        assert!(too_long(&source("a.rs", &"x\n".repeat(400)), &[]).is_none());
        assert!(too_long(&source("a.rs", "x\n"), &[("a.rs", "a table")]).is_some());
        assert!(too_long(&source("crates/webhook/src/main.rs", &"x\n".repeat(21)), &[]).is_some());
        assert!(too_long(&source("crates/webhook/tests/it/main.rs", &"x\n".repeat(21)), &[]).is_none());
    }

    #[test]
    fn a_name_spelled_elsewhere_is_seen_unless_in_a_comment_or_a_test() {
        let name = concat!("tensile", ".io/x");
        let code = format!("// {name}\nlet a = \"{name}\";\n#[cfg(test)]\nmod tests {{\nlet b = \"{name}\";\n}}\n");
        assert_eq!(spells_names(&source("crates/webhook/src/a.rs", &code), "").len(), 1);
        assert!(spells_names(&source(NAMES, &code), "").is_empty());
        assert!(spells_names(&source("crates/webhook/src/a/tests.rs", &code), "").is_empty());
    }

    #[test]
    fn a_name_in_a_serde_attribute_must_be_a_known_one() {
        let name = concat!("tensile", ".io/x");
        let code = format!("    #[serde(default, rename = \"{name}\")]\n    x: u8,\n");
        assert!(
            spells_names(&source("crates/webhook/src/a.rs", &code), &format!("pub const X: &str = \"{name}\";"))
                .is_empty()
        );
        assert_eq!(spells_names(&source("crates/webhook/src/a.rs", &code), "").len(), 1);
    }

    #[test]
    fn what_is_left_for_later_is_seen() {
        let text = format!("fn a() {{\n    {}!()\n}}\n", "todo");
        assert_eq!(unfinished(&source("a.rs", &text)).len(), 1);
    }
}
