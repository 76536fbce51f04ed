// SPDX-License-Identifier: Apache-2.0
//! What of the upper cluster pods keep below: service accounts, the address of its API server, its DNS.

use tensile_core::pod::ClusterDns;

use super::{SettingsError, invalid, is_subdomain};
use crate::args::Args;

/// As kubeadm and most others have it.
const DEFAULT_DOMAIN: &str = "cluster.local";

/// What of the upper cluster pods keep below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentitySettings {
    /// Their service accounts.
    pub service_accounts: bool,
    /// Where they reach the upper API server, if not where this process does.
    pub upper_apiserver: Option<String>,
    /// The DNS of the upper cluster, if they use that.
    pub dns: Option<ClusterDns>,
}

impl IdentitySettings {
    /// What `args` mean, and what of them has no effect.
    pub(super) fn resolve(args: &Args) -> Result<(Self, Option<String>), SettingsError> {
        let servers = args.cluster_dns.clone().filter(|servers| !servers.is_empty());
        let alone = args.cluster_domain.is_some() && servers.is_none();
        let warning = alone.then(|| "--cluster-domain has no effect without --cluster-dns".to_owned());
        let domain = args.cluster_domain.clone().unwrap_or_else(|| DEFAULT_DOMAIN.to_owned());
        let domain = domain.trim_end_matches('.').to_owned();
        if !is_subdomain(&domain) {
            return Err(invalid("--cluster-domain", domain, "is not a domain".to_owned()));
        }
        let settings = Self {
            service_accounts: args.enable_serviceaccount.unwrap_or(true),
            upper_apiserver: args.upper_apiserver.clone(),
            dns: servers.map(|servers| ClusterDns { servers, domain }),
        };
        Ok((settings, warning))
    }
}
