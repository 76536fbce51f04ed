// SPDX-License-Identifier: Apache-2.0
//! What is shipped beside a binary, held against it: the reference of its flags, and what its chart types and allows.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "these are checks of tests, which fail by panicking"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use serde_json::Value;

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

/// The documents of a YAML file of the repository.
pub fn yaml(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap()
}

/// Compares the page at `path` with the flags of `command`; with `TENSILE_BLESS` in the environment, writes it first.
pub fn reference_is_up_to_date(command: &Command, path: &str) {
    let page = reference(command);
    if std::env::var_os("TENSILE_BLESS").is_some() {
        std::fs::write(repository(path), &page).unwrap();
    }
    assert!(read(path) == page, "{path} is out of date: `just reference` writes it anew");
}

/// Every flag has a sentence of help.
pub fn every_flag_says_what_it_means(command: &Command) {
    for arg in command.get_arguments() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.len() > 10, "{} has no help", arg.get_id());
    }
}

/// The page as the flags are defined, one table a group.
fn reference(command: &Command) -> String {
    let mut groups: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for arg in command.get_arguments() {
        let heading = arg.get_help_heading().unwrap_or("General");
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, args)) => args.push(arg),
            None => groups.push((heading, vec![arg])),
        }
    }
    let mut page = format!(
        "# Flags of {}\n\n<!-- Generated from the code: `just reference` writes it anew, a test fails when it is out of date. -->\n",
        command.get_name()
    );
    write!(page, "\n{}\n", command.get_long_about().or(command.get_about()).unwrap()).unwrap();
    for (heading, args) in groups {
        write!(page, "\n## {heading}\n\n| Flag | Meaning | Environment | Default |\n|---|---|---|---|\n").unwrap();
        for arg in args {
            let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string().replace('|', "\\|");
            let (help, default) = taken(&help, "default");
            let (help, variable) = taken(&help, "env");
            let variable = variable.map_or_else(String::new, |name| format!("`{name}`"));
            writeln!(page, "| {} | {help} | {variable} | {} |", flag(arg), default.unwrap_or_default()).unwrap();
        }
    }
    page
}

/// `--flag VALUE`, with its short form and its other names.
fn flag(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().into_iter().chain(arg.get_visible_aliases().unwrap_or_default());
    let mut names: Vec<String> = short.into_iter().chain(long.map(|name| format!("--{name}"))).collect();
    let values: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str).collect();
    if matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        let optional = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
        let value = if optional { format!("[={}]", values.join(" ")) } else { format!(" {}", values.join(" ")) };
        for name in &mut names {
            name.push_str(&value);
        }
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The help without its `[key: value]`, and the value.
fn taken(help: &str, key: &str) -> (String, Option<String>) {
    let opening = format!("[{key}: ");
    let Some((before, rest)) = help.split_once(&opening) else { return (help.to_owned(), None) };
    let (value, after) = rest.split_once(']').unwrap();
    (format!("{before}{after}").trim().to_owned(), Some(value.to_owned()))
}

/// One right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The verb.
    pub verb: String,
    /// The resource with its group, as `GROUP/RESOURCE`.
    pub resource: String,
    /// The namespace, if only there.
    pub namespace: Option<String>,
    /// The object, if only on it.
    pub name: Option<String>,
}

impl Right {
    /// `verb` on `resource` of `group`, in one namespace or all, on one object or all.
    pub fn new(verb: &str, group: &str, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Self {
        Self {
            verb: verb.to_owned(),
            resource: format!("{group}/{resource}"),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }
}

/// The rights that RBAC rules give in `namespace`, or everywhere. A wildcard in a rule is an error.
pub fn rights(rules: &Value, namespace: Option<&str>) -> BTreeSet<Right> {
    assert!(!rules.to_string().contains("\"*\""), "a wildcard: {rules}");
    let texts = |rule: &Value, member: &str| -> Vec<String> {
        rule[member].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in rules.as_array().unwrap() {
        let names = if rule["resourceNames"].is_null() {
            vec![None]
        } else {
            texts(rule, "resourceNames").into_iter().map(Some).collect()
        };
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    let right =
                        |name: &Option<String>| Right::new(&verb, &group, &resource, namespace, name.as_deref());
                    rights.extend(names.iter().map(right));
                }
            }
        }
    }
    rights
}

/// The flags that the chart's Deployment types exist, and are those that its `settings` may not hold.
pub fn chart_speaks_the_flags_of(command: &Command, chart: &str) {
    let template = read(&format!("charts/{chart}/templates/deployment.yaml"));
    let typed: BTreeSet<String> = template
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- --"))
        .filter_map(|flag| flag.split_once('=').map(|(name, _)| name.to_owned()))
        .collect();
    assert!(typed.len() > 5, "found only {typed:?}");
    let known: BTreeSet<String> = command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect();
    assert!(typed.is_subset(&known), "unknown: {:?}", typed.difference(&known));

    let schema: Value = serde_json::from_str(&read(&format!("charts/{chart}/values.schema.json"))).unwrap();
    let refused = &schema["properties"]["settings"]["propertyNames"]["not"]["enum"];
    let refused: BTreeSet<String> =
        refused.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    assert_eq!(refused, typed);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_gives_each_verb_on_each_resource_and_name() {
        let rules = json!([
            { "apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get"] },
            { "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["get", "patch"] },
        ]);
        let expected = [
            Right::new("get", "", "pods", Some("ns"), None),
            Right::new("get", "", "pods/status", Some("ns"), None),
            Right::new("get", "apps", "deployments", Some("ns"), Some("a")),
            Right::new("patch", "apps", "deployments", Some("ns"), Some("a")),
        ];
        assert_eq!(rights(&rules, Some("ns")), expected.into());
    }

    #[test]
    #[should_panic(expected = "a wildcard")]
    fn a_wildcard_is_seen() {
        rights(&json!([{ "apiGroups": [""], "resources": ["*"], "verbs": ["get"] }]), None);
    }

    #[test]
    fn a_flag_is_shown_with_its_value_default_and_variable() {
        let arg = Arg::new("qps").long("qps").short('q').value_name("N").help("Requests [env: QPS] [default: 5]");
        let page = reference(&Command::new("service").about("Serves.").arg(arg));
        assert!(page.starts_with("# Flags of service\n"), "{page}");
        assert!(page.contains("\n| `-q N`, `--qps N` | Requests | `QPS` | 5 |\n"), "{page}");
    }
}
