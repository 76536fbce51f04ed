// SPDX-License-Identifier: Apache-2.0
//! Connections that followed logs share: there are thousands of followers, and most of them are silent for hours.

use std::sync::Arc;

use kube::Client;
use tensile_runtime::clients::{ClientError, ClientSource, connect};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// Logs over one connection. API servers allow 100 (`--http2-max-streams-per-connection`); one more would wait without a word.
const LOGS: usize = 64;

/// The connections to the lower API server, as many as are needed.
pub(crate) struct Followers {
    source: ClientSource,
    connections: Mutex<Vec<Connection>>,
}

/// One of them, by a client that opens it when it is needed.
struct Connection {
    client: Client,
    room: Arc<Semaphore>,
}

impl Followers {
    /// Connections to where `source` leads. Who follows a log is no burden to an API server: there is no limit of requests.
    pub(crate) fn new(source: ClientSource) -> Self {
        Self { source: source.limit(0.0, 0).shared(), connections: Mutex::default() }
    }

    /// A client for one log, and the place that it takes until it is dropped.
    ///
    /// # Errors
    ///
    /// When the source can no longer be read.
    pub(super) async fn join(&self) -> Result<(Client, OwnedSemaphorePermit), ClientError> {
        let mut connections = self.connections.lock().await;
        loop {
            for Connection { client, room } in &*connections {
                if let Ok(place) = room.clone().try_acquire_owned() {
                    return Ok((client.clone(), place));
                }
            }
            connections.push(Connection { client: connect(&self.source).await?, room: Arc::new(Semaphore::new(LOGS)) });
        }
    }
}
