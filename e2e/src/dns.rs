// SPDX-License-Identifier: Apache-2.0
//! The DNS of a cluster, as small as it can be: names of headless Services become the addresses of their endpoints.
//!
//! Answers are made anew from what the API server has, by Kubernetes' own rules for these names (`dns/docs/specification.md`),
//! for questions about IPv4 addresses of `SERVICE.NAMESPACE.svc.DOMAIN`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;

/// Where resolvers ask.
const PORT: u16 = 53;
/// Length of the header of a message (RFC 1035, 4.1.1).
const HEADER: usize = 12;
/// The types of records for IPv4 and IPv6 addresses, and the class of the internet.
const A: [u8; 4] = [0, 1, 0, 1];
/// There is no such name.
const NXDOMAIN: u8 = 3;

/// A running server. It ends on drop.
pub struct Dns(JoinHandle<()>);

impl Drop for Dns {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Dns {
    /// Serves the names of `cluster` in `domain` at this address of the machine; needs root.
    pub async fn start(cluster: &Cluster, domain: &str, address: Ipv4Addr) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(IpAddr::V4(address), PORT)).await;
        let socket = socket.with_context(|| format!("cannot serve DNS at {address}"))?;
        let (client, domain) = (cluster.client(), format!(".svc.{domain}"));
        Ok(Self(tokio::spawn(async move {
            let mut message = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut message).await {
                if let Some(answer) = answer(&client, &domain, &message[..length]).await {
                    socket.send_to(&answer, from).await.ok();
                }
            }
        })))
    }
}

/// The name in a question, and where the question ends.
fn question(message: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join(".").to_ascii_lowercase(), at + A.len()));
        }
        labels.push(std::str::from_utf8(message.get(at..at + length)?).ok()?);
        at += length;
    }
}

async fn answer(client: &Client, domain: &str, message: &[u8]) -> Option<Vec<u8>> {
    let (name, end) = question(message)?;
    let service = name.strip_suffix(domain).and_then(|rest| rest.split_once('.'));
    let addresses = match service {
        Some((service, namespace)) => addresses(client, namespace, service).await,
        None => Vec::new(),
    };
    let kind = message.get(end - A.len()..end)?;
    let records = if kind == A { addresses.as_slice() } else { &[] };
    let code = if addresses.is_empty() { NXDOMAIN } else { 0 };
    let mut answer = message.get(..2)?.to_vec();
    // An answer with authority, to one question; then how many records there are, of three kinds.
    answer.extend([0x84, code, 0, 1, 0, u8::try_from(records.len()).ok()?, 0, 0, 0, 0]);
    answer.extend(message.get(HEADER..end)?);
    for address in records {
        // The name of the question, an IPv4 address of the internet, for no time at all.
        answer.extend([0xc0, 12].into_iter().chain(A).chain([0, 0, 0, 0, 0, 4]).chain(address.octets()));
    }
    Some(answer)
}

async fn addresses(client: &Client, namespace: &str, service: &str) -> Vec<Ipv4Addr> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let Ok(slices) = slices.list(&of_service).await else { return Vec::new() };
    let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
    let ready = endpoints
        .filter(|endpoint| endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false)));
    ready.flat_map(|endpoint| endpoint.addresses).filter_map(|address| address.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_to_its_end() {
        let mut message = vec![0; HEADER];
        message.extend(b"\x03WEB\x04team\x03svc\x00\x00\x01\x00\x01rest");
        assert_eq!(question(&message), Some(("web.team.svc".to_owned(), message.len() - 4)));
        assert_eq!(question(&message[..HEADER + 6]), None);
        assert_eq!(question(&[]), None);
    }
}
