// SPDX-License-Identifier: Apache-2.0
//! A metric store that speaks Prometheus' HTTP API: four instant queries for all our pods.

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::{Request, header::CONTENT_TYPE};
use kube::{Client, client::Body};
use tensile_core::stats::{ContainerValues, Roster, container_values};
use tensile_runtime::clients;

use super::{Failure, kubelets::whole};
use crate::config::StoreSettings;

/// What the kubelets' cAdvisor and their `/metrics/resource` both call it.
const CPU: &str = "container_cpu_usage_seconds_total";
const MEMORY: &str = "container_memory_working_set_bytes";

/// A client of the store.
#[derive(Clone)]
pub(super) struct Store {
    client: Client,
    matchers: String,
}

impl Store {
    /// A client; nothing is sent yet.
    pub(super) fn new(settings: &StoreSettings) -> Result<Self, String> {
        let client = clients::connect_url(&settings.url).map_err(|error| error.to_string())?;
        Ok(Self { client, matchers: settings.matchers.clone() })
    }

    /// The store behind a client.
    #[cfg(test)]
    pub(super) fn with(client: Client, matchers: &str) -> Self {
        Self { client, matchers: matchers.to_owned() }
    }

    /// CPU time and memory of the containers on `roster`.
    pub(super) async fn containers(&self, roster: &Roster) -> Result<(ContainerValues, ContainerValues), Failure> {
        let selector = selector(&roster.namespaces().into_iter().collect::<Vec<_>>(), &self.matchers);
        tokio::try_join!(self.values(CPU, &selector, roster), self.values(MEMORY, &selector, roster))
    }

    async fn values(&self, metric: &str, selector: &str, roster: &Roster) -> Result<ContainerValues, Failure> {
        // A vector tells when it was evaluated, not when its samples were taken, so that is asked for too. Adding zero
        // takes the name away, as `timestamp` does: then the labels of both are the same.
        let (values, times) = (format!("{metric}{{{selector}}} + 0"), format!("timestamp({metric}{{{selector}}})"));
        let (values, times) = tokio::try_join!(self.query(&values), self.query(&times))?;
        container_values(&values, &times, roster).map_err(|error| Failure::away(format!("metric store: {error}")))
    }

    async fn query(&self, query: &str) -> Result<Bytes, Failure> {
        let away = |error: &dyn std::error::Error| Failure::away(format!("metric store: {error}"));
        let form = Serializer::new(String::new()).append_pair("query", query).finish();
        let request = Request::post("/api/v1/query").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.body(Body::from(form.into_bytes())).map_err(|error| away(&error))?;
        let answer = self.client.send(request).await.map_err(|error| away(&error))?;
        // A refusal is JSON too, and says more than its status.
        whole(answer.into_body()).await
    }
}

/// The label matchers for containers in these namespaces.
fn selector(namespaces: &[&str], matchers: &str) -> String {
    let more = if matchers.is_empty() { String::new() } else { format!(",{matchers}") };
    // Names of namespaces hold nothing that means more in a regular expression.
    format!("container!=\"\",container!=\"POD\",namespace=~\"{}\"{more}", namespaces.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_for_the_namespaces_of_our_pods() {
        assert_eq!(selector(&["a", "b-c"], ""), r#"container!="",container!="POD",namespace=~"a|b-c""#);
        assert_eq!(
            selector(&["a"], r#"cluster="east""#),
            r#"container!="",container!="POD",namespace=~"a",cluster="east""#
        );
    }
}
