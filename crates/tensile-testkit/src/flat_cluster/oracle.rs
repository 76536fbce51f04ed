// SPDX-License-Identifier: Apache-2.0
//! Kubernetes' rules for where a pod may land, written apart from the code under test, from the API's documentation:
//! the reference of `NodeSelector` and `Toleration`, and the pages on labels, node affinity and taints.
//!
//! It works on a pod's `spec` as JSON and knows nothing of splitting.

use std::collections::BTreeMap;

use serde_json::Value;

/// A node as the scheduler sees it.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints: key, value, effect.
    pub taints: Vec<(String, String, String)>,
}

/// Node selector, required node affinity and tolerations.
pub fn allows(spec: &Value, machine: &Machine) -> bool {
    selects(spec, machine) && tolerates_all(spec, machine)
}

/// Node selector and required node affinity.
pub fn selects(spec: &Value, machine: &Machine) -> bool {
    for (key, wanted) in spec["nodeSelector"].as_object().into_iter().flatten() {
        if machine.labels.get(key).map(String::as_str) != wanted.as_str() {
            return false;
        }
    }
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_null() {
        return true;
    }
    let mut allowed = false;
    for term in items(&required["nodeSelectorTerms"]) {
        let verdicts: Vec<Verdict> = items(&term["matchExpressions"])
            .map(|expression| by_label(expression, machine))
            .chain(items(&term["matchFields"]).map(|expression| by_field(expression, machine)))
            .collect();
        // "A null or empty node selector term matches no objects"; one that cannot be parsed is passed over.
        allowed |= !verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == Verdict::Yes);
    }
    allowed
}

/// Tolerations alone.
pub fn tolerates_all(spec: &Value, machine: &Machine) -> bool {
    let mut open: Vec<_> = machine.taints.iter().filter(|(_, _, effect)| effect != "PreferNoSchedule").collect();
    for toleration in items(&spec["tolerations"]) {
        let field = |name: &str| toleration[name].as_str().unwrap_or("");
        open.retain(|(key, value, effect)| {
            let other_effect = !["", effect.as_str()].contains(&field("effect"));
            let other_key = !["", key.as_str()].contains(&field("key"));
            let covers = match field("operator") {
                "Exists" => true,
                "Equal" | "" => field("value") == *value,
                _ => false,
            };
            other_effect || other_key || !covers
        });
    }
    open.is_empty()
}

#[derive(PartialEq)]
enum Verdict {
    Yes,
    No,
    Unparsable,
}

impl From<bool> for Verdict {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

fn by_label(expression: &Value, machine: &Machine) -> Verdict {
    let key = expression["key"].as_str().unwrap_or("");
    let values: Vec<&str> = items(&expression["values"]).filter_map(Value::as_str).collect();
    let syntax_is_right = is_qualified_name(key) && values.iter().all(|value| value.is_empty() || is_word(value));
    let present = machine.labels.get(key).map(String::as_str);
    let bounds: Result<Vec<i64>, _> = values.iter().map(|value| value.parse::<i64>()).collect();
    let number = present.and_then(|label| label.parse::<i64>().ok());
    match (expression["operator"].as_str(), values.len(), bounds) {
        _ if !syntax_is_right => Verdict::Unparsable,
        (Some("Exists"), 0, _) => present.is_some().into(),
        (Some("DoesNotExist"), 0, _) => present.is_none().into(),
        (Some("In"), 1.., _) => values.iter().any(|value| present == Some(value)).into(),
        (Some("NotIn"), 1.., _) => values.iter().all(|value| present != Some(value)).into(),
        (Some("Gt"), 1, Ok(bound)) => number.is_some_and(|number| number > bound[0]).into(),
        (Some("Lt"), 1, Ok(bound)) => number.is_some_and(|number| number < bound[0]).into(),
        _ => Verdict::Unparsable,
    }
}

fn by_field(expression: &Value, machine: &Machine) -> Verdict {
    let actual = if expression["key"] == "metadata.name" { machine.name.as_str() } else { "" };
    let values: Vec<&Value> = items(&expression["values"]).collect();
    match (expression["operator"].as_str(), &values[..]) {
        (Some("In"), [only]) => (*only == actual).into(),
        (Some("NotIn"), [only]) => (*only != actual).into(),
        _ => Verdict::Unparsable,
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// "an optional prefix and name, separated by a slash": the prefix a DNS subdomain, the name a word.
fn is_qualified_name(key: &str) -> bool {
    match key.splitn(2, '/').collect::<Vec<_>>()[..] {
        [name] => is_word(name),
        [prefix, name] => {
            let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let is_part = |part: &str| {
                !part.is_empty() && part.chars().all(lower) && !part.starts_with('-') && !part.ends_with('-')
            };
            prefix.len() < 254 && prefix.split('.').all(is_part) && is_word(name)
        }
        _ => false,
    }
}

/// "63 characters or less, beginning and ending with an alphanumeric character, with dashes, underscores, dots between".
fn is_word(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() < 64
        && ends(text.chars().next())
        && ends(text.chars().last())
        && !text.contains(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
}
