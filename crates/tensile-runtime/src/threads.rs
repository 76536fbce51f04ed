// SPDX-License-Identifier: Apache-2.0
//! The threads that a service works on.

use std::io;
use std::num::NonZero;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};

/// More threads than this do not make what is served beside a link faster: the API servers at its ends are busier.
const MOST_BESIDE: usize = 4;

/// On which threads a service works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One. What nearly always waits for API servers takes less CPU time and memory when no other thread has to be woken for
    /// the next step.
    One,
    /// One for each core, for what is asked by many at once.
    PerCore,
}

impl Threads {
    /// A runtime on these threads; with [`Threads::One`] it is the thread that blocks on it.
    ///
    /// # Errors
    ///
    /// When the system gives it no threads or no way to wait for sockets.
    pub fn runtime(self) -> io::Result<Runtime> {
        let mut builder = match self {
            Self::One => Builder::new_current_thread(),
            Self::PerCore => Builder::new_multi_thread(),
        };
        builder.enable_all().build()
    }
}

/// Threads beside the one of a service, for what keeps a thread busy: it would hold up everything else there.
///
/// Work that is still going on when this is dropped is cut off.
#[derive(Debug)]
pub struct Beside {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Beside {
    /// Threads, known as `name`: one for each core, a few at most.
    ///
    /// # Errors
    ///
    /// When the system gives it no threads or no way to wait for sockets.
    pub fn start(name: &str) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_BESIDE);
        let runtime = Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Where to spawn.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime that is dropped waits for its threads, which must not be done within another runtime.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_task(handle: &Handle) -> impl Future<Output = Option<String>> + use<> {
        let task = handle.spawn(async { thread::current().name().map(str::to_owned) });
        async { task.await.unwrap() }
    }

    #[test]
    fn what_is_spawned_beside_runs_on_threads_of_its_own_until_these_are_dropped() {
        let runtime = Threads::One.runtime().unwrap();
        runtime.block_on(async {
            let beside = Beside::start("beside").unwrap();
            assert_eq!(of_task(beside.handle()).await.as_deref(), Some("beside"));
            assert_eq!(of_task(&Handle::current()).await.as_deref(), thread::current().name());
            let endless = beside.handle().spawn(std::future::pending::<()>());
            drop(beside);
            assert!(endless.await.unwrap_err().is_cancelled());
        });
    }

    #[test]
    fn a_service_for_many_has_threads_that_are_not_its_first() {
        let runtime = Threads::PerCore.runtime().unwrap();
        let first = thread::current().id();
        runtime.block_on(async {
            let other = tokio::spawn(async { thread::current().id() }).await.unwrap();
            assert_ne!(other, first);
        });
    }
}
