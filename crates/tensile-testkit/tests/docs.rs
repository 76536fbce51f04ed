// SPDX-License-Identifier: Apache-2.0
//! Keeps the docs whole: every page is in the book, every link leads somewhere, and the table of names is the code's.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Every page of the book, from `docs/src`.
fn pages() -> BTreeSet<String> {
    let src = root().join("docs/src");
    let mut found = BTreeSet::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.insert(path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.remove("SUMMARY.md");
    found
}

/// Targets of the links of a page that stay in the repository: path and anchor.
fn links(page: &str) -> Vec<(String, Option<String>)> {
    let mut inside_code = false;
    let prose: String = page
        .lines()
        .filter(|line| {
            let fence = line.trim_start().starts_with("```");
            inside_code ^= fence;
            !inside_code && !fence
        })
        .collect::<Vec<_>>()
        .join("\n");
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://"))
        .map(|target| match target.split_once('#') {
            Some((path, anchor)) => (path.to_owned(), Some(anchor.to_owned())),
            None => (target.to_owned(), None),
        })
        .collect()
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>()
    };
    headings.map(|line| anchor(line).replace(' ', "-")).collect()
}

/// Links of the page at `path` (from the root) that lead nowhere.
fn broken(path: &str, page: &str) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap();
    let mut broken = Vec::new();
    for (target, anchor) in links(page) {
        let file = if target.is_empty() { PathBuf::from(path) } else { plain(&folder.join(&target)) };
        let Ok(text) = std::fs::read_to_string(root().join(&file)) else {
            broken.push(format!("{path} links to {target}, which is not there"));
            continue;
        };
        if let Some(anchor) = anchor.filter(|anchor| !anchors(&text).contains(anchor)) {
            broken.push(format!("{path} links to {}#{anchor}, which has no such heading", file.display()));
        }
    }
    broken
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
        plain
    })
}

/// The reference of names: each constant of `names.rs` that spells a label, an annotation, a taint or a condition.
fn names() -> String {
    let source = read("crates/tensile-core/src/names.rs");
    let mut page = String::from(
        "# Labels and annotations\n\n<!-- Generated from the code: `just reference` writes it anew, a test fails when it is out of date. -->\n\nEvery key that Tensile writes or understands. Those without a prefix are tensile-kube's.\n\n| Key | Meaning |\n|---|---|\n",
    );
    let mut meaning = Vec::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            meaning.push(text);
            continue;
        }
        let text = std::mem::take(&mut meaning).join(" ");
        let Some((name, value)) = line.strip_prefix("pub const ").and_then(|rest| rest.split_once(": &str = \""))
        else {
            continue;
        };
        let value = value.trim_end_matches("\";");
        // Values are named where their keys are.
        if ["TRUE", "VIRTUAL_KUBELET"].contains(&name) {
            continue;
        }
        let text = text
            .replace("[`VIRTUAL_KUBELET`]", "`virtual-kubelet`")
            .replace(" (see [`label_value`])", ", shortened to a label value");
        writeln!(page, "| `{value}` | {text} |").unwrap();
    }
    page
}

#[test]
fn every_page_is_in_the_book_once_and_every_entry_has_its_page() {
    let entries: Vec<String> = links(&read("docs/src/SUMMARY.md")).into_iter().map(|(path, _)| path).collect();
    let distinct: BTreeSet<String> = entries.iter().cloned().collect();
    assert_eq!(distinct.len(), entries.len(), "a page is listed twice");
    assert_eq!(distinct, pages());
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken_links = broken("README.md", &read("README.md"));
    for page in pages() {
        let path = format!("docs/src/{page}");
        broken_links.extend(broken(&path, &read(&path)));
    }
    assert!(broken_links.is_empty(), "\n{}", broken_links.join("\n"));
}

#[test]
fn the_reference_of_names_is_up_to_date() {
    let path = root().join("docs/src/reference/names.md");
    let page = names();
    if std::env::var_os("TENSILE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(page.contains("`clusterSelector`") && page.lines().count() > 15, "{page}");
    let shipped = std::fs::read_to_string(path).unwrap();
    assert!(shipped == page, "docs/src/reference/names.md is out of date: `just reference` writes it anew");
}

#[test]
fn a_link_that_leads_nowhere_is_seen() {
    let page =
        "[a](no.md) [b](concepts.md#no-such) [c](concepts.md#constraints) [d](https://example.com)\n```\n[e](x)\n```\n";
    assert_eq!(
        broken("docs/src/start.md", page),
        [
            "docs/src/start.md links to no.md, which is not there",
            "docs/src/start.md links to docs/src/concepts.md#no-such, which has no such heading"
        ]
    );
}
