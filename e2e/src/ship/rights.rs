// SPDX-License-Identifier: Apache-2.0
//! The rights that somebody has, held against what they asked the API server for.

use std::collections::BTreeSet;

use serde_json::Value;
use tensile_testkit::shipped::{Right, rights};

use crate::cluster::{Audit, Cluster, Request};

/// Objects of these kinds give rights.
const KINDS: &str = "clusterroles,clusterrolebindings,roles,rolebindings";
/// What an API server's authorizer notes in the audit log, and what of whom it does not allow something.
const DECISION: (&str, &str) = ("authorization.k8s.io/decision", "forbid");

/// The rights of a service account, by the roles of which `is_ours` is true (of the name), as far as they are about
/// objects.
pub async fn given(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
    is_ours: impl Fn(&str) -> bool,
) -> anyhow::Result<BTreeSet<Right>> {
    let all = cluster.kubectl(&["get", KINDS, "--all-namespaces", "--output=json"]).await?;
    let all: Value = serde_json::from_slice(&all.stdout)?;
    let all: Vec<&Value> = all["items"].as_array().into_iter().flatten().collect();
    let subject = |subject: &Value| subject["name"] == account && subject["namespace"] == namespace;
    let mut given = BTreeSet::new();
    for binding in &all {
        let role = &binding["roleRef"];
        let theirs = binding["subjects"].as_array().is_some_and(|subjects| subjects.iter().any(subject));
        if !theirs || !role["name"].as_str().is_some_and(&is_ours) {
            continue;
        }
        let inside = binding["metadata"]["namespace"].as_str();
        let is_it = |object: &&&Value| {
            let everywhere = role["kind"] == "ClusterRole" || object["metadata"]["namespace"].as_str() == inside;
            object["kind"] == role["kind"] && object["metadata"]["name"] == role["name"] && everywhere
        };
        let rules = all.iter().find(is_it).and_then(|role| role["rules"].as_array()).cloned().unwrap_or_default();
        let about_objects: Vec<Value> = rules.into_iter().filter(|rule| rule["nonResourceURLs"].is_null()).collect();
        given.extend(rights(&Value::from(about_objects), inside));
    }
    Ok(given)
}

/// What a user asked for.
pub fn asked(audit: &Audit, user: &str) -> Audit {
    Audit { requests: audit.requests.iter().filter(|request| request.user.username == user).cloned().collect() }
}

/// Those of the rights that no request needed.
pub fn unused<'a>(given: &'a BTreeSet<Right>, audit: &Audit) -> BTreeSet<&'a Right> {
    given.iter().filter(|right| !audit.requests.iter().any(|request| needs(request, right))).collect()
}

/// What was asked for and not allowed.
pub fn refused(audit: &Audit) -> BTreeSet<String> {
    let forbidden = |request: &&Request| request.annotations.get(DECISION.0).is_some_and(|said| said == DECISION.1);
    audit.requests.iter().filter(forbidden).map(|request| format!("{} {}", request.verb, request.request_uri)).collect()
}

/// Whether this right is what allowed the request.
fn needs(request: &Request, right: &Right) -> bool {
    if let Some(as_who) = &request.impersonated_user {
        // What is asked in another's name is allowed by the other's rights.
        let named = |name: &str| right.name.as_deref().is_none_or(|only| only == name);
        return right.verb == "impersonate"
            && match right.resource.as_str() {
                "/users" => named(&as_who.username),
                "/groups" => as_who.groups.iter().any(|group| named(group)),
                _ => false,
            };
    }
    let Some(object) = &request.object_ref else { return false };
    let subresource = if object.subresource.is_empty() { String::new() } else { format!("/{}", object.subresource) };
    right.verb == request.verb
        && right.resource == format!("{}/{}{subresource}", object.api_group, object.resource)
        && right.namespace.as_ref().is_none_or(|only| *only == object.namespace)
        && right.name.as_ref().is_none_or(|only| *only == object.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::{Account, Object, Status};

    fn request(verb: &str, group: &str, resource: &str) -> Request {
        Request {
            user_agent: String::new(),
            user: Account::default(),
            impersonated_user: None,
            verb: verb.to_owned(),
            request_uri: format!("/{resource}"),
            object_ref: Some(Object {
                api_group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: String::new(),
                namespace: "ns".to_owned(),
                name: "a".to_owned(),
            }),
            response_status: Some(Status { code: 200 }),
            request_received_timestamp: None,
            annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn a_right_is_used_by_the_request_that_needs_it_and_by_no_other() {
        let right = |verb: &str, namespace: Option<&str>, name: Option<&str>| {
            Right::new(verb, "apps", "deployments", namespace, name)
        };
        let used = request("get", "apps", "deployments");
        for allowed in [right("get", None, None), right("get", Some("ns"), None), right("get", Some("ns"), Some("a"))] {
            assert!(needs(&used, &allowed), "{allowed:?}");
        }
        for other in [right("list", None, None), right("get", Some("other"), None), right("get", None, Some("b"))] {
            assert!(!needs(&used, &other), "{other:?}");
        }
        assert!(!needs(&used, &Right::new("get", "", "deployments", None, None)));
    }

    #[test]
    fn what_is_asked_in_anothers_name_needs_the_right_to_speak_for_them() {
        let node = Account { username: "system:node:east".to_owned(), groups: vec!["system:nodes".to_owned()] };
        let asked = Request { impersonated_user: Some(node), ..request("create", "", "serviceaccounts") };
        assert!(needs(&asked, &Right::new("impersonate", "", "users", None, Some("system:node:east"))));
        assert!(needs(&asked, &Right::new("impersonate", "", "groups", None, Some("system:nodes"))));
        assert!(!needs(&asked, &Right::new("impersonate", "", "users", None, Some("system:node:west"))));
        assert!(!needs(&asked, &Right::new("create", "", "serviceaccounts", None, None)));
    }

    #[test]
    fn what_was_forbidden_is_told() {
        let annotations = [(DECISION.0.to_owned(), DECISION.1.to_owned())].into();
        let forbidden = Request { annotations, ..request("get", "", "secrets") };
        let audit = Audit { requests: vec![forbidden, request("list", "", "pods")] };
        assert_eq!(refused(&audit), BTreeSet::from(["get /secrets".to_owned()]));
    }
}
