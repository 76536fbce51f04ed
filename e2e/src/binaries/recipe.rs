// SPDX-License-Identifier: Apache-2.0
//! Which programs there are, at which versions, and from which Go packages they are built.

use anyhow::Context as _;

/// The supported versions of Kubernetes, newest first. All of them are complete on the Go module proxy.
pub const SUPPORTED: &[&str] = &["1.36.3", "1.35.4", "1.34.4", "1.33.13"];

/// The version of kwok.
pub const KWOK: &str = "0.8.0";

/// The version of containerd: kubelets from 1.36 on want the CRI of containerd 2.
const CONTAINERD: &str = "2.2.9";

/// One program at one version.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// Its file name.
    pub(super) program: &'static str,
    /// Its version, without a leading `v`.
    pub(super) version: String,
    /// The Go module it is in.
    pub(super) module: &'static str,
    /// Its package in that module, relative.
    pub(super) package: String,
    /// Variables that the linker sets: without them Kubernetes reports version v0.0.0.
    pub(super) stamps: Vec<String>,
    /// Build tags: what is left out, mostly.
    pub(super) tags: &'static str,
    /// What makes it print its version.
    pub(super) version_args: &'static [&'static str],
}

impl Recipe {
    /// A command of Kubernetes.
    pub(super) fn kubernetes(program: &'static str, version: &str) -> Self {
        let minor = version.split('.').nth(1).unwrap_or_default();
        let stamp = |variable: &str, value: &str| format!("k8s.io/component-base/version.{variable}={value}");
        Self {
            program,
            version: version.to_owned(),
            module: "k8s.io/kubernetes",
            package: format!("cmd/{program}"),
            stamps: vec![
                stamp("gitVersion", &format!("v{version}")),
                stamp("gitMajor", "1"),
                stamp("gitMinor", minor),
                stamp("gitTreeState", "clean"),
            ],
            tags: "",
            version_args: if program == "kubectl" { &["version", "--client"] } else { &["--version"] },
        }
    }

    /// The server and client of many protocols that Kubernetes' own suites run in containers.
    pub(super) fn agnhost(version: &str) -> Self {
        Self { package: "test/images/agnhost".to_owned(), ..Self::kubernetes("agnhost", version) }
    }

    /// A command of containerd, without the file systems that need C libraries.
    pub(super) fn containerd(program: &'static str) -> Self {
        let package = format!("cmd/{program}");
        let version_args: &[&str] = if program == "containerd-shim-runc-v2" { &["-v"] } else { &["--version"] };
        let containerd = Self::tool(program, CONTAINERD, "github.com/containerd/containerd/v2", &package);
        Self { tags: "no_btrfs no_zfs no_aufs", version_args, ..containerd }
    }

    pub(super) fn etcd() -> Self {
        Self::tool("etcd", "3.6.5", "go.etcd.io/etcd/server/v3", "")
    }

    pub(super) fn kwok() -> Self {
        Self::tool("kwok", KWOK, "sigs.k8s.io/kwok", "cmd/kwok")
    }

    pub(super) fn metrics_server() -> Self {
        let server = Self::tool("metrics-server", "0.9.0", "sigs.k8s.io/metrics-server", "cmd/metrics-server");
        let stamps = vec![format!("k8s.io/client-go/pkg/version.gitVersion=v{}", server.version)];
        Self { stamps, ..server }
    }

    /// Prometheus, without what finds targets in clouds: nearly all of its dependencies. The pages it shows are not in the
    /// module. Releases 3.x are tagged v0.3xx there.
    pub(super) fn prometheus() -> Self {
        let prometheus = Self::tool("prometheus", "0.310.0", "github.com/prometheus/prometheus", "cmd/prometheus");
        let stamps = vec![format!("github.com/prometheus/common/version.Version={}", prometheus.version)];
        Self { stamps, tags: "remove_all_sd", ..prometheus }
    }

    pub(super) fn helm() -> Self {
        let helm = Self::tool("helm", "3.21.4", "helm.sh/helm/v3", "cmd/helm");
        let stamps = vec![format!("helm.sh/helm/v3/internal/version.version=v{}", helm.version)];
        Self { stamps, version_args: &["version", "--short"], ..helm }
    }

    fn tool(program: &'static str, version: &str, module: &'static str, package: &str) -> Self {
        Self {
            program,
            version: version.to_owned(),
            module,
            package: package.to_owned(),
            stamps: Vec::new(),
            tags: "",
            version_args: &["--version"],
        }
    }

    /// The import path of the package.
    pub(super) fn import_path(&self) -> String {
        if self.package.is_empty() { self.module.to_owned() } else { format!("{}/{}", self.module, self.package) }
    }

    /// The `go.mod` of a module that requires this one, from this one's own `go.mod`.
    ///
    /// `replace`s do not reach through a requirement, and Kubernetes requires its staging modules at v0.0.0, replaced
    /// by folders of its own repository. They are published as v0.MINOR.PATCH.
    pub(super) fn go_mod(&self, upstream: &str) -> String {
        let go = upstream.lines().find(|line| line.starts_with("go ")).unwrap_or("go 1.24");
        let staged = self.version.strip_prefix("1.").unwrap_or(&self.version);
        let replaces = upstream
            .lines()
            .filter_map(|line| line.trim().trim_start_matches("replace ").split_once(" => ./staging/"))
            .map(|(module, _)| format!("replace {module} => {module} v0.{staged}\n"));
        format!("module tensile.io/binaries\n\n{go}\n\nrequire {} v{}\n\n", self.module, self.version)
            + &replaces.collect::<String>()
    }
}

/// The supported version that `asked` names: a full one, or a minor.
pub(super) fn supported(asked: &str) -> anyhow::Result<&'static str> {
    let asked = asked.trim_start_matches('v');
    let named = |version: &str| version == asked || version.rsplit_once('.').is_some_and(|(minor, _)| minor == asked);
    SUPPORTED
        .iter()
        .copied()
        .find(|version| named(version))
        .with_context(|| format!("Kubernetes {asked} is not among the supported versions: {}", SUPPORTED.join(", ")))
}

/// Whether what a program printed names exactly this version (`v1.2.3`, `1.2.3`, `v1.2.3+g9f1b5e`).
pub(super) fn says_version(printed: &str, version: &str) -> bool {
    printed
        .split(|c: char| c.is_whitespace() || c == '+' || c == ',')
        .any(|word| word.trim_start_matches('v') == version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_recognised_only_when_it_is_exactly_the_asked_one() {
        assert!(says_version("Kubernetes v1.36.3\n", "1.36.3"));
        assert!(says_version("etcd Version: 3.6.5\nGit SHA: x\n", "3.6.5"));
        assert!(says_version("kwok version v0.8.0 go1.26.8 (linux/amd64)", "0.8.0"));
        assert!(says_version("v3.21.4+g0ad2ae6", "3.21.4"));
        assert!(says_version("containerd github.com/containerd/containerd/v2 2.2.9+unknown \n", "2.2.9"));
        assert!(!says_version("Client Version: v1.36.3-dispatcher", "1.36.3"));
        assert!(!says_version("Kubernetes v1.36.31\n", "1.36.3"));
    }

    #[test]
    fn a_minor_names_its_supported_patch() {
        assert_eq!(supported("1.34").unwrap(), "1.34.4");
        assert_eq!(supported("v1.33.13").unwrap(), "1.33.13");
        assert!(supported("1.3").unwrap_err().to_string().contains("1.36.3, 1.35.4"));
    }

    #[test]
    fn staging_modules_are_replaced_by_their_published_versions() {
        let upstream = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n\
                        replace k8s.io/client-go => ./staging/src/k8s.io/client-go\nreplace a => b v1.0.0\n";
        assert_eq!(
            Recipe::kubernetes("kubectl", "1.36.3").go_mod(upstream),
            "module tensile.io/binaries\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.3\n\n\
             replace k8s.io/api => k8s.io/api v0.36.3\nreplace k8s.io/client-go => k8s.io/client-go v0.36.3\n"
        );
    }
}
