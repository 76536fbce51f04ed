// SPDX-License-Identifier: Apache-2.0
//! How a service ends: on a signal it drains, within a deadline; when one of its tasks ends early, so does all of it.
//!
//! A task that dies alone leaves a process that looks alive and does nothing; here it takes the process with it, with
//! the reason and a nonzero exit code, and the supervisor starts it anew.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::threads::Threads;

/// Exit code for flags, files and settings that a human must mend (as clap's own for a wrong flag).
pub const EXIT_USAGE: u8 = 2;

/// Why a service did not end well.
#[derive(Debug, Error)]
pub enum ShutdownError {
    /// A task ended though nobody asked it to.
    #[error("task {name} ended early: {reason}")]
    EndedEarly {
        /// The task.
        name: String,
        /// Its error, its panic, or that it gave none.
        reason: String,
    },
    /// A task did not end in time.
    #[error("not drained within {} s: {}", deadline.as_secs(), tasks.join(", "))]
    Deadline {
        /// How long the tasks had.
        deadline: Duration,
        /// Those that were still running.
        tasks: Vec<String>,
    },
    /// A second signal came while draining.
    #[error("a second {signal} came before all was drained")]
    Interrupted {
        /// The second signal.
        signal: &'static str,
    },
    /// The signal handlers could not be installed.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
}

/// SIGTERM and SIGINT, as they come.
///
/// # Errors
///
/// When the handlers cannot be installed.
pub fn signals() -> Result<impl Stream<Item = &'static str> + Send + Unpin + use<>, ShutdownError> {
    let each = |kind, name| -> std::io::Result<_> {
        let signal = signal(kind)?;
        Ok(stream::unfold(signal, move |mut signal| async move { signal.recv().await.map(|()| (name, signal)) }))
    };
    let terminate = each(SignalKind::terminate(), "SIGTERM").map_err(ShutdownError::Signals)?;
    let interrupt = each(SignalKind::interrupt(), "SIGINT").map_err(ShutdownError::Signals)?;
    Ok(Box::pin(stream::select(terminate, interrupt)))
}

/// What `work` comes to, unless a signal comes first: `None`.
pub async fn unless<T>(
    signals: &mut (impl Stream<Item = &'static str> + Unpin),
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        Some(signal) = signals.next() => {
            info!(signal, "stopped before there was anything to drain");
            None
        }
    }
}

/// The tasks of a service, all of which must live as long as it does.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<Result<(), String>>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
}

impl Tasks {
    /// None yet. Call within a runtime.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is cancelled when the service shall end; a task watches it and then finishes what it has in hand.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Spawns `task`, known as `name` in logs and errors.
    pub fn spawn<E: Display>(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.spawn_on(&Handle::current(), name, task);
    }

    /// Spawns `task` as [`Tasks::spawn`] does, on the threads of another runtime.
    pub fn spawn_on<E: Display>(
        &mut self,
        runtime: &Handle,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let task = async move { task.await.map_err(|error| format!("{error:#}")) };
        let handle = self.set.spawn_on(task, runtime);
        self.names.insert(handle.id(), name.into());
    }

    /// Lives until a signal comes or a task ends, then stops the others and waits up to `deadline` for them.
    ///
    /// # Errors
    ///
    /// Unless a signal came and every task ended within the deadline without panicking.
    pub async fn run(
        mut self,
        mut signals: impl Stream<Item = &'static str> + Unpin,
        deadline: Duration,
    ) -> Result<(), ShutdownError> {
        let first = tokio::select! {
            Some(signal) = signals.next() => {
                info!(signal, "stopping");
                None
            }
            Some(ended) = self.set.join_next_with_id() => Some(self.early(ended)),
        };
        self.stop.cancel();
        let drained = tokio::select! {
            drained = tokio::time::timeout(deadline, Self::drain(&mut self.set, &mut self.names)) => match drained {
                Ok(drained) => drained,
                Err(_) => Err(ShutdownError::Deadline { deadline, tasks: sorted(self.names.into_values()) }),
            },
            Some(signal) = signals.next() => Err(ShutdownError::Interrupted { signal }),
        };
        first.map_or(drained, Err)
    }

    async fn drain(
        set: &mut JoinSet<Result<(), String>>,
        names: &mut HashMap<Id, String>,
    ) -> Result<(), ShutdownError> {
        let mut outcome = Ok(());
        while let Some(ended) = set.join_next_with_id().await {
            let (name, result) = named(names, ended);
            match result {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => warn!(task = name, reason, "task ended with an error while stopping"),
                Err(panic) => outcome = Err(ShutdownError::EndedEarly { name, reason: panic.to_string() }),
            }
        }
        outcome
    }

    fn early(&mut self, ended: Ended) -> ShutdownError {
        let (name, result) = named(&mut self.names, ended);
        let reason = match result {
            Ok(Ok(())) => "without a reason".to_owned(),
            Ok(Err(reason)) => reason,
            Err(panic) => panic.to_string(),
        };
        ShutdownError::EndedEarly { name, reason }
    }
}

type Ended = Result<(Id, Result<(), String>), JoinError>;

fn named(names: &mut HashMap<Id, String>, ended: Ended) -> (String, Result<Result<(), String>, JoinError>) {
    let (id, result) = match ended {
        Ok((id, result)) => (id, Ok(result)),
        Err(error) => (error.id(), Err(error)),
    };
    (names.remove(&id).unwrap_or_else(|| id.to_string()), result)
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Runs `service` on a runtime of its own, on `threads`, and turns its end into the process' exit code.
///
/// Threads that are still blocked at the end are left behind, so that a second signal really ends the process.
pub fn run<E: Display>(threads: Threads, service: impl Future<Output = Result<(), E>>) -> ExitCode {
    let runtime = match threads.runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "cannot start the runtime");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(service);
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "ended with an error");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn no_signal() -> impl Stream<Item = &'static str> + Unpin {
        stream::pending()
    }

    fn now(signals: &'static [&'static str]) -> impl Stream<Item = &'static str> + Unpin {
        stream::iter(signals.iter().copied()).chain(stream::pending())
    }

    async fn until(stop: CancellationToken) -> Result<(), String> {
        stop.cancelled().await;
        Ok(())
    }

    async fn broken() -> Result<(), String> {
        tokio::task::yield_now().await;
        panic!("broken")
    }

    #[tokio::test]
    async fn a_signal_ends_what_is_waited_for() {
        assert_eq!(unless(&mut now(&["SIGTERM"]), pending::<()>()).await, None);
        assert_eq!(unless(&mut no_signal(), async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn a_signal_ends_the_tasks_and_the_service_ends_well() {
        let mut tasks = Tasks::new();
        let (done, mut finished) = mpsc::unbounded_channel();
        let stop = tasks.stop();
        tasks.spawn("worker", async move {
            stop.cancelled().await;
            done.send("drained").map_err(|error| error.to_string())
        });
        tasks.run(now(&["SIGTERM"]), DEADLINE).await.unwrap();
        assert_eq!(finished.recv().await, Some("drained"));
    }

    #[tokio::test]
    async fn a_task_that_ends_early_ends_the_service_with_its_reason() {
        let mut tasks = Tasks::new();
        let stop = tasks.stop();
        tasks.spawn("steady", until(stop.clone()));
        tasks.spawn("watch", async { Err::<(), _>("the watch broke") });
        let error = tasks.run(no_signal(), DEADLINE).await.unwrap_err();
        assert_eq!(error.to_string(), "task watch ended early: the watch broke");
        assert!(stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_task_that_ends_without_an_error_is_still_too_early() {
        let mut tasks = Tasks::new();
        tasks.spawn("watch", async { Ok::<(), String>(()) });
        let error = tasks.run(no_signal(), DEADLINE).await.unwrap_err();
        assert_eq!(error.to_string(), "task watch ended early: without a reason");
    }

    #[tokio::test]
    async fn a_panic_ends_the_service() {
        let mut tasks = Tasks::new();
        tasks.spawn("worker", broken());
        let error = tasks.run(no_signal(), DEADLINE).await.unwrap_err().to_string();
        assert!(error.starts_with("task worker ended early") && error.contains("panic"), "{error}");
    }

    #[tokio::test]
    async fn a_panic_while_draining_is_no_good_end() {
        let mut tasks = Tasks::new();
        let stop = tasks.stop();
        tasks.spawn("worker", async move {
            stop.cancelled().await;
            broken().await
        });
        assert!(tasks.run(now(&["SIGTERM"]), DEADLINE).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_drain_in_time_is_named() {
        let mut tasks = Tasks::new();
        tasks.spawn("stuck", pending::<Result<(), String>>());
        tasks.spawn("also-stuck", pending::<Result<(), String>>());
        let error = tasks.run(now(&["SIGTERM"]), DEADLINE).await.unwrap_err();
        assert_eq!(error.to_string(), "not drained within 30 s: also-stuck, stuck");
    }

    #[tokio::test]
    async fn a_second_signal_does_not_wait() {
        let mut tasks = Tasks::new();
        tasks.spawn("stuck", pending::<Result<(), String>>());
        let error = tasks.run(now(&["SIGTERM", "SIGINT"]), DEADLINE).await.unwrap_err();
        assert_eq!(error.to_string(), "a second SIGINT came before all was drained");
    }
}
