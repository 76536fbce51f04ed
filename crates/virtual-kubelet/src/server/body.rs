// SPDX-License-Identifier: Apache-2.0
//! Bodies of responses: a short text, or a stream.

use std::error::Error;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;

use super::ByteStream;

/// A response's body.
pub(super) type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// All of a body.
pub(super) fn full(content: impl Into<Bytes>) -> Body {
    Full::new(content.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that is written as it comes.
pub(super) fn streamed(bytes: ByteStream) -> Body {
    StreamBody::new(bytes.map_ok(Frame::data).boxed()).boxed_unsync()
}

/// A response of this type.
pub(super) fn answer(status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// A sentence: the kubelet's errors are text.
pub(super) fn text(status: StatusCode, sentence: impl Into<Bytes>) -> Response<Body> {
    answer(status, TEXT, full(sentence))
}
