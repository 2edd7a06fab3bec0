//! Tools that send notifications before they return, and notifications to subscribers.

use std::time::Duration;

use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, Tool,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::json;
use tokio::sync::watch;

use super::{
    content::{plain, sentence},
    fixtures::{Changes, Connection, is_stateless},
};

/// Between two messages, so that they travel one by one.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn tools() -> Vec<Tool> {
    vec![
        plain("test_tool_with_logging", "Logs what it does"),
        plain("test_logging_tool", "Logs what it does"),
        plain("test_tool_with_progress", "Tells how far it is"),
        plain(
            "test_reconnection",
            "Takes its time, with or without a connection",
        ),
        plain("test_trigger_tool_change", "Changes the list of tools"),
        plain("test_trigger_prompt_change", "Changes the list of prompts"),
    ]
}

/// The tool that changes of the list add and remove.
pub(super) fn passing_tool() -> Tool {
    plain("test_passing_tool", "Is there after every second change")
}

/// The answer, if the tool is one of these. A client that has gone misses the messages and nothing else.
pub(super) async fn call(
    connection: &Connection,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    Some(match &*request.name {
        "test_tool_with_logging" | "test_logging_tool" => {
            log(connection, context).await;
            sentence("Logging is done.")
        }
        "test_tool_with_progress" => {
            progress(context).await;
            sentence("All steps are done.")
        }
        "test_reconnection" => {
            tokio::time::sleep(PAUSE).await;
            sentence("Nothing was in the way.")
        }
        "test_trigger_tool_change" => {
            let changes = &connection.fixtures.changes;
            changes.send_modify(|changes| changes.tools += 1);
            if !is_stateless(context) {
                let _ = context.peer.notify_tool_list_changed().await;
            }
            sentence("The list of tools has changed.")
        }
        "test_trigger_prompt_change" => {
            let changes = &connection.fixtures.changes;
            changes.send_modify(|changes| changes.prompts += 1);
            if !is_stateless(context) {
                let _ = context.peer.notify_prompt_list_changed().await;
            }
            sentence("The list of prompts has changed.")
        }
        "test_passing_tool" => sentence("Here for now."),
        _ => return None,
    })
}

async fn log(connection: &Connection, context: &RequestContext<RoleServer>) {
    let level = LoggingLevel::Info;
    for text in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        if connection.wants_log(level, context) {
            let message = LoggingMessageNotificationParam::new(level, json!(text));
            let _ = context.peer.notify_logging_message(message).await;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn progress(context: &RequestContext<RoleServer>) {
    for step in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, step).with_total(100.0);
            let _ = context.peer.notify_progress(progress).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tells a subscriber of changes of the lists it asked for, from what it knows on, until it leaves.
pub(super) async fn of_changes(
    mut changes: watch::Receiver<Changes>,
    mut known: Changes,
    context: &SubscriptionContext,
) {
    let accepted = context.accepted();
    loop {
        let now = *changes.borrow_and_update();
        if now.tools != known.tools && accepted.tools_list_changed == Some(true) {
            let _ = context.sink().notify_tool_list_changed().await;
        }
        if now.prompts != known.prompts && accepted.prompts_list_changed == Some(true) {
            let _ = context.sink().notify_prompt_list_changed().await;
        }
        known = now;
        tokio::select! {
            () = context.cancelled() => return,
            more = changes.changed() => if more.is_err() { return },
        }
    }
}
