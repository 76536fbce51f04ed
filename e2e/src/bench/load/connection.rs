// SPDX-License-Identifier: Apache-2.0
//! A client that costs little: one request, made once, sent again and again over a connection that stays.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::pki::Identity;

/// Whom to ask what.
#[derive(Clone)]
pub(in crate::bench) struct Target {
    address: SocketAddr,
    tls: TlsConnector,
    request: Arc<[u8]>,
}

/// A connection to it.
pub(in crate::bench) struct Connection {
    stream: TlsStream<TcpStream>,
    request: Arc<[u8]>,
    /// What was read and not used yet.
    buffer: Vec<u8>,
}

impl Target {
    /// Posts `body` to `path` of the service at `address`, which has a certificate of `ca` and may want one of the client.
    pub(in crate::bench) fn new(
        address: SocketAddr,
        ca: &str,
        client: Option<&Identity>,
        path: &str,
        body: &[u8],
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match client {
            None => config.with_no_client_auth(),
            Some(Identity { certificate, key }) => config.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(key.as_bytes())?,
            )?,
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: kube-apiserver-admission\r\n\
             Content-Length: {}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body].concat().into();
        Ok(Self { address, tls: TlsConnector::from(Arc::new(config)), request })
    }

    /// A new connection.
    pub(in crate::bench) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(ServerName::from(self.address.ip()), stream).await?;
        Ok(Connection { stream, request: self.request.clone(), buffer: Vec::new() })
    }
}

impl Connection {
    /// Sends the request and returns the answer's body. Any other status than 200 is an error.
    pub(in crate::bench) async fn ask(&mut self) -> anyhow::Result<Vec<u8>> {
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        loop {
            if let Some((head, body)) = extent(&self.buffer)? {
                let mut answer: Vec<u8> = self.buffer.drain(..head + body).collect();
                answer.drain(..head);
                return Ok(answer);
            }
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the service closed the connection");
        }
    }
}

/// How long head and body of the answer at the start of `bytes` are, once it is all there.
fn extent(bytes: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end])?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "the service answers {head}");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value.trim())
    });
    let (head, body) = (end + 4, length.context("the answer has no length")?.parse()?);
    Ok((bytes.len() >= head + body).then_some((head, body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-Length: 3\r\n\r\nabcHTTP";
        assert_eq!(extent(bytes).unwrap(), Some((38, 3)));
        assert_eq!(extent(&bytes[..40]).unwrap(), None);
        assert_eq!(extent(&bytes[..20]).unwrap(), None);
        assert!(extent(b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n").is_err());
    }
}
