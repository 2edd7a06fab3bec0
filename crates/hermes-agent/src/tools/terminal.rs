//! `terminal`: runs a shell command, in the foreground or in the background.
//!
//! Every command gets its own process group, which is killed with the call, the turn, or the session.

pub(super) mod capture;
pub(crate) mod child;
pub(crate) mod confinement;
mod environment;
mod strays;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

pub use self::confinement::{CommandBounds, CommandSandbox, Confinement};
use self::{
    capture::Capture,
    child::{Connection, Input, Start, Started},
    confinement::CommandScene,
};
use super::{
    Problem,
    arguments::Arguments,
    definition, finish, place,
    process::{ProcessTable, Watch},
};
use crate::{
    approval::Holding,
    model::ToolDefinition,
    tool::{Tool, ToolContext, ToolOutput},
};

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(3);
/// How long to wait for output after the command has ended.
const LAST_WORDS: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub struct TerminalSettings {
    /// The default timeout.
    pub timeout: Duration,
    /// The environment of Hermes. A command gets what is not secret.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables to pass although they look like secrets.
    pub passthrough: Vec<String>,
    pub confinement: Confinement,
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
        }
    }

    /// Applies the machine owner's limits.
    #[must_use]
    pub fn within(mut self, document: &Value, bounds: CommandBounds) -> Self {
        self.confinement = Confinement::new(document, bounds);
        self
    }
}

/// The environment of a child process, without secrets.
pub(crate) fn child_environment(
    settings: &TerminalSettings,
    home: &Path,
) -> Vec<(OsString, OsString)> {
    environment::for_child(settings, home, Connection::Pipes)
}

pub struct Terminal {
    settings: TerminalSettings,
    table: Arc<ProcessTable>,
}

impl Terminal {
    /// Background processes go to the table.
    pub fn new(settings: TerminalSettings, table: Arc<ProcessTable>) -> Self {
        Self { settings, table }
    }
}

impl Tool for Terminal {
    fn definition(&self) -> ToolDefinition {
        definition(
            "terminal",
            &format!(
                "Runs a shell command and returns its output and exit code. Every command starts in the working \
                 directory of the session and has no input. Whatever it leaves running is ended with it: for servers \
                 and long tasks set background, then use the process tool. Use read_file, write_file, patch and \
                 search_files for files.{}",
                self.about_sandbox()
            ),
            json!({
                "command": {"type": "string", "description": "The command line"},
                "background": {"type": "boolean", "description": "Return at once; the process tool follows it", "default": false},
                "timeout": {"type": "integer", "description": "Seconds until the command is ended", "default": self.settings.timeout.as_secs(), "minimum": 1},
                "workdir": {"type": "string", "description": "The directory to run in"},
                "pty": {"type": "boolean", "description": "Give it a terminal, for programs that insist on one", "default": false},
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
        Box::pin(async move { finish(self.run(&Arguments::new(arguments), context).await) })
    }
}

impl Terminal {
    /// Tells the model about the sandbox, so that it does not take it for a fault.
    fn about_sandbox(&self) -> &'static str {
        match self.settings.confinement.level() {
            CommandSandbox::Off => "",
            CommandSandbox::Workspace => {
                " Commands run in a sandbox: they write to the working directory and $TMPDIR alone, read the system's \
                 programs besides, make no Unix sockets, and end processes of other commands only by the process tool."
            }
            CommandSandbox::Strict => {
                " Commands run in a sandbox without a network: they write to the working directory and $TMPDIR alone, \
                 read the system's programs besides, and end processes of other commands only by the process tool."
            }
        }
    }

    async fn run(
        &self,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, Problem> {
        let command = arguments.required_text("command")?;
        let in_background = arguments.flag("background")?;
        let timeout = arguments
            .number("timeout")?
            .map_or(self.settings.timeout, |s| Duration::from_secs(s.max(1)));
        let connection = if arguments.flag("pty")? {
            Connection::Terminal
        } else {
            Connection::Pipes
        };
        let watch = Watch {
            tells_end: arguments.flag("notify_on_complete")?,
            patterns: arguments.texts("watch_patterns")?,
        };
        let directory = directory(arguments.text("workdir")?, context)?;
        let scene = context.scene(directory.clone());
        let holding = match self.settings.confinement.level() {
            CommandSandbox::Off if self.settings.confinement.could_be_in_force() => {
                Holding::RulesAlone
            }
            CommandSandbox::Off => Holding::Rules,
            CommandSandbox::Workspace | CommandSandbox::Strict => Holding::Sandbox,
        };
        context
            .approvals
            .held_command("terminal", &command, &scene, holding, &context.cancel)
            .await?;
        let mut environment =
            environment::for_child(&self.settings, context.home.path(), connection);
        let user_home = std::env::home_dir();
        let around = CommandScene {
            root: &context.cwd,
            hermes_home: context.home.path(),
            user_home: user_home.as_deref(),
            connection,
            also_read: &[],
        };
        let sandbox = self
            .settings
            .confinement
            .prepare(&around, &mut environment)
            .map_err(|error| Problem::new(format!("the command was not started: {error}")))?;
        let start = Start {
            command: &command,
            directory: &directory,
            environment: &environment,
            connection,
            sandbox: sandbox.as_ref(),
        };
        if in_background {
            let started = self.table.start(&start, watch).map_err(Problem::new)?;
            return Ok(ToolOutput::json(&started));
        }
        let started = Started::new(&start, Input::Closed)
            .map_err(|error| Problem::new(format!("the command could not be started: {error}")))?;
        Ok(wait(started, timeout, context).await)
    }
}

fn directory(workdir: Option<String>, context: &ToolContext) -> Result<PathBuf, Problem> {
    let Some(workdir) = workdir.filter(|workdir| !workdir.is_empty()) else {
        return Ok(context.cwd.clone());
    };
    match place::Map::of(context).locate(&workdir) {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(Problem::new(format!("{workdir} is not a directory"))),
        Err(error) => Err(Problem::new(format!("{workdir}: {error}"))),
    }
}

/// How a command ended.
enum End {
    Exited,
    TimedOut,
    Interrupted,
}

async fn wait(started: Started, timeout: Duration, context: &ToolContext) -> ToolOutput {
    let Started {
        mut child,
        mut output,
        ..
    } = started;
    let mut capture = Capture::default();
    let mut buffer = vec![0; 16 * 1024];
    let mut is_open = true;
    let mut status = None;
    let mut until = Instant::now() + timeout;
    let end = loop {
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => break End::Interrupted,
            read = output.read(&mut buffer), if is_open => match read {
                Ok(length) if length > 0 => capture.push(&buffer[..length]),
                _ => is_open = false,
            },
            exited = child.wait(), if status.is_none() => {
                status = Some(exited);
                // A child process may hold the output open.
                until = Instant::now() + LAST_WORDS;
            }
            () = tokio::time::sleep_until(until) => {
                break if status.is_some() { End::Exited } else { End::TimedOut };
            }
        }
        if status.is_some() && !is_open {
            break End::Exited;
        }
    };
    let status = match status {
        Some(status) => {
            child.kill_group();
            status
        }
        None => child.end().await,
    };
    let text = capture.render();
    let (code, problem) = match end {
        End::Exited => (status, None),
        End::TimedOut => {
            let seconds = timeout.as_secs();
            (
                Some(124),
                Some(format!(
                    "ended after {seconds} s; run it in the background or with a larger timeout"
                )),
            )
        }
        End::Interrupted => (Some(130), Some("interrupted by the user".to_owned())),
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
