//! What is shipped beside the binary agrees with it: the reference of its flags, and what its chart allows it to do.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked #[test] as tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, CommandFactory};
use serde_json::Value;
use tensile_runtime::clients::Permission;
use virtual_node::args::Args;
use virtual_node::permissions::{LOWER, LOWER_STREAMS, UPPER};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The page as the flags are defined, one table a group.
fn reference() -> String {
    let command = Args::command();
    let mut groups: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for arg in command.get_arguments() {
        let heading = arg.get_help_heading().unwrap_or("General");
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, args)) => args.push(arg),
            None => groups.push((heading, vec![arg])),
        }
    }
    let mut page = String::from(
        "# Flags of virtual-node\n\n<!-- Generated from the code: `just reference` writes it anew, a test fails when it is out of date. -->\n",
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

#[test]
fn the_reference_of_the_flags_is_up_to_date() {
    let path = repository("docs/src/reference/flags.md");
    let page = reference();
    if std::env::var_os("TENSILE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let shipped = std::fs::read_to_string(&path).unwrap();
    assert!(shipped == page, "docs/src/reference/flags.md is out of date: `just reference` writes it anew");
}

#[test]
fn every_flag_says_what_it_means() {
    for arg in Args::command().get_arguments() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.len() > 10, "{} has no help", arg.get_id());
    }
}

/// One right: verb, resource with its group, namespace if only there.
type Right = (String, String, Option<String>);

fn right(permission: &Permission) -> Right {
    let resource = format!("{}/{}", permission.group, permission.resource);
    (permission.verb.to_owned(), resource, permission.namespace.map(str::to_owned))
}

/// The rights that RBAC rules give. A rule on named objects is left out: it gives less than a right.
fn rights(rules: &Value, namespace: Option<&str>) -> BTreeSet<Right> {
    let texts = |rule: &Value, member: &str| -> Vec<String> {
        rule[member].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in rules.as_array().unwrap().iter().filter(|rule| rule["resourceNames"].is_null()) {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    rights.insert((verb, format!("{group}/{resource}"), namespace.map(str::to_owned)));
                }
            }
        }
    }
    rights
}

fn yaml(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&std::fs::read_to_string(repository(path)).unwrap()).unwrap()
}

#[test]
fn the_chart_gives_above_what_the_service_needs_and_no_more() {
    let mut given = rights(&yaml("charts/virtual-node/files/upper-rules.yaml")[0], None);
    given.extend(rights(&yaml("charts/virtual-node/files/upper-lease-rules.yaml")[0], Some("kube-node-lease")));
    assert_eq!(given, UPPER.iter().map(right).collect());
}

#[test]
fn the_manifest_for_the_lower_cluster_gives_what_the_service_needs_and_no_more() {
    let objects = yaml("charts/virtual-node/files/lower-rbac.yaml");
    let role = objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
    assert_eq!(rights(&role["rules"], None), LOWER.iter().chain(LOWER_STREAMS).map(right).collect());
}

#[test]
fn no_rule_of_the_chart_is_a_wildcard() {
    let role = yaml("charts/virtual-node/files/lower-rbac.yaml");
    let upper = ["upper-rules.yaml", "upper-lease-rules.yaml"].map(|file| format!("charts/virtual-node/files/{file}"));
    let rules = upper.iter().flat_map(|path| yaml(path)).chain(role.into_iter().map(|object| object["rules"].clone()));
    for rule in rules {
        assert!(!rule.to_string().contains("\"*\""), "{rule}");
    }
}

/// The chart's own flags exist, and the settings it refuses are those it sets itself.
#[test]
fn the_chart_speaks_the_services_flags() {
    let template = std::fs::read_to_string(repository("charts/virtual-node/templates/deployment.yaml")).unwrap();
    let typed: BTreeSet<String> = template
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- --"))
        .filter_map(|flag| flag.split_once('=').map(|(name, _)| name.to_owned()))
        .collect();
    assert!(typed.len() > 5, "found only {typed:?}");
    let command = Args::command();
    let known: BTreeSet<String> = command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect();
    assert!(typed.is_subset(&known), "unknown: {:?}", typed.difference(&known));

    let schema = std::fs::read_to_string(repository("charts/virtual-node/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let refused = &schema["properties"]["settings"]["propertyNames"]["not"]["enum"];
    let refused: BTreeSet<String> =
        refused.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    assert_eq!(refused, typed);
}
