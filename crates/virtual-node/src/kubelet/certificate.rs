// SPDX-License-Identifier: Apache-2.0
//! The certificate that the kubelet API shows: from files that are followed, issued by the upper cluster, or self-signed.

use std::{convert::Infallible, sync::Arc};

use kube::Client;
use prometheus::Registry;
use rustls::server::ResolvesServerCert;
use tensile_core::node::NodeSettings;
use tensile_runtime::{
    clients::{ProbeError, require},
    shutdown::Tasks,
    tls::{self, RELOAD_EVERY},
};
use tokio::sync::watch;
use virtual_kubelet::server::certificate::{self, Addresses, CertificateController, ServingCertificate};

use crate::{
    config::{CertificateFiles, CertificateSource},
    permissions,
};

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The files do not hold one.
    #[error(transparent)]
    Files(#[from] tls::FileError),
    /// None could be made for the node's name and addresses.
    #[error("node {node}: {reason}")]
    Made {
        /// The node.
        node: String,
        /// What is wrong.
        reason: certificate::CertificateError,
    },
    /// It has to come from the upper cluster, and cannot be asked for.
    #[error("--kubelet-serving-certificate=csr: {0}")]
    Forbidden(ProbeError),
    /// Its metrics are there already.
    #[error("cannot register metrics of the serving certificate: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The certificate of `source`, and the tasks that keep it.
pub(super) async fn resolver(
    source: &CertificateSource,
    node: &NodeSettings,
    upper: &Client,
    registry: &Registry,
    tasks: &mut Tasks,
) -> Result<Arc<dyn ResolvesServerCert>, CertificateError> {
    if let CertificateSource::Files(files) = source {
        return Ok(followed(files, tasks)?);
    }
    let addresses: Addresses = node.addresses.iter().map(|address| address.address.clone()).collect();
    let made = ServingCertificate::self_signed(&node.name, &addresses);
    let made = made.map_err(|reason| CertificateError::Made { node: node.name.clone(), reason })?;
    let missing = match source {
        CertificateSource::Requested { required } => match require(upper, permissions::UPPER_CERTIFICATE).await {
            Err(error @ ProbeError::Forbidden { .. }) if *required => return Err(CertificateError::Forbidden(error)),
            Err(error @ ProbeError::Forbidden { .. }) => Some(error.to_string()),
            // An upper cluster that is away is asked again, by whoever asks for the certificate.
            Ok(()) | Err(_) => None,
        },
        _ => Some("--kubelet-serving-certificate=self-signed".to_owned()),
    };
    if let Some(reason) = missing {
        tracing::warn!(
            node = node.name,
            reason,
            "the kubelet API shows a self-signed certificate, which an API server with \
             --kubelet-certificate-authority refuses"
        );
        return Ok(made);
    }
    if addresses.is_empty() {
        tracing::warn!(
            node = node.name,
            "the node has no address, so no certificate is asked for; --node-ip gives it one"
        );
    }
    // They are settings: they stay what they are.
    let (_, addresses) = watch::channel(addresses);
    let controller = CertificateController::new(upper.clone(), made.clone(), &node.name, addresses, registry)?;
    let stop = tasks.stop();
    tasks.spawn("serving certificate", async move {
        controller.run(stop).await;
        Ok::<_, Infallible>(())
    });
    Ok(made)
}

fn followed(files: &CertificateFiles, tasks: &mut Tasks) -> Result<Arc<tls::ServedCertificate>, tls::FileError> {
    let files = tls::CertificateFiles::load(&files.cert, &files.key)?;
    let (certificate, stop) = (files.served(), tasks.stop());
    tasks.spawn("kubelet certificate", async move {
        files.follow(RELOAD_EVERY, stop).await;
        Ok::<_, Infallible>(())
    });
    Ok(certificate)
}
