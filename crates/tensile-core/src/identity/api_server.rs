// SPDX-License-Identifier: Apache-2.0
//! Where pods find the upper API server.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};

/// Port of `https`.
const HTTPS: u16 = 443;
/// Port of `http`.
const HTTP: u16 = 80;

/// Host and port of an API server, which is all that programs in pods know of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// A name or an address; an IPv6 one without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// The text is no address of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not the address of an API server, as https://HOST:PORT, HOST:PORT or HOST")]
pub struct ApiServerError;

/// Why pods cannot reach an API server at the address that others use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// It is an address of this machine only.
    #[error("the address is a loopback one, which in a pod means the pod itself")]
    Loopback,
    /// Programs in pods speak `https`.
    #[error("the address is a plain http one, and programs in pods speak https")]
    Plain,
    /// Programs in pods know host and port.
    #[error("the address has a path, and programs in pods know host and port only")]
    Path,
}

impl ApiServer {
    /// Reads `https://HOST:PORT`, `HOST:PORT` or `HOST`. A path is passed over.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str) -> Result<Self, ApiServerError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let default = match scheme {
            "https" => HTTPS,
            "http" => HTTP,
            _ => return Err(ApiServerError),
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or(ApiServerError)?;
            host.parse::<Ipv6Addr>().map_err(|_| ApiServerError)?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(ApiServerError)?) };
            (host, port)
        } else if authority.parse::<Ipv6Addr>().is_ok() {
            (authority, None)
        } else {
            authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
        };
        let port = port.map_or(Ok(default), str::parse).map_err(|_| ApiServerError)?;
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if host.is_empty() || port == 0 || !(host.parse::<IpAddr>().is_ok() || host.chars().all(named)) {
            return Err(ApiServerError);
        }
        Ok(Self { host: host.to_owned(), port })
    }

    /// Why pods cannot reach it at `address`, the text that it was read from.
    #[must_use]
    pub fn unreachable(&self, address: &str) -> Option<Unreachable> {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let local = match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || address.is_unspecified(),
            Err(_) => self.host == "localhost" || self.host.ends_with(".localhost"),
        };
        if local {
            Some(Unreachable::Loopback)
        } else if address.starts_with("http://") {
            Some(Unreachable::Plain)
        } else {
            rest.split_once('/').is_some_and(|(_, path)| !path.is_empty()).then_some(Unreachable::Path)
        }
    }

    /// The variables by which programs in pods find it (`client-go`, `rest.InClusterConfig`), and a kubelet's third.
    pub(crate) fn variables(&self) -> [(&'static str, Value); 3] {
        let port = self.port.to_string();
        [
            ("KUBERNETES_SERVICE_HOST", json!(self.host)),
            ("KUBERNETES_SERVICE_PORT", json!(port)),
            ("KUBERNETES_SERVICE_PORT_HTTPS", json!(port)),
        ]
    }
}
