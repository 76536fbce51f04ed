// SPDX-License-Identifier: Apache-2.0
//! Paths that mean something, and many that do not.

use proptest::prelude::*;

use super::*;

fn named(uid: Option<&str>) -> ContainerPath {
    ContainerPath {
        pod: PodPath { namespace: "ns".into(), name: "web-0.a".into(), uid: uid.map(Into::into) },
        container: "main".into(),
    }
}

#[test]
fn every_path_of_the_kubelet_is_found() {
    let get = |path| route(&Method::GET, path);
    let post = |path| route(&Method::POST, path);
    for (asked, expected) in [
        (get("/pods"), Endpoint::Pods),
        (get("/runningpods/"), Endpoint::RunningPods),
        (get("/runningpods"), Endpoint::RunningPods),
        (get("/containerLogs/ns/web-0.a/main"), Endpoint::Logs(named(None))),
        (get("/exec/ns/web-0.a/main"), Endpoint::Exec(named(None))),
        (post("/exec/ns/web-0.a/6e8b-F/main"), Endpoint::Exec(named(Some("6e8b-F")))),
        (post("/attach/ns/web-0.a/main"), Endpoint::Attach(named(None))),
        (get("/attach/ns/web-0.a/u/main"), Endpoint::Attach(named(Some("u")))),
        (post("/run/ns/web-0.a/main"), Endpoint::Run(named(None))),
        (post("/checkpoint/ns/web-0.a/main"), Endpoint::Checkpoint(named(None))),
        (get("/portForward/ns/web-0.a"), Endpoint::PortForward(named(None).pod)),
        (post("/portForward/ns/web-0.a/u"), Endpoint::PortForward(named(Some("u")).pod)),
        (get("/stats/summary"), Endpoint::StatsSummary),
        (get("/metrics"), Endpoint::Metrics(Exposition::Process)),
        (get("/metrics/resource"), Endpoint::Metrics(Exposition::Resource)),
        (get("/metrics/cadvisor"), Endpoint::Metrics(Exposition::Cadvisor)),
        (get("/metrics/probes"), Endpoint::Metrics(Exposition::Probes)),
        (get("/healthz"), Endpoint::Healthz),
        (get("/healthz/syncloop"), Endpoint::Healthz),
        (get("/configz"), Endpoint::Configz),
    ] {
        assert_eq!(asked, Ok(expected));
    }
}

#[test]
fn other_methods_are_told_what_is_allowed() {
    for (method, path, allow) in [
        (Method::POST, "/pods", "GET"),
        (Method::HEAD, "/healthz", "GET"),
        (Method::DELETE, "/containerLogs/n/p/c", "GET"),
        (Method::PUT, "/exec/n/p/c", "GET, POST"),
        (Method::PATCH, "/portForward/n/p", "GET, POST"),
        (Method::GET, "/run/n/p/c", "POST"),
        (Method::GET, "/checkpoint/n/p/c", "POST"),
    ] {
        assert_eq!(route(&method, path), Err(RouteError::NotAllowed(allow)), "{method} {path}");
    }
}

#[test]
fn what_cannot_be_a_name_leads_nowhere() {
    let label = "a".repeat(64);
    let subdomain = "a".repeat(254);
    for path in [
        "",
        "/",
        "*",
        "//pods",
        "pods",
        "/pods//",
        "/Pods",
        "/pods/x",
        "/nothing",
        "/exec",
        "/exec/n/p",
        "/exec/n/p/u/c/x",
        "/exec/n//c",
        "/exec/n/../c",
        "/exec/../p/c",
        "/exec/n/./c",
        "/exec/n/p%2fx/c",
        "/exec/n/%2e%2e/c",
        "/exec/n/p/c?x",
        "/exec/n/p/c;x",
        "/exec/n/p/C",
        "/exec/n/-p/c",
        "/exec/n/p./c",
        "/exec/n.m/p/c",
        "/exec/n/p/c.d",
        "/exec/n/p/u%/c",
        "/exec/n/p/ü/c",
        "/exec/n/p/c\0",
        "/exec/n/p/c\\",
        "/exec/n/p@x/c",
        "/exec/n/p:1/c",
        "/portForward/n",
        "/containerLogs/n/p/u/c",
        "/metrics/other",
        "/stats",
        "/stats/container",
        "/healthz/other",
        &format!("/exec/{label}/p/c"),
        &format!("/exec/n/p/{label}"),
        &format!("/exec/n/{subdomain}/c"),
        &format!("/exec/n/p/{}/c", "u".repeat(129)),
    ] {
        assert_eq!(route(&Method::GET, path), Err(RouteError::NotFound), "{path:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_paths_never_panic(path in ".{0,200}") {
        drop(route(&Method::GET, &path));
    }

    /// Built of the pieces that matter, so that many of them are routes.
    #[test]
    fn names_that_pass_cannot_leave_their_segment(
        verb in prop::sample::select(vec!["exec", "attach", "run", "containerLogs", "portForward"]),
        segments in prop::collection::vec("[a-z0-9./%-]{1,6}|\\.\\.|%2[fF]", 0..5),
    ) {
        let path = format!("/{verb}/{}", segments.join("/"));
        for method in [Method::GET, Method::POST] {
            let (pod, container) = match route(&method, &path) {
                Ok(Endpoint::Logs(at) | Endpoint::Exec(at) | Endpoint::Attach(at) | Endpoint::Run(at)) => {
                    (at.pod, Some(at.container))
                }
                Ok(Endpoint::PortForward(pod)) => (pod, None),
                Ok(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
                Err(_) => continue,
            };
            for name in [Some(pod.namespace), Some(pod.name), pod.uid, container].into_iter().flatten() {
                prop_assert!(!name.contains(['/', '%', '?', '#', ';', '\\']) && name != ".." && name != ".");
            }
        }
    }
}
