//! What the stored calls of a session have written: commands, and files by their own tools.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use hermes_store::{MessageQuery, MessageRows, Role, SessionId, Store, StoredMessage};
use serde_json::{Map, Value};

use super::message_rows::stored_calls;
use crate::{approval::session_files::PastCall, message::ToolCall};

/// The calls of a session, those of messages that were summed up or taken back included.
pub(crate) async fn read_past_calls(
    store: &Store,
    session: &SessionId,
    cwd: &Path,
) -> Vec<PastCall> {
    let query = MessageQuery {
        rows: MessageRows::All,
        roles: vec![Role::Assistant],
        limit: u32::MAX,
        ..MessageQuery::default()
    };
    match store.read_messages(session, &query).await {
        Ok(rows) => rows.iter().flat_map(|row| row_calls(row, cwd)).collect(),
        Err(error) => {
            tracing::warn!(%error, "failed to read which files the session has written");
            Vec::new()
        }
    }
}

fn row_calls(row: &StoredMessage, cwd: &Path) -> Vec<PastCall> {
    let since = Duration::try_from_secs_f64(row.timestamp).unwrap_or_default();
    let at = SystemTime::UNIX_EPOCH + since;
    let calls = stored_calls(row.body.tool_calls.as_ref());
    calls
        .iter()
        .flat_map(|call| past_calls(call, cwd, at))
        .collect()
}

fn past_calls(call: &ToolCall, cwd: &Path, at: SystemTime) -> Vec<PastCall> {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let file = |path: &str| PastCall::File {
        path: path.to_owned(),
        directory: cwd.to_owned(),
    };
    match &*call.name {
        "terminal" => {
            let directory =
                text("workdir").map_or_else(|| cwd.to_owned(), |workdir| cwd.join(workdir));
            let command = text("command").map(|line| PastCall::Command {
                line: line.to_owned(),
                directory,
                at,
            });
            command.into_iter().collect()
        }
        "write_file" => text("path").map(file).into_iter().collect(),
        "patch" => {
            let named = text("path").into_iter();
            let lines = text("patch").unwrap_or_default().lines();
            let patched = lines.filter_map(|line| {
                let starts = ["*** Add File: ", "*** Update File: ", "*** Move to: "];
                starts.iter().find_map(|start| line.strip_prefix(start))
            });
            named.chain(patched).map(file).collect()
        }
        _ => Vec::new(),
    }
}
