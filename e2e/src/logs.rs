//! The logs of all children, to show their tails when something fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How much of a file's end is read for its tail.
const TAIL_BYTES: u64 = 16 * 1024;

static REGISTERED: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// Keeps a log among those that [`tails`] shows.
#[derive(Debug)]
pub(crate) struct Log(PathBuf);

/// `path` is the log of `name` until the result is dropped.
pub(crate) fn register(name: &str, path: &Path) -> Log {
    registered().insert(path.to_owned(), name.to_owned());
    Log(path.to_owned())
}

impl Drop for Log {
    fn drop(&mut self) {
        registered().remove(&self.0);
    }
}

fn registered() -> std::sync::MutexGuard<'static, BTreeMap<PathBuf, String>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last `lines` lines of the file, or why they cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        std::io::Result::Ok(String::from_utf8_lossy(&end).into_owned())
    };
    match read() {
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}

/// The tails of the logs of all running children.
pub fn tails(lines: usize) -> String {
    registered().iter().fold(String::new(), |mut text, (path, name)| {
        // Writing to a String cannot fail.
        writeln!(text, "--- {name} ({})\n{}", path.display(), tail(path, lines)).ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_last_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a\nb\nc\n").unwrap();
        assert_eq!(tail(file.path(), 2), "b\nc");
        assert_eq!(tail(file.path(), 9), "a\nb\nc");
    }
}
