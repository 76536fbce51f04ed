// SPDX-License-Identifier: Apache-2.0
//! The processes of a control plane and their arguments.

use std::net::Ipv4Addr;
use std::path::Path;

use crate::binaries::Kubernetes;
use crate::process::Launch;

/// A process of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// The simulator of nodes.
    Kwok,
}

impl Component {
    /// The name of its program, and of its log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// A launch of it for the cluster in `folder`, logging there.
    pub(crate) fn launch(self, cluster: &str, program: &Path, folder: &Path) -> Launch {
        let name = self.name();
        Launch::new(format!("{name} of {cluster}"), program, folder.join(format!("{name}.log")))
    }
}

/// File name of the audit log.
pub(super) const AUDIT_LOG: &str = "audit.log";
/// File name of the audit policy.
pub(super) const AUDIT_POLICY: &str = "audit.yaml";
/// File name of the scheduler's configuration.
pub(super) const SCHEDULER_CONFIG: &str = "scheduler.yaml";
/// Folder of the certificates.
pub(super) const PKI: &str = "pki";

/// The addresses that services of a cluster get; the first is the API server's own.
pub(super) const SERVICE_RANGE: &str = "10.96.0.0/16";
pub(super) const FIRST_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// What the arguments depend on.
pub(super) struct Settings<'a> {
    pub(super) cluster: &'a str,
    pub(super) folder: &'a Path,
    pub(super) kubernetes: &'a Kubernetes,
    pub(super) etcd: &'a Path,
    pub(super) etcd_port: u16,
    pub(super) etcd_peer_port: u16,
    pub(super) server_port: u16,
    pub(super) controller_manager_port: u16,
    pub(super) scheduler_port: u16,
    pub(super) audit: bool,
}

impl Settings<'_> {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    fn pki(&self, name: &str) -> String {
        self.file(&format!("{PKI}/{name}"))
    }

    fn launch(&self, component: Component, program: &Path) -> Launch {
        component.launch(self.cluster, program, self.folder)
    }

    /// No fsync: a test's data need not survive the machine.
    pub(super) fn etcd(&self) -> Launch {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        self.launch(Component::Etcd, self.etcd).args([
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ])
    }

    /// Limits high enough that a benchmark measures the work and not a throttle; aggregation as in production.
    pub(super) fn apiserver(&self, extra: &[String]) -> Launch {
        let audit = [
            format!("--audit-policy-file={}", self.file(AUDIT_POLICY)),
            format!("--audit-log-path={}", self.file(AUDIT_LOG)),
            // Megabytes: never rotated.
            "--audit-log-maxsize=100000".to_owned(),
        ];
        self.launch(Component::ApiServer, &self.kubernetes.apiserver)
            .args([
                format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", self.server_port),
                format!("--cert-dir={}", self.file("apiserver")),
                format!("--tls-cert-file={}", self.pki("apiserver.crt")),
                format!("--tls-private-key-file={}", self.pki("apiserver.key")),
                format!("--client-ca-file={}", self.pki("ca.crt")),
                format!("--kubelet-client-certificate={}", self.pki("kubelet-client.crt")),
                format!("--kubelet-client-key={}", self.pki("kubelet-client.key")),
                format!("--kubelet-certificate-authority={}", self.pki("ca.crt")),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
                format!("--service-account-key-file={}", self.pki("service-account.crt")),
                format!("--service-account-signing-key-file={}", self.pki("service-account.key")),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-cluster-ip-range={SERVICE_RANGE}"),
                "--authorization-mode=Node,RBAC".to_owned(),
                "--enable-admission-plugins=NodeRestriction".to_owned(),
                "--anonymous-auth=false".to_owned(),
                "--allow-privileged=true".to_owned(),
                "--max-requests-inflight=4000".to_owned(),
                "--max-mutating-requests-inflight=2000".to_owned(),
                format!("--requestheader-client-ca-file={}", self.pki("front-proxy-ca.crt")),
                "--requestheader-allowed-names=front-proxy".to_owned(),
                "--requestheader-username-headers=X-Remote-User".to_owned(),
                "--requestheader-group-headers=X-Remote-Group".to_owned(),
                "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
                format!("--proxy-client-cert-file={}", self.pki("front-proxy.crt")),
                format!("--proxy-client-key-file={}", self.pki("front-proxy.key")),
            ])
            .args(audit.into_iter().filter(|_| self.audit))
            .args(extra)
    }

    pub(super) fn controller_manager(&self, extra: &[String]) -> Launch {
        let kubeconfig = self.file("controller-manager.kubeconfig");
        self.launch(Component::ControllerManager, &self.kubernetes.controller_manager)
            .args([
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                format!("--cert-dir={}", self.file("controller-manager")),
                format!("--secure-port={}", self.controller_manager_port),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--service-account-private-key-file={}", self.pki("service-account.key")),
                format!("--root-ca-file={}", self.pki("ca.crt")),
                format!("--cluster-signing-cert-file={}", self.pki("ca.crt")),
                format!("--cluster-signing-key-file={}", self.pki("ca.key")),
                "--use-service-account-credentials".to_owned(),
                "--leader-elect=false".to_owned(),
                "--kube-api-qps=2000".to_owned(),
                "--kube-api-burst=4000".to_owned(),
                "--concurrent-replicaset-syncs=20".to_owned(),
            ])
            .args(extra)
    }

    pub(super) fn scheduler(&self) -> Launch {
        let kubeconfig = self.file("scheduler.kubeconfig");
        self.launch(Component::Scheduler, &self.kubernetes.scheduler).args([
            format!("--config={}", self.file(SCHEDULER_CONFIG)),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--cert-dir={}", self.file("scheduler")),
            format!("--secure-port={}", self.scheduler_port),
            "--bind-address=127.0.0.1".to_owned(),
        ])
    }

    /// The scheduler's configuration when a test brings none.
    pub(super) fn scheduler_config(&self) -> String {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\n\
             kind: KubeSchedulerConfiguration\n\
             leaderElection: {{leaderElect: false}}\n\
             clientConnection: {{kubeconfig: {}, qps: 5000, burst: 10000}}\n",
            self.file("scheduler.kubeconfig")
        )
    }
}

/// Who asked for what, without bodies; one line for a request, when it is answered (a watch: when it ends).
pub(super) const AUDIT_POLICY_TEXT: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
";
