// SPDX-License-Identifier: Apache-2.0
//! Keeps the dependencies honest: each is used by who declares it, and has its reason in the docs.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn crates() -> Vec<PathBuf> {
    let root = root();
    let inside = std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    inside.chain([root.join("e2e")]).collect()
}

/// Names in the sections of a manifest whose title ends with `section`.
fn declared(manifest: &str, section: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']).ends_with(section);
        } else if let Some((name, _)) = line.split_once(['=', '.']).filter(|_| inside && !line.starts_with('#')) {
            names.insert(name.trim().to_owned());
        }
    }
    names
}

/// All Rust text of a crate.
fn text_of(folder: &Path) -> String {
    let mut text = String::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

/// Whether Rust text names the crate, as a path or in an attribute.
fn names_crate(text: &str, dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    let is_word = |at: usize| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + name.len()..).unwrap_or_default();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            && (after.starts_with("::") || after.starts_with(';') || after.starts_with(" as "))
    };
    text.match_indices(&name).any(|(at, _)| is_word(at))
}

#[test]
fn every_crate_uses_what_it_declares() {
    let mut unused = Vec::new();
    for folder in crates() {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let text = text_of(&folder);
        let declared = declared(&manifest, "dependencies").into_iter();
        let of_this = declared.filter(|dependency| !names_crate(&text, dependency));
        unused.extend(of_this.map(|dependency| format!("{} does not use {dependency}", folder.display())));
    }
    assert!(unused.is_empty(), "\n{}", unused.join("\n"));
}

#[test]
fn every_dependency_of_the_workspace_is_used_and_has_its_reason() {
    let shared = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let shared = declared(&shared, "workspace.dependencies");
    assert!(shared.contains("kube") && shared.len() > 20, "{shared:?}");
    let used: BTreeSet<String> = crates()
        .iter()
        .map(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).unwrap())
        .flat_map(|manifest| declared(&manifest, "dependencies"))
        .collect();
    let nobody: Vec<_> = shared.difference(&used).collect();
    assert!(nobody.is_empty(), "no crate uses {nobody:?}");

    let page = std::fs::read_to_string(root().join("docs/src/dependencies.md")).unwrap();
    let (reasons, _) = page.split_once("Not taken").unwrap();
    let rows = reasons.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let explained: BTreeSet<String> =
        rows.flat_map(|row| row.split(", ")).map(|name| name.trim_matches('`').to_owned()).collect();
    let own: BTreeSet<String> = crates().iter().map(|path| path.file_name().unwrap().display().to_string()).collect();
    let outside: BTreeSet<String> = shared.difference(&own).cloned().collect();
    assert_eq!(explained, outside, "docs/src/dependencies.md against Cargo.toml");
}

#[test]
fn a_name_inside_another_word_is_no_use() {
    assert!(names_crate("use serde_json::Value;", "serde_json"));
    assert!(names_crate("#[derive(thiserror::Error)]", "thiserror"));
    assert!(!names_crate("use serde_json::Value;", "serde"));
    assert!(!names_crate("use kube_core::Status;", "kube"));
    assert!(!names_crate("let http = 1; // http", "http"));
}

#[test]
fn sections_of_a_manifest_are_told_apart() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\nserde.workspace = true\n# tokio = 1\n[dev-dependencies]\ntokio = { workspace = true }\n[lints]\nworkspace = true\n";
    let all = ["serde", "tokio"].map(str::to_owned).into();
    assert_eq!(declared(manifest, "dependencies"), all);
}
