//! `process`: the commands that run in the background of a session.

mod table;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use self::table::ProcessEntry;
pub use self::table::{ProcessNotice, ProcessTable, ProcessWatch};
use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        into_output,
        tool::{Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

const DEFAULT_WAIT_TIMEOUT: Duration = Duration::from_mins(3);
/// How long to wait for a killed process to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for a process to read its input.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_LINES: usize = 200;
const MAX_LINES: usize = 2000;

const ACTIONS: [&str; 8] = [
    "list", "poll", "log", "wait", "kill", "write", "submit", "close",
];

pub struct ProcessTool {
    table: Arc<ProcessTable>,
}

impl ProcessTool {
    pub fn new(table: Arc<ProcessTable>) -> Self {
        Self { table }
    }
}

impl Tool for ProcessTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "process",
            "Follows and controls the commands that terminal started in the background. list: all of them. poll: state and \
             new output. log: output by lines. wait: until it ends. kill: end it. write: send text to its input. submit: \
             the same with a line break. close: end its input.",
            json!({
                "action": {"type": "string", "enum": ACTIONS},
                "session_id": {"type": "string", "description": "The process, as terminal named it; for all actions but list"},
                "data": {"type": "string", "description": "write, submit: the text"},
                "timeout": {"type": "integer", "description": "wait: seconds", "default": DEFAULT_WAIT_TIMEOUT.as_secs(), "minimum": 1},
                "offset": {"type": "integer", "description": "log: first line, counted from 0; without it the last lines are shown", "minimum": 0},
                "limit": {"type": "integer", "description": "log: number of lines", "default": DEFAULT_LINES, "minimum": 1, "maximum": MAX_LINES},
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
        Box::pin(async move {
            into_output(
                self.run_action(&ToolArguments::new(arguments), context)
                    .await,
            )
        })
    }
}

impl ProcessTool {
    async fn run_action(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let action = arguments.required_choice("action", &ACTIONS)?;
        if action == "list" {
            return Ok(ToolOutput::json(&json!({"processes": self.table.list()})));
        }
        let id = arguments.required_text("session_id")?;
        let entry = self
            .table
            .find(&id)
            .ok_or_else(|| ToolError::new(format!("there is no process {id}")))?;
        let result = match action {
            "poll" => poll_output(&entry),
            "log" => read_log(&entry, arguments)?,
            "wait" => {
                let seconds = arguments.number("timeout")?;
                let timeout = seconds.map_or(DEFAULT_WAIT_TIMEOUT, |seconds| {
                    Duration::from_secs(seconds.max(1))
                });
                wait_for_exit(&entry, timeout, context).await
            }
            "kill" => {
                entry.kill();
                tokio::time::timeout(KILL_TIMEOUT, entry.wait_until_ended())
                    .await
                    .ok();
                poll_output(&entry)
            }
            "close" => {
                entry.close_input().await.map_err(ToolError::new)?;
                json!({"session_id": id, "closed": true})
            }
            _ => {
                let mut data = arguments.text("data")?.unwrap_or_default();
                if action == "submit" {
                    data.push('\n');
                }
                // A background shell would run it as a command.
                let command = context.command_context(context.cwd.clone());
                context
                    .approvals
                    .check_command("process", &data, &command, &context.cancel)
                    .await?;
                write_input(&entry, &data).await?;
                json!({"session_id": id, "bytes_written": data.len()})
            }
        };
        Ok(ToolOutput::json(&result))
    }
}

/// The state and the output since the last poll.
fn poll_output(entry: &ProcessEntry) -> Value {
    let mut state = entry.state();
    state["output"] = entry.new_output().into();
    state
}

fn read_log(entry: &ProcessEntry, arguments: &ToolArguments) -> Result<Value, ToolError> {
    let limit = arguments.size("limit", DEFAULT_LINES, 1..=MAX_LINES)?;
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

async fn wait_for_exit(entry: &ProcessEntry, timeout: Duration, context: &ToolContext) -> Value {
    let note = tokio::select! {
        () = entry.wait_until_ended() => None,
        () = context.cancel.cancelled() => Some("interrupted; the process goes on".to_owned()),
        () = tokio::time::sleep(timeout) => Some(format!("still running after {} s", timeout.as_secs())),
    };
    let mut result = poll_output(entry);
    if let Some(note) = note {
        result["note"] = note.into();
    }
    result
}

async fn write_input(entry: &ProcessEntry, data: &str) -> Result<(), ToolError> {
    match tokio::time::timeout(WRITE_TIMEOUT, entry.write(data.as_bytes())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(problem)) => Err(ToolError::new(problem)),
        Err(_) => Err(ToolError::new("the process does not read its input")),
    }
}
