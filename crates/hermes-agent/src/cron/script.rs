//! Scripts of jobs: the user's programs below `scripts/` of the home.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use hermes_config::Home;
use hermes_mcp::process::{
    GuardHandle, command_marker::CommandMarker, descendants::mark_descendants, sandbox,
    sandbox::limit_child_processes,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

use crate::tools::terminal::{
    Confinement,
    child::{CommandIo, ProcessGroup},
    confinement::SandboxContext,
};

/// Longer output is truncated.
const MAX_OUTPUT_BYTES: usize = 100_000;

/// How long to wait for output after the script has ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(250);

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It does not exist, or is not below `scripts/`.
    #[error("there is no script `{name}` below `{}`", directory.display())]
    NotFound {
        /// As the job names it.
        name: String,
        directory: PathBuf,
    },
    #[error("the script `{name}` cannot be started with `{program}`: {source}")]
    NotStarted {
        /// As the job names it.
        name: String,
        program: &'static str,
        source: io::Error,
    },
    #[error("the script `{name}` wrote nothing for {} s and was stopped", after.as_secs())]
    TimedOut {
        /// As the job names it.
        name: String,
        after: Duration,
    },
}

#[derive(Debug)]
pub(super) struct ScriptOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// None if a signal ended it.
    pub(super) code: Option<i32>,
}

/// The path of a script. It must be inside `scripts/` after following links.
pub fn locate_script(home: &Home, name: &str) -> Result<PathBuf, ScriptError> {
    let directory = home.path().join("scripts");
    let path = directory.canonicalize().and_then(|root| {
        let path = root.join(name).canonicalize()?;
        Ok((path.starts_with(&root) && path.is_file()).then_some(path))
    });
    path.ok().flatten().ok_or_else(|| ScriptError::NotFound {
        name: name.to_owned(),
        directory,
    })
}

pub(super) struct ScriptEnvironment {
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) confinement: Confinement,
    pub(super) guard: Option<Arc<GuardHandle>>,
}

/// Runs a script and waits for it, unless it writes nothing for longer than `timeout`. Dropping the future kills
/// the script and its children.
pub(super) async fn run_script(
    home: &Home,
    name: &str,
    directory: &Path,
    mut environment: ScriptEnvironment,
    timeout: Option<Duration>,
) -> Result<ScriptOutput, ScriptError> {
    let path = locate_script(home, name)?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    let program = match extension {
        Some("sh" | "bash") => "bash",
        _ => "python3",
    };
    let not_started = |source| ScriptError::NotStarted {
        name: name.to_owned(),
        program,
        source,
    };
    let mut command = Command::new(program);
    limit_child_processes(&mut command);
    mark_descendants(&mut command);
    let marker = CommandMarker::new();
    if let Some(guard) = &environment.guard {
        guard.start();
    }
    let user_home = std::env::home_dir();
    let sandbox = SandboxContext {
        root: directory,
        hermes_home: home.path(),
        user_home: user_home.as_deref(),
        io: CommandIo::Pipes,
        extra_readable: &[&home.path().join("scripts")],
    };
    // The model may have written the script, so it is confined like a command.
    environment
        .confinement
        .prepare_sandbox(&sandbox, &mut environment.environment)
        .and_then(|plan| match plan {
            Some(plan) => sandbox::confine_command(&mut command, &plan).map_err(io::Error::other),
            None => Ok(()),
        })
        .map_err(not_started)?;
    let mut child = command
        .arg(&path)
        .current_dir(directory)
        .env_clear()
        .envs(environment.environment)
        .envs([marker.variable()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(not_started)?;
    let _group = ProcessGroup::of_child(&child);
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut ended: Option<Option<i32>> = None;
    loop {
        let limit = ended.map_or(timeout, |_| Some(OUTPUT_GRACE));
        let silence = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            is_open = read_available(&mut stdout, &mut out), if stdout.is_some() => {
                if !is_open { stdout = None; }
            }
            is_open = read_available(&mut stderr, &mut err), if stderr.is_some() => {
                if !is_open { stderr = None; }
            }
            status = child.wait(), if ended.is_none() => {
                ended = Some(status.ok().and_then(|status| status.code()));
            }
            () = silence => match (ended, timeout) {
                (None, Some(after)) => {
                    return Err(ScriptError::TimedOut { name: name.to_owned(), after });
                }
                // A child process holds the pipes open.
                _ => break,
            },
        }
        if ended.is_some() && stdout.is_none() && stderr.is_none() {
            break;
        }
    }
    Ok(ScriptOutput {
        stdout: decode_output(&out),
        stderr: decode_output(&err),
        code: ended.flatten(),
    })
}

/// Reads available output; `false` at the end.
async fn read_available(end: &mut Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) -> bool {
    let Some(end) = end else {
        return false;
    };
    let mut bytes = vec![0; 8192];
    match end.read(&mut bytes).await {
        Ok(count @ 1..) => {
            let room = MAX_OUTPUT_BYTES.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..count.min(room)]);
            true
        }
        _ => false,
    }
}

fn decode_output(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
