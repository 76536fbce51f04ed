// SPDX-License-Identifier: Apache-2.0
//! Names of the upper cluster, for pods below: what a kubelet of the upper cluster would write into `resolv.conf`.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::{LinkView, NOTHING, upper::Upper};

/// What the API takes (Kubernetes `pkg/apis/core/validation/validation.go`, `MaxDNSNameservers` and its neighbours);
/// a kubelet cuts off the same.
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_TEXT: usize = 2048;

/// The DNS of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDns {
    /// Its addresses, at least one.
    pub servers: Vec<IpAddr>,
    /// The domain of the cluster's Services, such as `cluster.local`.
    pub domain: String,
}

/// A pod that asks for the DNS of its cluster gets that of the upper one, if there is one to give. The pod's own
/// `dnsConfig` is added as a kubelet adds it (`pkg/kubelet/network/dns/dns.go`, `appendDNSConfig`).
pub(super) fn resolve_above(spec: &mut Map<String, Value>, upper: &Upper<'_>, link: &LinkView) {
    let Some(dns) = link.dns.as_ref().filter(|_| asks_its_cluster(upper)) else { return };
    let own = upper.spec.get("dnsConfig").and_then(Value::as_object).unwrap_or(&NOTHING);
    let servers = distinct(dns.servers.iter().map(ToString::to_string).chain(texts(own, "nameservers")));
    let (namespace, domain) = (upper.namespace, &dns.domain);
    let searches = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    let config = json!({
        "nameservers": servers.into_iter().take(MAX_SERVERS).collect::<Vec<_>>(),
        "searches": fitting(distinct(searches.into_iter().chain(texts(own, "searches")))),
        "options": options(own),
    });
    spec.insert("dnsPolicy".to_owned(), json!("None"));
    spec.insert("dnsConfig".to_owned(), config);
}

/// A pod in the network of its node has to ask for it in so many words.
fn asks_its_cluster(upper: &Upper<'_>) -> bool {
    match upper.spec.get("dnsPolicy").and_then(Value::as_str) {
        Some("ClusterFirstWithHostNet") => true,
        Some("ClusterFirst") | None => upper.spec.get("hostNetwork") != Some(&Value::Bool(true)),
        Some(_) => false,
    }
}

/// `ndots:5`, unless the pod says otherwise, and its other options.
fn options(own: &Map<String, Value>) -> Vec<Value> {
    let own = own.get("options").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let told = own.iter().any(|option| option["name"] == "ndots");
    let usual = json!({"name": "ndots", "value": "5"});
    (!told).then_some(usual).into_iter().chain(own.iter().cloned()).collect()
}

fn texts<'a>(own: &'a Map<String, Value>, list: &str) -> impl Iterator<Item = String> + use<'a> {
    let items = own.get(list).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned)
}

fn distinct(items: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

fn fitting(mut searches: Vec<String>) -> Vec<String> {
    searches.truncate(MAX_SEARCHES);
    while searches.iter().map(|search| search.len() + 1).sum::<usize>() > MAX_SEARCH_TEXT + 1 {
        searches.pop();
    }
    searches
}
