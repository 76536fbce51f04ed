// SPDX-License-Identifier: Apache-2.0
//! Damaged requests: whatever a path or a query holds, it is refused or means what it says.
//!
//! The inputs are the same in each run. A long run, such as `TENSILE_FUZZ_CASES=10000000 cargo test --release -p
//! virtual-kubelet --test fuzz`, tries more of the same sequence.

use http::Method;
use tensile_testkit::fuzz::{Numbers, cases, damage_bytes};
use virtual_kubelet::server::options::{LogOptions, LogStream, QueryError, Since, Streams, command, ports, run};
use virtual_kubelet::server::request::{ContainerPath, Endpoint, PodPath, RouteError, route};

/// Inputs that are tried unless told otherwise, of each kind.
const CASES: u64 = 100_000;

const PATHS: &[&str] = &[
    "/pods",
    "/runningpods/",
    "/containerLogs/default/web-5d4f8c7b9d-x2x7p/main",
    "/exec/kube-system/web-0.sub/6e8bf5c1-5c8f-4f0a-9e55-0a6ff7fbb1f5/init-1",
    "/attach/default/web/main",
    "/run/default/web/main",
    "/checkpoint/default/web/main",
    "/portForward/default/web",
    "/portForward/default/web/6e8bf5c1-5c8f-4f0a-9e55-0a6ff7fbb1f5",
    "/stats/summary",
    "/metrics/cadvisor",
    "/healthz/syncloop",
];

const QUERIES: &[&str] = &[
    "follow=true&previous=false&timestamps=1&tailLines=10&limitBytes=4096&sinceSeconds=3600",
    "sinceTime=2026-01-02T03%3A04%3A05Z&stream=Stdout&follow",
    "tail=all&tailLines=0&stream=All",
    "command=sh&command=-c&command=echo+a%26b%20c&input=1&output=1&error=1&tty=0",
    "input=1&output=1&tty=1&command=bash",
    "port=80&port=443,8080&cmd=ls%20-l%20/",
];

/// What of a path the endpoint kept, written out again; `None` for endpoints without names.
fn written(endpoint: &Endpoint) -> Option<String> {
    let pod = |PodPath { namespace, name, uid }: &PodPath| match uid {
        Some(uid) => format!("{namespace}/{name}/{uid}"),
        None => format!("{namespace}/{name}"),
    };
    let container = |at: &ContainerPath| format!("{}/{}", pod(&at.pod), at.container);
    Some(match endpoint {
        Endpoint::Logs(at) => format!("/containerLogs/{}", container(at)),
        Endpoint::Exec(at) => format!("/exec/{}", container(at)),
        Endpoint::Attach(at) => format!("/attach/{}", container(at)),
        Endpoint::Run(at) => format!("/run/{}", container(at)),
        Endpoint::Checkpoint(at) => format!("/checkpoint/{}", container(at)),
        Endpoint::PortForward(at) => format!("/portForward/{}", pod(at)),
        _ => return None,
    })
}

/// One of the texts with damage.
fn damaged(texts: &[&str], numbers: &mut Numbers) -> String {
    let mut bytes = numbers.of(texts).as_bytes().to_vec();
    damage_bytes(&mut bytes, numbers);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn fuzz_of_paths() {
    let (mut found, mut nowhere, cases) = (0, 0, cases(CASES));
    for case in 0..cases {
        let path = damaged(PATHS, &mut Numbers::new(case));
        for method in [Method::GET, Method::POST, Method::PUT] {
            match route(&method, &path) {
                Ok(endpoint) => {
                    found += 1;
                    // Another API server is asked for just these names: they are the path's own, and nothing in them
                    // means more than itself.
                    if let Some(written) = written(&endpoint) {
                        assert_eq!(path.strip_suffix('/').unwrap_or(&path), written);
                        let plain = |c: char| c.is_ascii_alphanumeric() || "/-.".contains(c);
                        assert!(written.chars().all(plain) && !written.contains(".."), "{written}");
                    }
                }
                Err(RouteError::NotAllowed(methods)) => assert!(!methods.contains(method.as_str()), "{method} {path}"),
                Err(RouteError::NotFound) => nowhere += 1,
            }
        }
    }
    assert!(found * 10 > cases && nowhere * 10 > cases, "{found} found and {nowhere} not, of {cases}");
}

#[test]
fn fuzz_of_queries() {
    let (mut read, mut refused, cases) = (0, 0, cases(CASES));
    for case in 0..cases {
        let query = damaged(QUERIES, &mut Numbers::new(case));
        match LogOptions::read(&query) {
            Ok(LogOptions { since, tail_lines, limit_bytes, stream, .. }) => {
                read += 1;
                // As the API has them: an API server that is asked so does not refuse.
                assert!(limit_bytes.is_none_or(|bytes| bytes > 0 && i64::try_from(bytes).is_ok()), "{query}");
                assert!(tail_lines.is_none_or(|lines| i64::try_from(lines).is_ok()), "{query}");
                assert!(tail_lines.is_none() || stream == LogStream::All, "{query}");
                assert!(since != Some(Since::Seconds(0)), "{query}");
            }
            Err(QueryError::Undecodable(why) | QueryError::Invalid(why)) => {
                refused += 1;
                assert!(!why.is_empty());
            }
        }
        if let Ok(Streams { stdin, stdout, stderr, tty }) = Streams::read(&query) {
            assert!((stdin || stdout || stderr) && !(tty && stderr), "{query}");
        }
        if let Ok(ports) = ports(&query) {
            assert!(ports.iter().all(|port| *port > 0), "{query}");
        }
        if let Ok(words) = run(&query) {
            assert!(!words.is_empty(), "{query}");
        }
        // One word for each pair of the name, however damaged the rest is.
        let pairs = query.split('&').filter(|pair| pair.split('=').next() == Some("command")).count();
        assert!(command(&query).len() >= pairs, "{query}");
    }
    assert!(read * 10 > cases && refused * 20 > cases, "{read} read and {refused} refused, of {cases}");
}
