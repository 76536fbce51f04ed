// SPDX-License-Identifier: Apache-2.0
//! A process without a session: what it wrote is an answer.

use std::fmt::Display;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, future::try_join, stream};
use http::StatusCode;

use super::{super::IoError, Ends, Process, channels::STDOUT, session::messages};

/// The longest output. It is held whole: whether it is an answer is known when the process has ended.
const LONGEST: usize = 1024 * 1024;

/// Both outputs, as they came, once the process has ended well.
pub(super) async fn collect(ends: Ends, process: Process) -> Result<Bytes, IoError> {
    let outputs = [ends.stdout, ends.stderr].into_iter().flatten().map(|from| messages(STDOUT, from).boxed());
    let mut outputs = stream::select_all(outputs);
    let gather = async {
        let mut all = BytesMut::new();
        while let Some(message) = outputs.next().await {
            all.extend_from_slice(&message[1..]);
            if all.len() > LONGEST {
                return Err(failed("the output is longer than 1 MiB"));
            }
        }
        Ok(all.freeze())
    };
    let exit = async { process.await.map_err(failed) };
    match try_join(gather, exit).await? {
        (output, 0) => Ok(output),
        (_, code) => Err(failed(format!("command terminated with exit code {code}"))),
    }
}

fn failed(why: impl Display) -> IoError {
    IoError::Refused { status: StatusCode::INTERNAL_SERVER_ERROR, message: why.to_string() }
}
