// SPDX-License-Identifier: Apache-2.0
//! Which source is asked.

use std::{fmt, str::FromStr};

/// Where metrics of containers can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The kubelets below, through their API server's node proxy.
    Kubelet,
    /// The metrics API below.
    MetricsApi,
    /// A metric store.
    Prometheus,
    /// Nowhere.
    None,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kubelet, Self::MetricsApi, Self::Prometheus, Self::None];

    /// Its name in flags, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::MetricsApi => "metrics-api",
            Self::Prometheus => "prometheus",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the operator wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The best that there is.
    #[default]
    Auto,
    /// This one, whatever there is.
    Only(Source),
}

/// Text that names no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of auto, kubelet, metrics-api, prometheus, none")]
pub struct UnknownSource;

impl FromStr for Wanted {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => Source::ALL.into_iter().find(|source| source.name() == text).map(Self::Only).ok_or(UnknownSource),
        }
    }
}

/// What there is below. Each is a reason when it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The node proxy.
    pub kubelet: Result<(), String>,
    /// The metrics API.
    pub metrics_api: Result<(), String>,
    /// Whether a store was named.
    pub prometheus: bool,
}

/// The source that is asked, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The source.
    pub source: Source,
    /// Why it is no better one, in one sentence.
    pub reason: String,
}

/// Chooses: kubelets say most and count themselves; the metrics API says only how fast; a store knows what somebody
/// scrapes.
pub fn choose(wanted: Wanted, found: &Found) -> Choice {
    let source = match wanted {
        Wanted::Only(source) => return Choice { source, reason: "it was asked for".to_owned() },
        Wanted::Auto if found.kubelet.is_ok() => Source::Kubelet,
        Wanted::Auto if found.metrics_api.is_ok() => Source::MetricsApi,
        Wanted::Auto if found.prometheus => Source::Prometheus,
        Wanted::Auto => Source::None,
    };
    let passed_over = [(Source::Kubelet, &found.kubelet), (Source::MetricsApi, &found.metrics_api)];
    let reasons = passed_over.into_iter().filter(|(passed, _)| *passed < source);
    let reasons = reasons.filter_map(|(passed, why)| Some(format!("{passed}: {}", why.as_ref().err()?)));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    Choice { source, reason: if reasons.is_empty() { "it is the best there is".to_owned() } else { reasons } }
}
