// SPDX-License-Identifier: Apache-2.0
//! What a request asks the kubelet for: its path and method, nothing else.
//!
//! Names from a path become parts of a path in front of another API server, so only what can be a name is let through,
//! and nothing is ever percent-decoded: `%2f` is no name, and neither is `..`.

use http::Method;

/// A pod, as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPath {
    /// A DNS label.
    pub namespace: String,
    /// A DNS subdomain.
    pub name: String,
    /// The incarnation that is meant, where the caller knows it.
    pub uid: Option<String>,
}

/// A container, as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPath {
    /// Its pod.
    pub pod: PodPath,
    /// A DNS label.
    pub container: String,
}

/// Which metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// `/metrics`: of this process.
    Process,
    /// `/metrics/resource`
    Resource,
    /// `/metrics/cadvisor`
    Cadvisor,
    /// `/metrics/probes`
    Probes,
}

/// One thing the kubelet's API has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/pods`
    Pods,
    /// `/runningpods/`
    RunningPods,
    /// `/containerLogs/{namespace}/{pod}/{container}`
    Logs(ContainerPath),
    /// `/exec/{namespace}/{pod}[/{uid}]/{container}`
    Exec(ContainerPath),
    /// `/attach/{namespace}/{pod}[/{uid}]/{container}`
    Attach(ContainerPath),
    /// `/run/{namespace}/{pod}[/{uid}]/{container}`
    Run(ContainerPath),
    /// `/checkpoint/{namespace}/{pod}/{container}`
    Checkpoint(ContainerPath),
    /// `/portForward/{namespace}/{pod}[/{uid}]`
    PortForward(PodPath),
    /// `/stats/summary`
    StatsSummary,
    /// `/metrics` and below.
    Metrics(Exposition),
    /// `/healthz` and its parts.
    Healthz,
    /// `/configz`
    Configz,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// 404.
    NotFound,
    /// 405, with these methods in `Allow`.
    NotAllowed(&'static str),
}

/// What `method` on `path` asks for. `path` is as it came: not decoded, not cleaned.
///
/// # Errors
/// When the API has no such path (404), or not with this method (405).
pub fn route(method: &Method, path: &str) -> Result<Endpoint, RouteError> {
    let endpoint = endpoint(path).ok_or(RouteError::NotFound)?;
    let (allowed, header): (&[Method], _) = match endpoint {
        Endpoint::Exec(_) | Endpoint::Attach(_) | Endpoint::PortForward(_) => {
            (&[Method::GET, Method::POST], "GET, POST")
        }
        Endpoint::Run(_) | Endpoint::Checkpoint(_) => (&[Method::POST], "POST"),
        _ => (&[Method::GET], "GET"),
    };
    if allowed.contains(method) { Ok(endpoint) } else { Err(RouteError::NotAllowed(header)) }
}

fn endpoint(path: &str) -> Option<Endpoint> {
    let path = path.strip_prefix('/')?;
    // A trailing slash means nothing, as in the kubelet (`/runningpods/` is how it writes that path itself).
    let path = path.strip_suffix('/').unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    Some(match parts.as_slice() {
        ["pods"] => Endpoint::Pods,
        ["runningpods"] => Endpoint::RunningPods,
        ["containerLogs", namespace, name, container] => {
            Endpoint::Logs(ContainerPath { pod: pod(namespace, name, None)?, container: valid(container, is_label)? })
        }
        ["exec", rest @ ..] => Endpoint::Exec(container(rest)?),
        ["attach", rest @ ..] => Endpoint::Attach(container(rest)?),
        ["run", rest @ ..] => Endpoint::Run(container(rest)?),
        ["checkpoint", namespace, name, container] => Endpoint::Checkpoint(ContainerPath {
            pod: pod(namespace, name, None)?,
            container: valid(container, is_label)?,
        }),
        ["portForward", namespace, name] => Endpoint::PortForward(pod(namespace, name, None)?),
        ["portForward", namespace, name, uid] => Endpoint::PortForward(pod(namespace, name, Some(uid))?),
        ["stats", "summary"] => Endpoint::StatsSummary,
        ["metrics"] => Endpoint::Metrics(Exposition::Process),
        ["metrics", "resource"] => Endpoint::Metrics(Exposition::Resource),
        ["metrics", "cadvisor"] => Endpoint::Metrics(Exposition::Cadvisor),
        ["metrics", "probes"] => Endpoint::Metrics(Exposition::Probes),
        ["healthz"] | ["healthz", "ping" | "log" | "syncloop"] => Endpoint::Healthz,
        ["configz"] => Endpoint::Configz,
        _ => return None,
    })
}

fn container(parts: &[&str]) -> Option<ContainerPath> {
    let (pod, container) = match parts {
        [namespace, name, container] => (pod(namespace, name, None)?, container),
        [namespace, name, uid, container] => (pod(namespace, name, Some(uid))?, container),
        _ => return None,
    };
    Some(ContainerPath { pod, container: valid(container, is_label)? })
}

fn pod(namespace: &str, name: &str, uid: Option<&str>) -> Option<PodPath> {
    let uid = match uid {
        Some(uid) => Some(valid(uid, is_uid)?),
        None => None,
    };
    Some(PodPath { namespace: valid(namespace, is_label)?, name: valid(name, is_subdomain)?, uid })
}

fn valid(text: &str, is: fn(&str) -> bool) -> Option<String> {
    is(text).then(|| text.to_owned())
}

/// A DNS-1123 label: names of namespaces and containers.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// A DNS-1123 subdomain: names of pods.
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| plain(*byte))
        && bytes.last().is_some_and(|byte| plain(*byte))
        && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
}

/// UIDs are opaque; API servers make UUIDs of them.
fn is_uid(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests;
