//! Why a server could not be started, and what to do about it.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::SpawnRequest;
use crate::process::environment::{install_advice, script_words};

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("`{}` does not exist; {}", program.display(), install_advice(program))]
    NotFound { program: PathBuf },
    /// The program is a script for an interpreter that is not there.
    #[error(
        "`{}` is a script for `{interpreter}`, which does not exist; {}",
        program.display(),
        install_advice(Path::new(interpreter))
    )]
    NoInterpreter {
        program: PathBuf,
        /// What its first line asks for.
        interpreter: String,
    },
    /// The program may not be run by this user.
    #[error(
        "`{}` may not be executed; make it executable (`chmod +x`) or correct `command`",
        program.display()
    )]
    NotPermitted { program: PathBuf },
    /// The program is confined, and itself or its interpreter is outside of what it may reach.
    #[error(
        "`{}` may not be executed in its sandbox; make it executable (`chmod +x`), or add where it and its interpreter \
         are to `sandbox.read`",
        program.display()
    )]
    OutsideSandbox { program: PathBuf },
    /// The working directory is missing or closed to this user.
    #[error("`cwd` is not usable: `{}` {reason}; create it or correct `cwd`", cwd.display())]
    BadWorkingDirectory { cwd: PathBuf, reason: &'static str },
    /// The system refused for another reason.
    #[error("`{}` could not be started: {reason}", program.display())]
    Refused { program: PathBuf, reason: String },
    /// The guard program does not start.
    #[error("the process guard `{}` could not be started: {source}; check that the installation is complete", program.display())]
    NoGuard { program: PathBuf, source: io::Error },
    /// The guard ended twice in a row without an answer.
    #[error("the process guard `{}` ended without an answer; check that it can be run", program.display())]
    GuardLost { program: PathBuf },
    /// The host itself could not open pipes or sockets.
    #[error(
        "cannot create pipes for a server: {0}; if too many files are open, raise the limit (`ulimit -n`)"
    )]
    NoPipes(#[source] io::Error),
}

impl SpawnError {
    /// Tells the reasons apart that the system reports with one number.
    pub(super) fn from_failure(
        request: &SpawnRequest,
        errno: Option<i32>,
        message: String,
    ) -> Self {
        let program = request.program.clone();
        if let Some(cwd) = &request.cwd
            && let Some(reason) = directory_problem(cwd)
        {
            return Self::BadWorkingDirectory {
                cwd: cwd.clone(),
                reason,
            };
        }
        match errno.map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => match script_words(&program).into_iter().next() {
                Some(interpreter) => Self::NoInterpreter {
                    program,
                    interpreter,
                },
                None => Self::NotFound { program },
            },
            Some(Errno::NOTDIR) => Self::NotFound { program },
            Some(Errno::ACCESS | Errno::PERM) if request.sandbox.is_some() => {
                Self::OutsideSandbox { program }
            }
            Some(Errno::ACCESS | Errno::PERM) => Self::NotPermitted { program },
            _ => Self::Refused {
                program,
                reason: message,
            },
        }
    }
}

fn directory_problem(directory: &Path) -> Option<&'static str> {
    match std::fs::metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Some("is not open to this user")
        }
        Err(_) => Some("does not exist"),
        Ok(metadata) if !metadata.is_dir() => Some("is not a directory"),
        Ok(_) => rustix::fs::access(directory, rustix::fs::Access::EXEC_OK)
            .err()
            .map(|_| "is not open to this user"),
    }
}
