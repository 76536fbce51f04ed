// SPDX-License-Identifier: Apache-2.0
//! What the flags about tenants mean.

use std::path::PathBuf;

use tensile_core::tenant::Mapping;

use crate::args::Args;

/// How tenants of a lower cluster are kept apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantSettings {
    /// Which namespace below a namespace upstairs becomes.
    pub mapping: Mapping,
    /// Manifests of what is in each namespace that the link owns.
    pub quota: Option<PathBuf>,
    /// Its pods are reached by pods of the same upper cluster only.
    pub isolation: bool,
}

impl TenantSettings {
    pub(super) fn resolve(args: &Args) -> Self {
        Self {
            mapping: args.namespace_mapping.clone().unwrap_or_default(),
            quota: args.tenant_quota.clone(),
            isolation: args.tenant_isolation.unwrap_or(false),
        }
    }
}
