// SPDX-License-Identifier: Apache-2.0
//! A command without a session (`/run`): run below to its end, and answered with what it wrote.

use bytes::{Bytes, BytesMut};
use futures::{TryStreamExt, stream};
use http::StatusCode;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Status};
use kube::{Api, Client, api::AttachParams};
use tokio_util::io::ReaderStream;
use virtual_kubelet::server::IoError;

use super::io::{away, passed_on};
use crate::lower::Place;

/// The longest output. It is held whole: whether it is an answer is known when the command has ended.
const LONGEST: usize = 1024 * 1024;

/// Both outputs, as they came, once the command has ended well.
pub(super) async fn collect(
    client: Client,
    pod: &Place<'_>,
    container: &str,
    command: &[String],
) -> Result<Bytes, IoError> {
    let pods: Api<Pod> = Api::namespaced(client, &pod.namespace);
    let streams = AttachParams::default().container(container).stdin(false).stdout(true).stderr(true);
    // Dropped, it ends the connection, and with it the command's.
    let mut process = pods.exec(&pod.name, command, &streams).await.map_err(refused)?;
    let status = process.take_status();
    let (stdout, stderr) = (process.stdout(), process.stderr());
    let mut outputs = stream::select_all([stdout, stderr].into_iter().flatten().map(ReaderStream::new));
    let mut all = BytesMut::new();
    while let Some(bytes) = outputs.try_next().await.map_err(|error| away(&error))? {
        all.extend_from_slice(&bytes);
        if all.len() > LONGEST {
            return Err(failed("the output is longer than 1 MiB"));
        }
    }
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    ended(status).map(|()| all.freeze())
}

/// What the end of a command means: a kubelet answers 500 to every end but a good one.
fn ended(status: Option<Status>) -> Result<(), IoError> {
    match status {
        Some(status) if status.status.as_deref() == Some("Success") => Ok(()),
        Some(status) => Err(failed(status.message.unwrap_or_else(|| "the command failed".to_owned()))),
        None => Err(IoError::Unavailable("the lower API server did not tell how the command ended".to_owned())),
    }
}

fn failed(why: impl Into<String>) -> IoError {
    IoError::Refused { status: StatusCode::INTERNAL_SERVER_ERROR, message: why.into() }
}

fn refused(error: kube::Error) -> IoError {
    match error {
        kube::Error::Api(said) => {
            passed_on(StatusCode::from_u16(said.code).unwrap_or(StatusCode::BAD_GATEWAY), said.message)
        }
        error => away(&error),
    }
}
