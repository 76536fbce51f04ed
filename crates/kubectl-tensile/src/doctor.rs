// SPDX-License-Identifier: Apache-2.0
//! `doctor`: what a virtual node needs, checked one by one, and how to mend what is missing.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tensile_core::names;
use tensile_runtime::clients::{Permission, probe, require};

use crate::args::Lower;
use crate::cluster::Upper;
use crate::join::LOWER_RBAC;
use crate::output::{Cell, Mood, Output, Table};

/// The role in [`LOWER_RBAC`] that a virtual node always needs.
const ROLE: &str = "tensile-virtual-node";

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    /// The virtual node, or what else it is about.
    about: String,
    /// What is checked.
    #[serde(rename = "check")]
    what: &'static str,
    /// Whether all is well.
    ok: bool,
    /// What was found, and how to mend it.
    found: String,
}

/// Checks the virtual node, or all, and prints what was found. Says whether all is well.
pub async fn run(upper: &Upper, node: Option<&str>, lower: &Lower, output: Output) -> anyhow::Result<bool> {
    let mut checks = vec![webhook(&upper.client).await];
    let nodes = upper.nodes(node).await?;
    if nodes.is_empty() {
        checks.push(Check::bad("upper cluster", "virtual nodes", "there is none: `kubectl tensile join` makes one"));
    }
    for node in &nodes {
        let name = node.name_any();
        checks.push(ready(&name, node));
        checks.push(kubelet(&upper.client, &name).await);
        match upper.lower(&name, lower).await {
            Ok(client) => checks.extend(below(&name, &client).await),
            Err(error) => checks.push(Check::bad(&name, "lower cluster", format!("{error:#}"))),
        }
    }
    output.print(&checks, |checks| table(checks))?;
    Ok(checks.iter().all(|check| check.ok))
}

impl Check {
    fn good(about: &str, what: &'static str, found: impl Into<String>) -> Self {
        Self { about: about.to_owned(), what, ok: true, found: found.into() }
    }

    fn bad(about: &str, what: &'static str, found: impl Into<String>) -> Self {
        Self { about: about.to_owned(), what, ok: false, found: found.into() }
    }
}

/// Whether a webhook splits what pods ask for.
async fn webhook(upper: &Client) -> Check {
    const WHAT: (&str, &str) = ("upper cluster", "webhook");
    let api: Api<MutatingWebhookConfiguration> = Api::all(upper.clone());
    let all = match api.list(&ListParams::default()).await {
        Ok(all) => all,
        Err(error) => return Check::bad(WHAT.0, WHAT.1, format!("cannot list the webhook configurations: {error}")),
    };
    // By what it selects, not by its name: charts and tensile-kube's manifests call it differently.
    let selects = |configuration: &&MutatingWebhookConfiguration| {
        serde_json::to_string(configuration).is_ok_and(|text| text.contains(names::VIRTUAL_POD))
    };
    let Some(found) = all.iter().find(selects) else {
        return Check::bad(
            WHAT.0,
            WHAT.1,
            "no webhook takes pods labelled virtual-pod=true: constraints over lower nodes keep them from being \
             scheduled; helm install webhook charts/webhook",
        );
    };
    let trusted = found.webhooks.iter().flatten().all(|webhook| webhook.client_config.ca_bundle.is_some());
    if trusted {
        Check::good(WHAT.0, WHAT.1, found.name_any())
    } else {
        Check::bad(WHAT.0, WHAT.1, format!("{} has no caBundle: is the webhook running?", found.name_any()))
    }
}

fn ready(name: &str, node: &Node) -> Check {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    match conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready") {
        Some(condition) if condition.status == "True" => Check::good(name, "ready", "yes"),
        Some(condition) => Check::bad(name, "ready", condition.message.clone().unwrap_or_default()),
        None => Check::bad(name, "ready", "it has never said so: is its process running?"),
    }
}

/// Whether the upper API server reaches the virtual node, as logs and exec need.
async fn kubelet(upper: &Client, name: &str) -> Check {
    let path = format!("/api/v1/nodes/{name}/proxy/healthz");
    let answer = match http_get(upper, &path).await {
        Ok(answer) => answer,
        Err(error) => {
            return Check::bad(
                name,
                "kubelet API",
                format!(
                    "the upper API server does not reach it, so logs and exec do not work: {error}; see --node-ip and \
                     --kubelet-port, and the certificate in the guide of virtual-node"
                ),
            );
        }
    };
    Check::good(name, "kubelet API", answer)
}

async fn http_get(client: &Client, path: &str) -> anyhow::Result<String> {
    Ok(client.request_text(http::Request::get(path).body(Vec::new())?).await?)
}

/// What the virtual node's identity finds in the lower cluster.
async fn below(name: &str, lower: &Client) -> Vec<Check> {
    let version = match probe(lower).await {
        Ok(version) => Check::good(name, "lower cluster", version.git_version),
        Err(error) => return vec![Check::bad(name, "lower cluster", error.to_string())],
    };
    let rights = rights();
    let permissions: Vec<Permission<'_>> = rights.iter().flat_map(Rule::each).collect();
    let rights = match require(lower, &permissions).await {
        Ok(()) => Check::good(name, "rights below", format!("all {}", permissions.len())),
        Err(error) => Check::bad(
            name,
            "rights below",
            format!("{error}; kubectl --context LOWER apply -f charts/virtual-node/files/lower-rbac.yaml"),
        ),
    };
    vec![version, rights]
}

/// A rule of a role.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

impl Rule {
    /// Each permission it gives.
    fn each(&self) -> impl Iterator<Item = Permission<'_>> {
        let resources =
            self.api_groups.iter().flat_map(|group| self.resources.iter().map(move |resource| (group, resource)));
        let all = resources
            .flat_map(|(group, resource)| self.verbs.iter().map(move |verb| Permission::of(verb, group, resource)));
        all.flat_map(|permission| {
            let unnamed = self.resource_names.is_empty().then(|| permission.clone());
            let named = self.resource_names.iter().map(move |name| permission.clone().on(name));
            unnamed.into_iter().chain(named)
        })
    }
}

/// The rules that [`LOWER_RBAC`] gives in all namespaces.
fn rights() -> Vec<Rule> {
    let manifests: Vec<Value> = serde_saphyr::from_multiple(LOWER_RBAC).unwrap_or_default();
    let is_role = |object: &&Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == ROLE;
    let rules = manifests.iter().filter(is_role).flat_map(|role| role["rules"].as_array().into_iter().flatten());
    rules.filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect()
}

fn table(checks: &[Check]) -> Table {
    let row = |check: &Check| {
        let ok = if check.ok { Cell::new("ok", Mood::Good) } else { Cell::new("WRONG", Mood::Bad) };
        vec![check.about.clone().into(), check.what.into(), ok, check.found.clone().into()]
    };
    Table { head: &["ABOUT", "CHECK", "", "FOUND"], rows: checks.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_are_those_of_the_manifest() {
        let rules = rights();
        let all: Vec<_> = rules.iter().flat_map(Rule::each).collect();
        assert!(all.contains(&Permission::core("create", "pods")), "{all:?}");
        assert!(all.contains(&Permission::of("list", "metrics.k8s.io", "pods")), "{all:?}");
        assert!(all.contains(&Permission::core("get", "namespaces").on("kube-system")), "{all:?}");
        assert!(!all.iter().any(|permission| permission.resource == "secrets"), "those are given by namespace");
    }
}
