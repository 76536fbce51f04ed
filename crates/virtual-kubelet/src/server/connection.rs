// SPDX-License-Identifier: Apache-2.0
//! One connection after its handshake: HTTP/1.1, which may become a stream, or HTTP/2, over which an API server asks for
//! many logs at once.

use std::{convert::Infallible, future::Future, pin::Pin, pin::pin, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{ContainerIo, StatsProvider, body::Body, handle::Handler, tls::HTTP_2};

/// How long a request's head may take, and how long a connection may wait for its next request.
const HEAD: Duration = Duration::from_secs(90);
/// Bytes of a request's head. Commands stand in it; URIs end at 64 KiB.
const HEAD_BYTES: u32 = 128 * 1024;
/// Requests over one connection of HTTP/2 at the same time; clients open another one for more.
const STREAMS: u32 = 250;
/// What waits to be sent, of each of them: one TLS record.
const WAITING: usize = 16 * 1024;
/// How long requests under way have at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// Answers the requests of one connection until it ends or becomes a stream. Once `stop` is cancelled, requests under way have
/// five seconds.
pub(super) async fn converse<P: ContainerIo, S: StatsProvider>(
    handler: Arc<Handler<P, S>>,
    stream: TlsStream<TcpStream>,
    stop: CancellationToken,
) {
    let tls = stream.get_ref().1;
    let is_http_2 = tls.alpn_protocol() == Some(HTTP_2);
    let chain = tls.peer_certificates().unwrap_or_default();
    let chain: Arc<[_]> = chain.iter().cloned().map(CertificateDer::into_owned).collect();
    let stream = TokioIo::new(stream);
    let respond = move |request: Request<Incoming>| {
        let (handler, chain) = (handler.clone(), chain.clone());
        async move { handler.handle(&chain, request).await }
    };
    if is_http_2 {
        let under_way = TaskTracker::new();
        let counted = under_way.clone();
        let service = service_fn(move |request| {
            let (response, one) = (respond(request), counted.token());
            async move { Ok::<_, Infallible>(kept_until_sent(response.await, one)) }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD_BYTES)
            .max_send_buf_size(WAITING)
            .serve_connection(stream, service);
        let over = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = idle(&under_way) => {}
            }
        };
        conclude(connection, http2::Connection::graceful_shutdown, over).await;
    } else {
        let service = service_fn(move |request| {
            let response = respond(request);
            async move { Ok::<_, Infallible>(response.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(HEAD_BYTES as usize)
            .serve_connection(stream, service)
            .with_upgrades();
        conclude(connection, http1::UpgradeableConnection::graceful_shutdown, stop.cancelled()).await;
    }
}

/// `response`, with something that is dropped when all of it was sent, or nobody wants it any more.
fn kept_until_sent<T: Send + 'static>(response: Response<Body>, one: T) -> Response<Body> {
    response.map(|body| {
        let held = move |frame| {
            let _ = &one;
            frame
        };
        body.map_frame(held).boxed_unsync()
    })
}

/// Ends when nothing has been asked for a while: what HTTP/1.1 does by itself.
async fn idle(under_way: &TaskTracker) {
    loop {
        sleep(HEAD).await;
        if under_way.is_empty() {
            return;
        }
    }
}

/// Waits for the end of `connection`, which is asked for by `shut` when it is `over`.
async fn conclude<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    shut: impl FnOnce(Pin<&mut C>),
    over: impl Future<Output = ()>,
) {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = over => {
            shut(connection.as_mut());
            timeout(DRAIN, connection).await
        }
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection broke"),
        Err(_) => tracing::debug!("a request was cut off by the end of the process"),
    }
}
