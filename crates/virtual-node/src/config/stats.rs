// SPDX-License-Identifier: Apache-2.0
//! What the flags about metrics of containers mean.

use http::Uri;
use tensile_core::stats::{Source, Wanted};

use super::{SettingsError, invalid, url};
use crate::args::Args;

/// Where metrics of containers come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatsSettings {
    /// The source, or the best there is.
    pub source: Wanted,
    /// A metric store, if there is one.
    pub store: Option<StoreSettings>,
}

/// A metric store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Its address, with scheme and host.
    pub url: Uri,
    /// Label matchers that each query has; empty for none.
    pub matchers: String,
}

impl StatsSettings {
    pub(super) fn resolve(args: &Args) -> Result<Self, SettingsError> {
        let source = args.metrics_source.unwrap_or_default();
        let url = args.prometheus_url.as_deref().map(|text| url("--prometheus-url", text)).transpose()?;
        if url.is_none() && source == Wanted::Only(Source::Prometheus) {
            let reason = "needs --prometheus-url".to_owned();
            return Err(invalid("--metrics-source", "prometheus", reason));
        }
        let matchers =
            args.prometheus_matchers.as_deref().unwrap_or_default().trim().trim_matches(['{', '}']).to_owned();
        if url.is_none() && !matchers.is_empty() {
            return Err(invalid("--prometheus-matchers", matchers, "needs --prometheus-url".to_owned()));
        }
        Ok(Self { source, store: url.map(|url| StoreSettings { url, matchers }) })
    }
}
