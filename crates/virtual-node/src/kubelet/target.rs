// SPDX-License-Identifier: Apache-2.0
//! Paths of the lower API server for what is asked of the kubelet: pure rewriting.

use form_urlencoded::Serializer;
use virtual_kubelet::server::{
    UpgradeTarget,
    options::{LogOptions, LogStream, Since, Streams},
};

use crate::lower::Place;

/// The log of a container.
pub(super) fn logs(pod: &Place<'_>, container: &str, options: &LogOptions) -> String {
    let mut query = Query::new();
    query.add("container", container);
    for (key, set) in [("follow", options.follow), ("previous", options.previous), ("timestamps", options.timestamps)] {
        query.flag(key, set);
    }
    match options.since {
        Some(Since::Seconds(seconds)) => query.add("sinceSeconds", &seconds.to_string()),
        Some(Since::Time(time)) => query.add("sinceTime", &time.to_string()),
        None => {}
    }
    for (key, number) in [("tailLines", options.tail_lines), ("limitBytes", options.limit_bytes)] {
        if let Some(number) = number {
            query.add(key, &number.to_string());
        }
    }
    // An older lower cluster does not know the parameter, and both is what it gives.
    if options.stream != LogStream::All {
        query.add("stream", options.stream.as_str());
    }
    query.of(pod, "log")
}

/// Exec, attach or port-forward.
pub(super) fn upgrade(pod: &Place<'_>, target: &UpgradeTarget) -> String {
    let mut query = Query::new();
    match target {
        UpgradeTarget::Exec { container, command, streams } => {
            query.add("container", container);
            for word in command {
                query.add("command", word);
            }
            query.streams(*streams);
            query.of(pod, "exec")
        }
        UpgradeTarget::Attach { container, streams } => {
            query.add("container", container);
            query.streams(*streams);
            query.of(pod, "attach")
        }
        UpgradeTarget::PortForward { ports } => {
            for port in ports {
                query.add("ports", &port.to_string());
            }
            query.of(pod, "portforward")
        }
    }
}

struct Query(Serializer<'static, String>);

impl Query {
    fn new() -> Self {
        Self(Serializer::new(String::new()))
    }

    fn add(&mut self, key: &str, value: &str) {
        self.0.append_pair(key, value);
    }

    /// A switch that is on; off is the default of each. The client's patience looks for `follow=true`.
    fn flag(&mut self, key: &str, set: bool) {
        if set {
            self.add(key, "true");
        }
    }

    /// All of them: exec and attach show standard output unless told otherwise.
    fn streams(&mut self, streams: Streams) {
        let Streams { stdin, stdout, stderr, tty } = streams;
        for (key, set) in [("stdin", stdin), ("stdout", stdout), ("stderr", stderr), ("tty", tty)] {
            self.add(key, if set { "true" } else { "false" });
        }
    }

    fn of(mut self, pod: &Place<'_>, subresource: &str) -> String {
        let query = self.0.finish();
        let mark = if query.is_empty() { "" } else { "?" };
        format!("/api/v1/namespaces/{}/pods/{}/{subresource}{mark}{query}", pod.namespace, pod.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Place<'static> {
        Place { namespace: "ns".into(), name: "web-0".into() }
    }

    #[test]
    fn a_log_without_options_asks_for_nothing_but_the_container() {
        let path = logs(&pod(), "main", &LogOptions::default());
        assert_eq!(path, "/api/v1/namespaces/ns/pods/web-0/log?container=main");
    }

    #[test]
    fn every_option_of_a_log_goes_down() {
        let options = LogOptions {
            follow: true,
            previous: true,
            timestamps: true,
            since: Some(Since::Seconds(60)),
            tail_lines: Some(0),
            limit_bytes: Some(10),
            stream: LogStream::Stderr,
        };
        assert_eq!(
            logs(&pod(), "main", &options),
            "/api/v1/namespaces/ns/pods/web-0/log?container=main&follow=true&previous=true&timestamps=true\
             &sinceSeconds=60&tailLines=0&limitBytes=10&stream=Stderr"
        );
        let since = LogOptions::read("sinceTime=2026-01-02T03:04:05.5%2B01:00").unwrap();
        assert!(logs(&pod(), "main", &since).ends_with("&sinceTime=2026-01-02T02%3A04%3A05.5Z"));
    }

    #[test]
    fn the_words_of_a_command_stay_words() {
        let target = UpgradeTarget::Exec {
            container: "main".to_owned(),
            command: ["sh", "-c", "echo a&b=c #?%2f+ ü"].map(str::to_owned).into(),
            streams: Streams { stdin: true, stdout: true, stderr: false, tty: true },
        };
        assert_eq!(
            upgrade(&pod(), &target),
            "/api/v1/namespaces/ns/pods/web-0/exec?container=main&command=sh&command=-c\
             &command=echo+a%26b%3Dc+%23%3F%252f%2B+%C3%BC&stdin=true&stdout=true&stderr=false&tty=true"
        );
    }

    #[test]
    fn attach_and_port_forward_have_their_own_parameters() {
        let streams = Streams { stdin: false, stdout: false, stderr: true, tty: false };
        let attach = UpgradeTarget::Attach { container: "main".to_owned(), streams };
        assert_eq!(
            upgrade(&pod(), &attach),
            "/api/v1/namespaces/ns/pods/web-0/attach?container=main&stdin=false&stdout=false&stderr=true&tty=false"
        );
        let ports = |ports: &[u16]| upgrade(&pod(), &UpgradeTarget::PortForward { ports: ports.to_vec() });
        assert_eq!(ports(&[]), "/api/v1/namespaces/ns/pods/web-0/portforward");
        assert_eq!(ports(&[80, 443]), "/api/v1/namespaces/ns/pods/web-0/portforward?ports=80&ports=443");
    }
}
