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
    content::{text_result, tool_without_arguments},
    fixtures::{FixtureConnection, ListChanges, is_stateless},
};

/// Between two messages, so that they travel one by one.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool_without_arguments("test_tool_with_logging", "Logs what it does"),
        tool_without_arguments("test_logging_tool", "Logs what it does"),
        tool_without_arguments("test_tool_with_progress", "Tells how far it is"),
        tool_without_arguments(
            "test_reconnection",
            "Takes its time, with or without a connection",
        ),
        tool_without_arguments("test_trigger_tool_change", "Changes the list of tools"),
        tool_without_arguments("test_trigger_prompt_change", "Changes the list of prompts"),
    ]
}

/// The tool that changes of the list add and remove.
pub(super) fn temporary_tool() -> Tool {
    tool_without_arguments("test_passing_tool", "Is there after every second change")
}

/// The answer, if the tool is one of these. A client that has gone misses the messages and nothing else.
pub(super) async fn call(
    connection: &FixtureConnection,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    Some(match &*request.name {
        "test_tool_with_logging" | "test_logging_tool" => {
            send_logs(connection, context).await;
            text_result("Logging is done.")
        }
        "test_tool_with_progress" => {
            send_progress(context).await;
            text_result("All steps are done.")
        }
        "test_reconnection" => {
            tokio::time::sleep(MESSAGE_INTERVAL).await;
            text_result("Nothing was in the way.")
        }
        "test_trigger_tool_change" => {
            let changes = &connection.fixtures.changes;
            changes.send_modify(|changes| changes.tools += 1);
            if !is_stateless(context) {
                let _ = context.peer.notify_tool_list_changed().await;
            }
            text_result("The list of tools has changed.")
        }
        "test_trigger_prompt_change" => {
            let changes = &connection.fixtures.changes;
            changes.send_modify(|changes| changes.prompts += 1);
            if !is_stateless(context) {
                let _ = context.peer.notify_prompt_list_changed().await;
            }
            text_result("The list of prompts has changed.")
        }
        "test_passing_tool" => text_result("Here for now."),
        _ => return None,
    })
}

async fn send_logs(connection: &FixtureConnection, context: &RequestContext<RoleServer>) {
    let level = LoggingLevel::Info;
    for text in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        if connection.wants_log(level, context) {
            let message = LoggingMessageNotificationParam::new(level, json!(text));
            let _ = context.peer.notify_logging_message(message).await;
            tokio::time::sleep(MESSAGE_INTERVAL).await;
        }
    }
}

async fn send_progress(context: &RequestContext<RoleServer>) {
    for step in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, step).with_total(100.0);
            let _ = context.peer.notify_progress(progress).await;
        }
        tokio::time::sleep(MESSAGE_INTERVAL).await;
    }
}

/// Tells a subscriber of changes of the lists it asked for, from what it knows on, until it leaves.
pub(super) async fn notify_changes(
    mut changes: watch::Receiver<ListChanges>,
    mut known: ListChanges,
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
