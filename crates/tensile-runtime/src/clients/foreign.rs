// SPDX-License-Identifier: Apache-2.0
//! What a kubeconfig makes its reader do, besides opening connections.

use kube::config::{AuthInfo, Cluster, Kubeconfig};

/// The first thing that is read from files or run for `kubeconfig`, in words. Who may write a Secret could otherwise have
/// this process' own token sent to a server of theirs.
pub(super) fn reaches_for(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    clusters.filter_map(of_cluster).chain(users.filter_map(of_user)).next()
}

fn of_cluster(cluster: &Cluster) -> Option<&'static str> {
    cluster.certificate_authority.as_ref().map(|_| "a file certificate-authority")
}

fn of_user(user: &AuthInfo) -> Option<&'static str> {
    if user.client_certificate.is_some() {
        Some("a file client-certificate")
    } else if user.client_key.is_some() {
        Some("a file client-key")
    } else if user.token_file.is_some() {
        Some("a file tokenFile")
    } else if user.exec.is_some() {
        Some("a program exec")
    } else {
        user.auth_provider.as_ref().map(|_| "an auth-provider")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(cluster: &str, user: &str) -> Option<&'static str> {
        let text = format!("{{clusters: [{{name: c, cluster: {cluster}}}], users: [{{name: u, user: {user}}}]}}");
        reaches_for(&Kubeconfig::from_yaml(&text).unwrap())
    }

    #[test]
    fn data_in_the_file_is_all_that_is_needed() {
        let user = "{token: t, client-certificate-data: YQ==, client-key-data: YQ==}";
        assert_eq!(reached("{server: 'https://a', certificate-authority-data: YQ==}", user), None);
    }

    #[test]
    fn files_and_programs_are_named() {
        assert_eq!(reached("{certificate-authority: ca.crt}", "{}"), Some("a file certificate-authority"));
        for (user, what) in [
            ("{client-certificate: c}", "a file client-certificate"),
            ("{client-key: k}", "a file client-key"),
            ("{tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}", "a file tokenFile"),
            ("{exec: {command: sh}}", "a program exec"),
            ("{auth-provider: {name: gcp, config: {}}}", "an auth-provider"),
        ] {
            assert_eq!(reached("{}", user), Some(what));
        }
    }
}
