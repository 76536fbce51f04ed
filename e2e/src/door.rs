// SPDX-License-Identifier: Apache-2.0
//! A way to an API server for containers of real nodes: it listens on a loopback address only.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

use crate::cluster::Cluster;
use crate::real_node::RealNode;

/// Carries connections from the node's address, where its pods reach this machine, to the API server of `cluster`.
pub async fn open(node: &RealNode, cluster: &Cluster) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((node.address(), 0)).await?;
    let address = listener.local_addr()?;
    let server = cluster.server().trim_start_matches("https://").to_owned();
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move {
                if let Ok(mut outside) = TcpStream::connect(&server).await {
                    tokio::io::copy_bidirectional(&mut inside, &mut outside).await.ok();
                }
            });
        }
    });
    Ok(address)
}
