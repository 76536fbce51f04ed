// SPDX-License-Identifier: Apache-2.0
//! The whole server over real TLS, against an API server and a provider made for it.

mod http2;
mod limits;
mod refusals;
mod scene;
mod streams;
