//! Where the values of references come from.

use std::{
    fs,
    io::{self, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{Reach, Reference, ReferenceError, ReferencePolicy};
use crate::{Home, Variables, home::expand_tilde};

const COMMAND_LIMIT: Duration = Duration::from_secs(10);
const COMMAND_OUTPUT_LIMIT: u64 = 64 * 1024;
const FILE_LIMIT: u64 = 1024 * 1024;

/// A home's variables, files, commands and keyring, as far as the policy lets one reach.
pub(super) struct Sources<'a> {
    pub(super) home: &'a Home,
    pub(super) variables: &'a Variables,
    pub(super) policy: ReferencePolicy,
}

impl Sources<'_> {
    /// The value of a reference; `None` if it stays as written.
    pub(super) fn value(
        &self,
        key: &str,
        meaning: &Reference,
        written: &str,
    ) -> Result<Option<String>, ReferenceError> {
        let key = || key.to_owned();
        let reference = written.to_owned();
        match meaning {
            Reference::Unknown => Ok(None),
            Reference::Variable(name) => Ok(self
                .variables
                .get(name)
                .filter(|value| !value.is_empty())
                .map(str::to_owned)),
            Reference::File(path) => match self.file(path) {
                Ok(text) => Ok(Some(text)),
                Err(FileProblem::Outside) => Err(ReferenceError::Refused {
                    key: key(),
                    reference,
                    reason: "only files inside the home can be read".into(),
                }),
                Err(FileProblem::Unreadable(reason)) => Err(ReferenceError::File {
                    key: key(),
                    reference,
                    reason,
                }),
            },
            Reference::Command(_) if self.policy.reach == Reach::InsideHome => {
                Err(ReferenceError::Refused {
                    key: key(),
                    reference,
                    reason: "commands can not be run".into(),
                })
            }
            Reference::Command(line) => {
                self.command(line)
                    .map(Some)
                    .map_err(|reason| ReferenceError::Command {
                        key: key(),
                        reference,
                        reason,
                    })
            }
            Reference::Keyring(name) => match &self.policy.keyring {
                None => Err("no keyring is configured".to_owned()),
                Some(keyring) => keyring.read(name).map_err(|error| error.to_string()),
            }
            .map(Some)
            .map_err(|reason| ReferenceError::Keyring {
                key: key(),
                reference,
                reason,
            }),
        }
    }

    fn file(&self, path: &str) -> Result<String, FileProblem> {
        let mut path = self.home.path().join(expand_tilde(Path::new(path)));
        if self.policy.reach == Reach::InsideHome {
            // Links are followed first, so that one inside the home can not lead out of it.
            let home = fs::canonicalize(self.home.path())?;
            path = fs::canonicalize(&path).map_err(|_| FileProblem::Outside)?;
            if !path.starts_with(&home) {
                return Err(FileProblem::Outside);
            }
        }
        if !fs::metadata(&path)?.is_file() {
            return Err(FileProblem::Unreadable("it is no regular file".into()));
        }
        let bytes = read_limited(fs::File::open(&path)?, FILE_LIMIT)?
            .ok_or_else(|| FileProblem::Unreadable("it is larger than 1 MiB".into()))?;
        text(bytes).map_err(FileProblem::Unreadable)
    }

    fn command(&self, line: &str) -> Result<String, String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .envs(self.variables.iter())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if self.home.path().is_dir() {
            command.current_dir(self.home.path());
        }
        run(&mut command, COMMAND_LIMIT)
    }
}

enum FileProblem {
    Outside,
    Unreadable(String),
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// What a command prints, if it ends well within `limit`; else all that it started is ended.
fn run(command: &mut Command, limit: Duration) -> Result<String, String> {
    // A group of its own, so that it can be ended as a whole.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command
        .spawn()
        .map_err(|error| format!("`sh` can not be started: {error}"))?;
    let result = output(&mut child, limit);
    if result.is_err() {
        kill_group(&mut child);
    }
    result
}

fn output(child: &mut Child, limit: Duration) -> Result<String, String> {
    let deadline = Instant::now() + limit;
    let too_slow = || format!("it took longer than {limit:?}");
    let stdout = child.stdout.take().ok_or("its output is not connected")?;
    // The thread ends when the output does, at the latest when the group is killed.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(read_limited(stdout, COMMAND_OUTPUT_LIMIT)));
    let bytes = receiver
        .recv_timeout(limit)
        .map_err(|_| too_slow())?
        .map_err(|error| error.to_string())?
        .ok_or("it printed more than 64 KiB")?;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= deadline => return Err(too_slow()),
            // Only a program that closed its output early and runs on is waited for here.
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    text(bytes)
}

fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        // Fails only if the whole group has ended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The content, or `None` if there is more than `limit` of it.
fn read_limited(reader: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// As text, without the line break at its end.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    let mut text = String::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended_with_all_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "sh -c 'echo $$ >pid; exec sleep 60' & wait"])
            .current_dir(directory.path())
            .stdout(Stdio::piped());
        let error = run(&mut command, Duration::from_millis(500)).unwrap_err();
        assert_eq!(error, "it took longer than 500ms");

        let pid = fs::read_to_string(directory.path().join("pid")).unwrap();
        let gone = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(20));
            // An orphan stays a zombie where nobody reaps it.
            match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
                Ok(stat) => stat.contains(") Z "),
                Err(_) => true,
            }
        });
        assert!(gone);
    }

    #[test]
    fn a_command_that_closes_its_output_is_still_waited_for() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo x; exec >&-; sleep 0.1; exit 4"])
            .stdout(Stdio::piped());
        let error = run(&mut command, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error, "it ended with exit status: 4");
    }
}
