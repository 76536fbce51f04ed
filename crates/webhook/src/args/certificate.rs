// SPDX-License-Identifier: Apache-2.0
//! Flags of the certificate that the webhook keeps itself, and what they mean together.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use tensile_runtime::args::value::{boolean, timeout};

use super::SettingsError;
use crate::certificates::issue::{Lifetimes, params_for};

/// What can be typed.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Certificate of its own")]
#[allow(clippy::doc_markdown, reason = "these texts are the help page, which knows no markdown")]
pub struct CertificateArgs {
    /// Keep a CA and a certificate in a Secret, renew them in time, and tell API servers of the CA [default: true,
    /// unless there are --tlscert and --tlskey]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean)]
    pub self_managed_certificate: Option<bool>,

    /// Name of the MutatingWebhookConfiguration in which API servers are told; required
    #[arg(long, value_name = "NAME")]
    pub webhook_configuration: Option<String>,

    /// DNS names and IP addresses at which API servers call, as NAME,...: SERVICE.NAMESPACE.svc for a Service; required.
    /// Only the webhooks of the configuration that are called at one of them are changed
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub serving_names: Option<Vec<String>>,

    /// Name of the Secret [default: tensile-webhook-certificate]
    #[arg(long, value_name = "NAME")]
    pub certificate_secret: Option<String>,

    /// Namespace of the Secret [default: that of this pod, or of the kubeconfig's context]
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// How long a certificate lasts; it is renewed after two thirds, and is at most a third of --ca-lifetime [default:
    /// 720h]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub certificate_lifetime: Option<Duration>,

    /// How long a CA lasts; the next one is told of after two thirds [default: 8760h]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub ca_lifetime: Option<Duration>,
}

const DEFAULT_SECRET: &str = "tensile-webhook-certificate";
const HOUR: u64 = 3600;
const DEFAULT_LIVES: Lifetimes =
    Lifetimes { ca: Duration::from_secs(8760 * HOUR), leaf: Duration::from_secs(720 * HOUR) };

/// A certificate that the webhook keeps itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfManaged {
    /// Namespace of the Secret, if it is not that of the client.
    pub namespace: Option<String>,
    /// Name of the Secret.
    pub secret: String,
    /// Name of the `MutatingWebhookConfiguration`.
    pub configuration: String,
    /// Names and addresses it is for.
    pub names: BTreeSet<String>,
    /// How long certificates last.
    pub lives: Lifetimes,
}

impl CertificateArgs {
    /// What the flags mean; `None`: the certificate is somebody else's, or there is none.
    pub fn resolve(self, has_files: bool) -> Result<Option<SelfManaged>, SettingsError> {
        match self.self_managed_certificate {
            Some(true) if has_files => return Err(SettingsError::TwoCertificates),
            Some(false) => return Ok(None),
            None if has_files => return Ok(None),
            Some(true) | None => {}
        }
        let missing = |flag, meaning| SettingsError::Missing { flag, meaning };
        let given = |name: Option<String>| name.filter(|name| !name.trim().is_empty());
        let configuration = given(self.webhook_configuration)
            .ok_or(missing("--webhook-configuration", "it names the MutatingWebhookConfiguration"))?;
        let names = self.serving_names.unwrap_or_default().into_iter().map(|name| name.trim().to_owned());
        let names: BTreeSet<String> = names.filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return Err(missing("--serving-names", "it says at which names API servers call"));
        }
        params_for(&names).map_err(|error| SettingsError::ServingNames(error.to_string()))?;
        let lives = Lifetimes {
            ca: self.ca_lifetime.unwrap_or(DEFAULT_LIVES.ca),
            leaf: self.certificate_lifetime.unwrap_or(DEFAULT_LIVES.leaf),
        };
        if lives.leaf > lives.ca / 3 {
            return Err(SettingsError::Lifetimes);
        }
        Ok(Some(SelfManaged {
            namespace: given(self.namespace),
            secret: given(self.certificate_secret).unwrap_or_else(|| DEFAULT_SECRET.to_owned()),
            configuration,
            names,
            lives,
        }))
    }
}
