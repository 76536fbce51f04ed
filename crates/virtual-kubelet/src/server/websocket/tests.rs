// SPDX-License-Identifier: Apache-2.0
//! Sessions, from the handshake to the farewell, with a WebSocket client at the other end.

mod processes;
mod scene;
mod sessions;
