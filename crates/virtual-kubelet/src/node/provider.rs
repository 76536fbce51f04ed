// SPDX-License-Identifier: Apache-2.0
//! What an author of a provider writes about the node itself.

use std::future::Future;

use serde_json::Value;

/// Knows the node: whether what runs its pods is there, and what it looks like.
pub trait NodeProvider: Send + Sync + 'static {
    /// Asks whether the backend is there. Called every few seconds, one call at a time, and cut off after
    /// [`NodeControllerConfig::ping_timeout`](super::NodeControllerConfig::ping_timeout).
    ///
    /// # Errors
    /// A sentence for people. Several in a row turn the node `NotReady`, with that sentence as message.
    fn ping(&self) -> impl Future<Output = Result<(), String>> + Send;

    /// The node as it should be, as JSON `Node`: `metadata` (labels, annotations), `spec` (taints; used only when the
    /// node is created), `status`. Called whenever it is to be written, so it must not block.
    ///
    /// Conditions need no times. Condition Ready is overruled while the backend is away. A provider that has just started
    /// and does not know its backend yet says Ready=False: nothing is written until that changes, for
    /// [`NodeControllerConfig::settle_timeout`](super::NodeControllerConfig::settle_timeout) at most.
    fn node(&self) -> Value;

    /// Resolves when the node has changed and should be written. Called again after it resolved, never dropped in
    /// between; a change that happens between two calls must resolve the next one. Changes in quick succession are
    /// written together.
    fn changed(&self) -> impl Future<Output = ()> + Send;
}
