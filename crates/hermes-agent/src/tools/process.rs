//! `process`: the commands that run in the background of a session.

mod log;
mod table;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use self::table::Entry;
pub use self::table::{Notice, ProcessTable, Watch};
use super::{Problem, arguments::Arguments, definition, finish};
use crate::{
    model::ToolDefinition,
    tool::{Tool, ToolContext, ToolOutput},
};

const DEFAULT_WAIT: Duration = Duration::from_mins(3);
/// How long to wait for a killed process to end.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How long to wait for a process to read its input.
const WRITE_WAIT: Duration = Duration::from_secs(10);
const DEFAULT_LINES: usize = 200;
const MOST_LINES: usize = 2000;

const ACTIONS: [&str; 8] = [
    "list", "poll", "log", "wait", "kill", "write", "submit", "close",
];

pub struct Process {
    table: Arc<ProcessTable>,
}

impl Process {
    pub fn new(table: Arc<ProcessTable>) -> Self {
        Self { table }
    }
}

impl Tool for Process {
    fn definition(&self) -> ToolDefinition {
        definition(
            "process",
            "Follows and steers the commands that terminal started in the background. list: all of them. poll: state and \
             new output. log: output by lines. wait: until it ends. kill: end it. write: send text to its input. submit: \
             the same with a line break. close: end its input.",
            json!({
                "action": {"type": "string", "enum": ACTIONS},
                "session_id": {"type": "string", "description": "The process, as terminal named it; for all actions but list"},
                "data": {"type": "string", "description": "write, submit: the text"},
                "timeout": {"type": "integer", "description": "wait: seconds", "default": DEFAULT_WAIT.as_secs(), "minimum": 1},
                "offset": {"type": "integer", "description": "log: first line, counted from 0; without it the last lines are shown", "minimum": 0},
                "limit": {"type": "integer", "description": "log: number of lines", "default": DEFAULT_LINES, "minimum": 1, "maximum": MOST_LINES},
            }),
            &["action"],
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

impl Process {
    async fn run(
        &self,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, Problem> {
        let action = arguments.required_choice("action", &ACTIONS)?;
        if action == "list" {
            return Ok(ToolOutput::json(&json!({"processes": self.table.list()})));
        }
        let id = arguments.required_text("session_id")?;
        let entry = self
            .table
            .find(&id)
            .ok_or_else(|| Problem::new(format!("there is no process {id}")))?;
        let result = match action {
            "poll" => with_output(&entry),
            "log" => log(&entry, arguments)?,
            "wait" => {
                let seconds = arguments.number("timeout")?;
                let timeout =
                    seconds.map_or(DEFAULT_WAIT, |seconds| Duration::from_secs(seconds.max(1)));
                wait(&entry, timeout, context).await
            }
            "kill" => {
                entry.kill();
                tokio::time::timeout(KILL_WAIT, entry.ended()).await.ok();
                with_output(&entry)
            }
            "close" => {
                entry.close_input().await.map_err(Problem::new)?;
                json!({"session_id": id, "closed": true})
            }
            _ => {
                let mut data = arguments.text("data")?.unwrap_or_default();
                if action == "submit" {
                    data.push('\n');
                }
                // A background shell would run it as a command.
                let scene = context.scene(context.cwd.clone());
                context
                    .approvals
                    .command("process", &data, &scene, &context.cancel)
                    .await?;
                write(&entry, &data).await?;
                json!({"session_id": id, "bytes_written": data.len()})
            }
        };
        Ok(ToolOutput::json(&result))
    }
}

/// The state and the output since the last poll.
fn with_output(entry: &Entry) -> Value {
    let mut state = entry.state();
    state["output"] = entry.new_output().into();
    state
}

fn log(entry: &Entry, arguments: &Arguments) -> Result<Value, Problem> {
    let limit = arguments.size("limit", DEFAULT_LINES, 1..=MOST_LINES)?;
    let text = entry.all_output();
    let lines: Vec<&str> = text.lines().collect();
    let offset = match arguments.number("offset")? {
        Some(offset) => usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(lines.len()),
        None => lines.len().saturating_sub(limit),
    };
    let end = offset.saturating_add(limit).min(lines.len());
    let mut state = entry.state();
    state["output"] = lines[offset..end].join("\n").into();
    state["offset"] = offset.into();
    state["total_lines"] = lines.len().into();
    Ok(state)
}

async fn wait(entry: &Entry, timeout: Duration, context: &ToolContext) -> Value {
    let note = tokio::select! {
        () = entry.ended() => None,
        () = context.cancel.cancelled() => Some("interrupted; the process goes on".to_owned()),
        () = tokio::time::sleep(timeout) => Some(format!("still running after {} s", timeout.as_secs())),
    };
    let mut result = with_output(entry);
    if let Some(note) = note {
        result["note"] = note.into();
    }
    result
}

async fn write(entry: &Entry, data: &str) -> Result<(), Problem> {
    match tokio::time::timeout(WRITE_WAIT, entry.write(data.as_bytes())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(problem)) => Err(Problem::new(problem)),
        Err(_) => Err(Problem::new("the process does not read its input")),
    }
}
