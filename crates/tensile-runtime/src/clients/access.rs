// SPDX-License-Identifier: Apache-2.0
//! Whether we may do what we are going to do, asked at the start instead of found out under load.

use std::fmt;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};

use super::{ProbeError, probe};

/// Questions that are asked at the same time.
const AT_ONCE: usize = 8;
/// How often an upper API server that is away at the start is tried again.
const KNOCK: Duration = Duration::from_secs(2);

/// One verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission<'a> {
    /// The verb, such as `patch`.
    pub verb: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The resource, with its subresource if any, such as `pods/status`.
    pub resource: &'a str,
    /// The one namespace it is needed in; none for all of them.
    pub namespace: Option<&'a str>,
    /// The one object it is needed on; none for all of them.
    pub name: Option<&'a str>,
}

impl<'a> Permission<'a> {
    /// `verb` on `resource` of the core group, in all namespaces.
    pub const fn core(verb: &'a str, resource: &'a str) -> Self {
        Self::of(verb, "", resource)
    }

    /// `verb` on `resource` of `group`, in all namespaces.
    pub const fn of(verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self { verb, group, resource, namespace: None, name: None }
    }

    /// The same in one namespace.
    #[must_use]
    pub const fn within(self, namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    /// The same on one object.
    #[must_use]
    pub const fn on(self, name: &'a str) -> Self {
        Self { name: Some(name), ..self }
    }

    /// The question for the API server.
    fn question(&self) -> SelfSubjectAccessReview {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (self.resource, None),
        };
        let attributes = ResourceAttributes {
            group: Some(self.group.to_owned()),
            namespace: self.namespace.map(str::to_owned),
            resource: Some(resource.to_owned()),
            subresource,
            verb: Some(self.verb.to_owned()),
            name: self.name.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() },
            ..Default::default()
        }
    }

    fn full_resource(&self) -> String {
        match self.group {
            "" => self.resource.to_owned(),
            group => format!("{}.{group}", self.resource),
        }
    }
}

impl fmt::Display for Permission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.full_resource())?;
        if let Some(name) = self.name {
            write!(f, " {name}")?;
        }
        match self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => f.write_str(" in all namespaces"),
        }
    }
}

/// Checks that the client may do all of `permissions`.
///
/// # Errors
///
/// [`ProbeError::Forbidden`] names the first verb that is missing and lists all of them; the other kinds as
/// [`super::probe`].
pub async fn require(client: &Client, permissions: &[Permission<'_>]) -> Result<(), ProbeError> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    // By their places: what is spawned may not borrow from a slice whose lifetime it does not know.
    let questions: Vec<_> = permissions.iter().map(Permission::question).enumerate().collect();
    let missing: Vec<usize> = stream::iter(questions)
        .map(|(place, question)| {
            let reviews = reviews.clone();
            async move {
                let answer = reviews.create(&PostParams::default(), &question).await?;
                let allowed = answer.status.is_some_and(|status| status.allowed);
                Ok::<_, kube::Error>((!allowed).then_some(place))
            }
        })
        .buffered(AT_ONCE)
        .try_filter_map(|missing| async move { Ok(missing) })
        .try_collect()
        .await?;
    let missing: Vec<&Permission<'_>> = missing.into_iter().filter_map(|place| permissions.get(place)).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let listed: Vec<String> = missing.iter().map(ToString::to_string).collect();
    Err(ProbeError::Forbidden {
        verb: first.verb.to_owned(),
        resource: first.full_resource(),
        detail: format!("missing: {}", listed.join("; ")),
    })
}

/// Waits while the upper API server is away, and checks that the client may do all of `permissions`.
///
/// # Errors
///
/// What waiting does not mend: it needs a human.
pub async fn wait_for_upper(upper: &Client, permissions: &[Permission<'_>]) -> Result<(), ProbeError> {
    loop {
        let outcome = async {
            probe(upper).await?;
            require(upper, permissions).await
        };
        match outcome.await {
            Err(error) if error.is_away() => tracing::warn!(%error, "upper cluster is away; waiting for it"),
            outcome => return outcome,
        }
        tokio::time::sleep(KNOCK).await;
    }
}
