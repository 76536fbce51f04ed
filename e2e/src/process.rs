// SPDX-License-Identifier: Apache-2.0
//! A child process in a group of its own, with its log in a file, that never outlives us.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, kill_process, kill_process_group};

pub use rustix::process::Signal;

use crate::logs::{self, Log};
use crate::usage::Usage;
use crate::{reaper, wait};

/// What to start: enough to start it again.
#[derive(Clone, Debug)]
pub struct Launch {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    log: PathBuf,
}

impl Launch {
    /// `program`, called `name` in messages, writing standard output and error to the file `log`.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), program: program.into(), args: Vec::new(), env: Vec::new(), log: log.into() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The file that it will log to, after what is there already.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Starts it.
    pub fn start(self) -> anyhow::Result<Process> {
        let child = self.spawn()?;
        let log = logs::register(&self.name, &self.log);
        Ok(Process { launch: self, child, _log: log })
    }

    /// The child begins as a shell that waits for a word from us before it becomes the program: so the reaper knows
    /// its group before it does anything, and if we die in between it never starts.
    fn spawn(&self) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut child = Command::new("sh")
            .args(["-c", r#"read -r go && exec "$@" </dev/null"#, "sh"])
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut gate = child.stdin.take().context("the child has no standard input")?;
        reaper::watch_group(child.id())?;
        gate.write_all(b"go\n").with_context(|| format!("{} ended at once", self.name))?;
        Ok(child)
    }
}

/// A running child; killed with its whole group on drop.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    child: Child,
    _log: Log,
}

impl Process {
    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.launch.name
    }

    /// Its process id, which is also its group's.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file it logs to.
    pub fn log(&self) -> &Path {
        &self.launch.log
    }

    /// Sends `signal` to the process alone.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(pid(&self.child)?, signal).with_context(|| format!("cannot send {signal:?} to {}", self.name()))
    }

    /// How it ended, if it did.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// An error that names the exit status and shows the log's tail, if it has ended.
    pub fn ensure_running(&mut self) -> anyhow::Result<()> {
        match self.exited() {
            None => Ok(()),
            Some(status) => bail!("{} ended: {status}\n{}", self.name(), logs::tail(self.log(), 20)),
        }
    }

    /// CPU time and memory so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.child.id()).with_context(|| format!("cannot read what {} used", self.name()))
    }

    /// SIGKILL to the whole group, and waits for the end. Says whether it was still running.
    pub fn kill(&mut self) -> bool {
        if self.exited().is_some() {
            reaper::forget_group(self.child.id());
            return false;
        }
        // Errors mean that it is gone.
        pid(&self.child).map(|group| kill_process_group(group, Signal::KILL)).ok();
        self.child.wait().ok();
        reaper::forget_group(self.child.id());
        true
    }

    /// SIGTERM, then waits for the end, at most `deadline`.
    pub async fn terminate(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.ended(deadline).await
    }

    /// Waits until it ends by itself, at most `deadline`.
    pub async fn ended(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let name = self.launch.name.clone();
        wait::eventually(deadline, &format!("{name} ends"), async || self.exited().context("it is still running")).await
    }

    /// Kills it if it runs and starts the same again, logging to the same file.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        self.child = self.launch.spawn()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn pid(child: &Child) -> anyhow::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("not a process id")
}
