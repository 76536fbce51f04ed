// SPDX-License-Identifier: Apache-2.0
//! Free ports, asked from the kernel and kept.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use tokio::net::TcpSocket;

/// A port on loopback that stays ours until drop.
///
/// The socket is bound with `SO_REUSEADDR` and never listens, so a child (Go and Rust listen with `SO_REUSEADDR` too)
/// can listen on it, now and after each restart, while the kernel gives it to nobody who asks for any free port.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _held: TcpSocket,
}

impl Port {
    /// Reserves a free port.
    pub fn reserve() -> anyhow::Result<Self> {
        let reserve = || {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            std::io::Result::Ok(Self { number: socket.local_addr()?.port(), _held: socket })
        };
        reserve().context("the kernel has no free port")
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_reserved_port_can_be_listened_on_again_and_again() {
        let port = Port::reserve().unwrap();
        for _ in 0..2 {
            drop(TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).unwrap());
        }
    }

    #[test]
    fn two_reservations_never_share_a_port() {
        let ports: Vec<Port> = (0..200).map(|_| Port::reserve().unwrap()).collect();
        let numbers: std::collections::BTreeSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
    }
}
