// SPDX-License-Identifier: Apache-2.0
//! With a multi-scheduler, here a small fake of it: pods move only where it says that they fit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use e2e::descheduler::lab::Lab;
use e2e::descheduler::workload::{deployment, until_running};
use e2e::pods::{condition, uid};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Answers `POST /fit` with what a test says. It ends on drop.
struct Fake {
    url: String,
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    room: Mutex<BTreeMap<String, u64>>,
    asked: Mutex<Vec<Value>>,
}

impl Fake {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (url, shared) = (format!("http://{}", listener.local_addr()?), Arc::<Shared>::default());
        let mut accepting = JoinSet::new();
        let known = shared.clone();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, known.clone()));
            }
        });
        Ok(Self { url, shared, _accepting: accepting })
    }

    fn has_room(&self, node: &str, replicas: u64) {
        lock(&self.shared.room).insert(node.to_owned(), replicas);
    }

    fn was_asked_about(&self, name: &str) -> bool {
        lock(&self.shared.asked).iter().any(|question| question["pod"]["metadata"]["name"] == name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection: request after request, as long as they are whole.
async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut bytes = Vec::new();
    loop {
        let Some((head, length)) = extent(&bytes) else {
            match stream.read_buf(&mut bytes).await {
                Ok(count) if count > 0 => continue,
                _ => return,
            }
        };
        if bytes.len() < head + length {
            match stream.read_buf(&mut bytes).await {
                Ok(count) if count > 0 => continue,
                _ => return,
            }
        }
        let question: Value = serde_json::from_slice(&bytes[head..head + length]).unwrap_or_default();
        let is_fit = bytes.starts_with(b"POST /fit ");
        bytes.drain(..head + length);
        lock(&shared.asked).push(question);
        let answer: Value = lock(&shared.room)
            .iter()
            .map(|(node, replicas)| json!({ "node": node, "fits": *replicas > 0, "replicas": replicas }))
            .collect();
        let (status, answer) = if is_fit {
            ("200 OK", json!({ "nodes": answer }).to_string())
        } else {
            ("404 Not Found", "{}".to_owned())
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// How long the head is that `bytes` begins with, and the body after it.
fn extent(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Some((end + 4, length.unwrap_or_default()))
}

#[test]
fn a_pod_that_fits_nowhere_stays_and_shows_it_until_there_is_room() -> anyhow::Result<()> {
    e2e::run(async {
        let lab = Lab::shared().await?;
        lab.alone("places", async |above| {
            let fake = Fake::start().await?;
            fake.has_room("east", 0);
            fake.has_room("west", 0);
            let launch = lab.launch("descheduler-places")?.arg("--leader-elect=false");
            let _process = launch.arg(format!("--multi-scheduler-url={}", fake.url)).start()?;
            deployment(lab.upper.client(), above, "web", 1, json!({})).await?;
            let shows = |pod: &Value| condition(pod, "tensile.io/Placeable")["status"] == "False";
            let pod = above.until_all(1, "show that they fit nowhere", shows).await?.remove(0);
            let name = pod["metadata"]["name"].as_str().context("no name")?.to_owned();
            let told = above.until_event(&name, "NowhereFits").await?;
            ensure!(told.contains("no other lower cluster"), "{told}");
            ensure!(fake.was_asked_about(&name), "it asked about something else");
            ensure!(uid(&above.get(&name).await?) == uid(&pod), "it was moved");

            fake.has_room("west", 1);
            until_running(above, "web", 1, "west").await.map(drop)
        })
        .await
    })
}
