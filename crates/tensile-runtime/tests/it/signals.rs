// SPDX-License-Identifier: Apache-2.0
//! Real signals reach the tasks of a service.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tensile_runtime::shutdown::{ShutdownError, Tasks, signals};

const DEADLINE: Duration = Duration::from_secs(30);

/// One test for both signals: handlers belong to the process, so two tests at once would see each other's signals.
#[tokio::test]
async fn sigterm_drains_and_a_second_sigint_ends_at_once() {
    let mut tasks = Tasks::new();
    let stop = tasks.stop();
    tasks.spawn("drains", async move {
        stop.cancelled().await;
        Ok::<(), String>(())
    });
    let heard = signals().unwrap();
    kill_process(getpid(), Signal::TERM).unwrap();
    tasks.run(heard, DEADLINE).await.unwrap();

    let mut tasks = Tasks::new();
    let stop = tasks.stop();
    tasks.spawn("never-drains", async move {
        stop.cancelled().await;
        kill_process(getpid(), Signal::INT).map_err(|error| error.to_string())?;
        std::future::pending::<Result<(), String>>().await
    });
    let heard = signals().unwrap();
    kill_process(getpid(), Signal::TERM).unwrap();
    let error = tasks.run(heard, DEADLINE).await.unwrap_err();
    assert!(matches!(error, ShutdownError::Interrupted { signal: "SIGINT" }), "{error}");
}
