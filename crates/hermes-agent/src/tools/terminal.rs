//! `terminal`: runs a shell command, in the foreground or in the background.
//!
//! Every command gets its own process group, which is killed with the call, the turn, or the session.

pub(super) mod capture;
pub(crate) mod child;
pub(crate) mod confinement;
mod environment;
#[cfg(unix)]
pub mod process;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_mcp::process::GuardHandle;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

pub use self::confinement::{CommandBounds, CommandSandbox, Confinement};
use self::{
    capture::OutputCapture,
    child::{CommandIo, CommandStart, InputMode, StartedCommand},
    confinement::SandboxContext,
};
use super::{ToolError, arguments::ToolArguments, into_output, tool_definition};
use crate::{
    approval::SandboxState,
    model::ToolDefinition,
    tools::{
        files::path_access,
        terminal::process::{ProcessTable, ProcessWatch},
        tool::{Tool, ToolContext, ToolOutput},
    },
};

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(3);
/// How long to wait for output after the command has ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub struct TerminalSettings {
    /// The default timeout.
    pub timeout: Duration,
    /// The environment of Hermes. A command gets what is not secret.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables to pass although they look like secrets.
    pub passthrough: Vec<String>,
    pub confinement: Confinement,
    /// Ends the commands of this process, should it be killed; started with the first command.
    pub guard: Option<Arc<GuardHandle>>,
}

impl TerminalSettings {
    /// Reads `terminal` from the whole configuration.
    pub fn from_document(
        document: &Value,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let section = &document["terminal"];
        let seconds = section["timeout"].as_u64().filter(|&seconds| seconds > 0);
        let passthrough = section["env_passthrough"].as_array().into_iter().flatten();
        Self {
            timeout: seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            environment: environment.into_iter().collect(),
            passthrough: passthrough
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            confinement: Confinement::new(document, CommandBounds::default()),
            guard: None,
        }
    }

    /// Applies the machine owner's limits.
    #[must_use]
    pub fn with_bounds(mut self, document: &Value, bounds: CommandBounds) -> Self {
        self.confinement = Confinement::new(document, bounds);
        self
    }
}

/// The environment of a child process, without secrets.
pub(crate) fn child_environment(
    settings: &TerminalSettings,
    home: &Path,
) -> Vec<(OsString, OsString)> {
    environment::child_variables(settings, home, CommandIo::Pipes)
}

pub struct TerminalTool {
    settings: TerminalSettings,
    table: Arc<ProcessTable>,
}

impl TerminalTool {
    /// Background processes go to the table.
    pub fn new(settings: TerminalSettings, table: Arc<ProcessTable>) -> Self {
        Self { settings, table }
    }
}

impl Tool for TerminalTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "terminal",
            &format!(
                "Runs a shell command and returns its output and exit code. Every command starts in the working \
                 directory of the session and has no input. Whatever it leaves running is ended with it: for servers \
                 and long tasks set background, then use the process tool. Use read_file, write_file, patch and \
                 search_files for files.{}",
                self.sandbox_note()
            ),
            json!({
                "command": {"type": "string", "description": "The command line"},
                "background": {"type": "boolean", "description": "Return at once; the process tool follows it", "default": false},
                "timeout": {"type": "integer", "description": "Seconds until the command is ended", "default": self.settings.timeout.as_secs(), "minimum": 1},
                "workdir": {"type": "string", "description": "The directory to run in"},
                "pty": {"type": "boolean", "description": "Give it a terminal, for programs that need one", "default": false},
                "notify_on_complete": {"type": "boolean", "description": "background: tell me when it ends", "default": false},
                "watch_patterns": {"type": "array", "items": {"type": "string"}, "description": "background: tell me when a line contains one of these texts"},
            }),
            &["command"],
        )
    }

    fn toolset(&self) -> &'static str {
        "terminal"
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(
                self.run_command(&ToolArguments::new(arguments), context)
                    .await,
            )
        })
    }
}

impl TerminalTool {
    /// Tells the model about the sandbox, so that it does not mistake a denial for a fault.
    fn sandbox_note(&self) -> &'static str {
        match self.settings.confinement.level() {
            CommandSandbox::Off => "",
            CommandSandbox::Workspace => {
                " Commands run in a sandbox: they can write only to the working directory and $TMPDIR, read the \
                 system's programs, cannot create Unix sockets, and can end processes of other commands only with the \
                 process tool."
            }
            CommandSandbox::Strict => {
                " Commands run in a sandbox without a network: they can write only to the working directory and \
                 $TMPDIR, read the system's programs, and can end processes of other commands only with the process \
                 tool."
            }
        }
    }

    async fn run_command(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let command = arguments.required_text("command")?;
        let in_background = arguments.flag("background")?;
        let timeout = arguments
            .number("timeout")?
            .map_or(self.settings.timeout, |s| Duration::from_secs(s.max(1)));
        let connection = if arguments.flag("pty")? {
            CommandIo::Terminal
        } else {
            CommandIo::Pipes
        };
        let watch = ProcessWatch {
            notify_exit: arguments.flag("notify_on_complete")?,
            patterns: arguments.texts("watch_patterns")?,
        };
        let directory = resolve_directory(arguments.text("workdir")?, context)?;
        let command_context = context.command_context(directory.clone());
        let holding = match self.settings.confinement.level() {
            CommandSandbox::Off if self.settings.confinement.is_supported() => {
                SandboxState::Available
            }
            CommandSandbox::Off => SandboxState::Unavailable,
            CommandSandbox::Workspace | CommandSandbox::Strict => SandboxState::Enforced,
        };
        context
            .approvals
            .check_command_in_sandbox(
                "terminal",
                &command,
                &command_context,
                holding,
                &context.cancel,
            )
            .await?;
        let mut environment =
            environment::child_variables(&self.settings, context.home.path(), connection);
        let user_home = std::env::home_dir();
        let resolve_context = SandboxContext {
            root: &context.cwd,
            hermes_home: context.home.path(),
            user_home: user_home.as_deref(),
            io: connection,
            extra_readable: &[],
        };
        let sandbox = self
            .settings
            .confinement
            .prepare_sandbox(&resolve_context, &mut environment)
            .map_err(|error| ToolError::new(format!("the command was not started: {error}")))?;
        let start = CommandStart {
            command: &command,
            directory: &directory,
            environment: &environment,
            io: connection,
            sandbox: sandbox.as_ref(),
        };
        if let Some(guard) = &self.settings.guard {
            guard.start();
        }
        if in_background {
            let started = self.table.start(&start, watch).map_err(ToolError::new)?;
            return Ok(ToolOutput::json(&started));
        }
        let started = StartedCommand::new(&start, InputMode::Closed).map_err(|error| {
            ToolError::new(format!("the command could not be started: {error}"))
        })?;
        Ok(wait_for_command(started, timeout, context).await)
    }
}

fn resolve_directory(workdir: Option<String>, context: &ToolContext) -> Result<PathBuf, ToolError> {
    let Some(workdir) = workdir.filter(|workdir| !workdir.is_empty()) else {
        return Ok(context.cwd.clone());
    };
    match path_access::PathRules::from_context(context).locate(&workdir) {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(ToolError::new(format!("{workdir} is not a directory"))),
        Err(error) => Err(ToolError::new(format!("{workdir}: {error}"))),
    }
}

/// How a command ended.
enum CommandEnd {
    Exited,
    TimedOut,
    Interrupted,
}

async fn wait_for_command(
    started: StartedCommand,
    timeout: Duration,
    context: &ToolContext,
) -> ToolOutput {
    let StartedCommand {
        mut child,
        mut output,
        ..
    } = started;
    let mut capture = OutputCapture::default();
    let mut buffer = vec![0; 16 * 1024];
    let mut is_open = true;
    let mut status = None;
    let mut until = Instant::now() + timeout;
    let end = loop {
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => break CommandEnd::Interrupted,
            read = output.read(&mut buffer), if is_open => match read {
                Ok(length) if length > 0 => capture.push(&buffer[..length]),
                _ => is_open = false,
            },
            exited = child.wait(), if status.is_none() => {
                status = Some(exited);
                // A child process may hold the output open.
                until = Instant::now() + OUTPUT_GRACE;
            }
            () = tokio::time::sleep_until(until) => {
                break if status.is_some() { CommandEnd::Exited } else { CommandEnd::TimedOut };
            }
        }
        if status.is_some() && !is_open {
            break CommandEnd::Exited;
        }
    };
    let status = match status {
        Some(status) => {
            child.kill_group();
            status
        }
        None => child.terminate().await,
    };
    let text = capture.render();
    let (code, problem) = match end {
        CommandEnd::Exited => (status, None),
        CommandEnd::TimedOut => {
            let seconds = timeout.as_secs();
            (
                Some(124),
                Some(format!(
                    "ended after {seconds} s; run it in the background or with a larger timeout"
                )),
            )
        }
        CommandEnd::Interrupted => (Some(130), Some("interrupted by the user".to_owned())),
    };
    let mut result = json!({"output": text, "exit_code": code});
    if let Some(problem) = problem {
        result["error"] = problem.into();
    }
    ToolOutput {
        is_error: code != Some(0),
        ..ToolOutput::json(&result)
    }
}
