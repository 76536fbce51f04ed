// SPDX-License-Identifier: Apache-2.0
//! Addresses to listen on, in the spelling of Go (`:10255`) or in full (`127.0.0.1:10255`, `[::1]:10255`).

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;
use tokio::net::TcpListener;

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddr {
    /// One address.
    At(SocketAddr),
    /// All addresses of the machine, of both families where it has both.
    AllOn(u16),
}

/// Why a text is no address to listen on.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not an address to listen on: give IP:PORT, or :PORT for all addresses")]
pub struct ListenAddrError(String);

impl FromStr for ListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ListenAddrError(text.to_owned());
        match text.strip_prefix(':') {
            Some(port) => port.parse().map(Self::AllOn).map_err(|_| refused()),
            None => text.parse().map(Self::At).map_err(|_| refused()),
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(addr) => addr.fmt(f),
            Self::AllOn(port) => write!(f, ":{port}"),
        }
    }
}

impl ListenAddr {
    /// The port; 0 lets the kernel choose one.
    pub fn port(self) -> u16 {
        match self {
            Self::At(addr) => addr.port(),
            Self::AllOn(port) => port,
        }
    }

    /// Binds; a machine without IPv6 gets IPv4 alone.
    pub async fn bind(self) -> io::Result<TcpListener> {
        match self {
            Self::At(addr) => TcpListener::bind(addr).await,
            Self::AllOn(port) => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
                }
                bound => bound,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_of_go_means_all_addresses() {
        assert_eq!(":10255".parse(), Ok(ListenAddr::AllOn(10255)));
    }

    #[test]
    fn an_address_in_full_is_itself() {
        assert_eq!("127.0.0.1:80".parse(), Ok(ListenAddr::At(([127, 0, 0, 1], 80).into())));
        assert_eq!("[::1]:80".parse(), Ok(ListenAddr::At((Ipv6Addr::LOCALHOST, 80).into())));
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for text in ["", "10255", ":", ":70000", "localhost:80"] {
            assert_eq!(text.parse::<ListenAddr>(), Err(ListenAddrError(text.to_owned())));
        }
    }

    #[tokio::test]
    async fn all_addresses_answer_on_ipv4() {
        let listener = ListenAddr::AllOn(0).bind().await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    }

    #[tokio::test]
    async fn a_port_in_use_is_an_error() {
        let taken = ListenAddr::AllOn(0).bind().await.unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_eq!(ListenAddr::AllOn(port).bind().await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
