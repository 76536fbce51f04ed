// SPDX-License-Identifier: Apache-2.0
//! Logs and streams of lower pods, through the lower API server.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body, core::Status};
use virtual_kubelet::{
    pod::PodId,
    server::{ByteStream, ContainerIo, IoError, UpgradeRequest, Upgraded, options::LogOptions},
};

use super::{run, target};
use crate::lower::LowerCluster;

/// As much of a refusal as is read: its words are short.
const WORDS: usize = 64 * 1024;
/// A command has begun this long after its upgrade.
const AFTER: Duration = Duration::from_millis(100);

impl ContainerIo for LowerCluster {
    async fn logs(&self, pod: &PodId, container: &str, options: &LogOptions) -> Result<ByteStream, IoError> {
        self.confirm(pod).await?;
        let request = Request::get(target::logs(&self.place(pod), container, options)).body(Body::empty());
        let (client, place) = match self.followers() {
            Some(followers) if options.follow => {
                let (client, place) = followers.join().await.map_err(|error| away(&error))?;
                (client, Some(place))
            }
            _ => (self.client().clone(), None),
        };
        let answer = send(&client, request).await?;
        // 204 too: so an API server shows the log of a pod that has no node yet, which is empty.
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let bytes = answer.into_body().into_data_stream().map_err(Into::into);
        // The place is free again when nobody reads any more.
        let bytes = bytes.inspect(move |_| {
            let _ = &place;
        });
        Ok(bytes.boxed())
    }

    async fn relay(&self, request: UpgradeRequest) -> Result<Upgraded, IoError> {
        self.confirm(&request.pod).await?;
        let path = target::upgrade(&self.place(&request.pod), &request.target);
        let mut below = Request::builder().method(request.method).uri(path).body(Body::empty());
        if let Ok(below) = &mut below {
            *below.headers_mut() = request.headers;
        }
        let answer = send(self.client(), below).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(answer).await);
        }
        tokio::spawn(connected(self.client().clone()));
        let headers = answer.headers().clone();
        let stream = hyper::upgrade::on(answer).await.map_err(|error| away(&error))?;
        Ok(Upgraded { headers, stream: Box::new(TokioIo::new(stream)) })
    }

    async fn run(&self, pod: &PodId, container: &str, command: &[String]) -> Result<Bytes, IoError> {
        self.confirm(pod).await?;
        run::collect(self.client().clone(), &self.place(pod), container, command).await
    }
}

impl LowerCluster {
    /// Makes sure that the lower pod of this name is the one made for `pod`: a foreign one is never looked into.
    async fn confirm(&self, pod: &PodId) -> Result<(), IoError> {
        match self.runs(pod).await {
            Ok(true) => Ok(()),
            // The kubelet's status for a container that is not started.
            Ok(false) => Err(IoError::Refused {
                status: StatusCode::BAD_REQUEST,
                message: format!(
                    "pod {:?} is not in the lower cluster: it was not created there yet, or it is gone",
                    pod.name
                ),
            }),
            Err(error) => Err(IoError::Unavailable(error.to_string())),
        }
    }
}

async fn send(client: &Client, request: http::Result<Request<Body>>) -> Result<Response<Body>, IoError> {
    let request = request.map_err(|error| IoError::Refused {
        status: StatusCode::BAD_REQUEST,
        message: format!("it cannot be asked of the lower API server: {error}"),
    })?;
    client.send(request).await.map_err(|error| away(&error))
}

/// Leaves a connection that nobody uses, by the cheapest question that everybody may ask: an upgrade takes one away, and who
/// debugs goes on. The next command need not wait for a handshake, and this one not for that of the next.
async fn connected(client: Client) {
    tokio::time::sleep(AFTER).await;
    if let Err(error) = client.apiserver_version().await {
        tracing::debug!(%error, "no connection was made in advance");
    }
}

pub(super) fn away(error: &dyn std::error::Error) -> IoError {
    IoError::Unavailable(format!("lower API server: {error}"))
}

async fn refusal(answer: Response<Body>) -> IoError {
    let status = answer.status();
    let words = Limited::new(answer.into_body(), WORDS).collect().await;
    let words = words.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let message = match serde_json::from_slice::<Status>(&words) {
        Ok(said) if !said.message.is_empty() => said.message,
        _ => String::from_utf8_lossy(&words).trim().to_owned(),
    };
    passed_on(status, message)
}

/// The lower API server's no, in its own words.
pub(super) fn passed_on(status: StatusCode, message: String) -> IoError {
    if status == StatusCode::UNAUTHORIZED {
        // Not the caller's fault: passed on, it would ask them to log in.
        return IoError::Unavailable("the lower API server does not accept this node's credentials".to_owned());
    }
    if !(status.is_client_error() || status.is_server_error()) {
        return IoError::Unavailable(format!("the lower API server answers {status}"));
    }
    IoError::Refused { status, message }
}

#[cfg(test)]
mod tests;
