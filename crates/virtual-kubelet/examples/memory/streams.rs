// SPDX-License-Identifier: Apache-2.0
//! What the containers give: a log of a line, and containers that know three commands.

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::io::{AsyncWriteExt, copy, duplex, split};
use virtual_kubelet::{
    pod::PodId,
    server::{
        ByteStream, Duplex, IoError,
        options::LogOptions,
        websocket::{ContainerStreams, Process, Stdio},
    },
};

use crate::pods::Memory;

impl Memory {
    /// A container that runs. What is known before a stream begins is better told then.
    fn find(&self, id: &PodId, container: &str) -> Result<(), IoError> {
        let pods = self.pods();
        let statuses = pods.get(id).and_then(|pod| pod.status["containerStatuses"].as_array());
        if statuses.into_iter().flatten().any(|status| status["name"] == container) {
            return Ok(());
        }
        Err(IoError::NotFound(format!("container {container:?} not found in pod {:?}", id.name)))
    }
}

impl ContainerStreams for Memory {
    async fn logs(&self, pod: &PodId, container: &str, options: &LogOptions) -> Result<ByteStream, IoError> {
        self.find(pod, container)?;
        let lines = [format!("{container} of {pod} is in memory\n")];
        let shown = options.tail_lines.map_or(lines.len(), |lines| usize::try_from(lines).unwrap_or(usize::MAX));
        let lines = stream::iter(lines.into_iter().take(shown).map(|line| Ok(Bytes::from(line))));
        // Nothing more is ever written, and somebody who follows waits for it.
        Ok(if options.follow { lines.chain(stream::pending()).boxed() } else { lines.boxed() })
    }

    async fn exec(&self, pod: &PodId, container: &str, command: &[String], stdio: Stdio) -> Result<Process, IoError> {
        self.find(pod, container)?;
        let Stdio { stdin, stdout, .. } = stdio;
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        Ok(match *words {
            ["echo", ref words @ ..] => {
                let line = format!("{}\n", words.join(" "));
                Box::pin(async move {
                    if let Some(mut stdout) = stdout {
                        stdout.write_all(line.as_bytes()).await?;
                    }
                    Ok(0)
                })
            }
            ["cat"] => Box::pin(async move {
                if let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) {
                    copy(&mut stdin, &mut stdout).await?;
                }
                Ok(0)
            }),
            ["exit", code] => {
                let code = code.parse::<i32>().map_err(Into::into);
                Box::pin(async move { code })
            }
            _ => Box::pin(async { Err("the commands here are echo, cat and exit".into()) }),
        })
    }

    /// Every port gives back what it gets.
    async fn forward(&self, _: &PodId, _: u16) -> Result<Box<dyn Duplex>, IoError> {
        let (near, far) = duplex(16 * 1024);
        tokio::spawn(async move {
            let (mut from, mut to) = split(far);
            copy(&mut from, &mut to).await
        });
        Ok(Box::new(near))
    }
}
