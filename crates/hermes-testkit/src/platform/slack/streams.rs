//! Messages that grow: `chat.startStream`, `chat.appendStream`, `chat.stopStream`; and the status of agent sessions.

use serde_json::{Value, json};

use super::{
    call::{SlackArguments, SlackReply},
    chat::{self, SlackContent},
    events,
};
use crate::platform::server::PlatformState;

/// The most characters in one piece of a stream, and in all of them.
const MAX_CHARS: usize = 12_000;

pub(super) fn start(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let channel = call.text("channel");
    let mut state = server.slack.lock();
    let is_direct = state.channel(&channel)?.kind() == "im";
    let Some(thread) = call.optional("thread_ts") else {
        return Err("invalid_thread_ts".into());
    };
    if !is_direct {
        if call.optional("recipient_user_id").is_none() {
            return Err("missing_recipient_user_id".into());
        }
        if call.optional("recipient_team_id").is_none() {
            return Err("missing_recipient_team_id".into());
        }
    }
    let ts = state.next_ts(|| server.next_id());
    let mut message = chat::own_message(&ts, &SlackContent::default());
    message["thread_ts"] = json!(thread);
    message["is_streaming"] = json!(true);
    append_pieces(&mut message, call)?;
    state.add_message(&channel, message.clone())?;
    events::send_message_event(&mut state, &channel, &message);
    Ok(json!({"channel": channel, "ts": ts}))
}

pub(super) fn append(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let (channel, ts) = (call.text("channel"), call.text("ts"));
    if call.optional("markdown_text").is_none() && !call.json("chunks").is_array() {
        return Err("no_text".into());
    }
    let mut state = server.slack.lock();
    let message = streaming(state.message(&channel, &ts)?)?;
    append_pieces(message, call)?;
    Ok(json!({"channel": channel, "ts": ts}))
}

pub(super) fn stop(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let (channel, ts) = (call.text("channel"), call.text("ts"));
    let blocks = chat::read_blocks(&call.json("blocks"))?;
    let mut state = server.slack.lock();
    let message = streaming(state.message(&channel, &ts)?)?;
    append_pieces(message, call)?;
    message["is_streaming"] = json!(false);
    if !blocks.is_empty() {
        message["blocks"] = json!(blocks);
    }
    let message = message.clone();
    if let Some(status) = call.optional("session_status") {
        let thread = message["thread_ts"].as_str().unwrap_or_default().to_owned();
        state
            .session_status
            .insert((channel.clone(), thread), status);
    }
    events::send_change_event(&mut state, &channel, &message, &message);
    Ok(json!({"channel": channel, "ts": ts, "message": message}))
}

fn streaming(message: &mut Value) -> Result<&mut Value, &'static str> {
    let message = chat::own(message, "message_not_owned_by_app")?;
    if message["is_streaming"] == true {
        Ok(message)
    } else {
        Err("message_not_in_streaming_state")
    }
}

/// Adds text and tasks, given as one text or as chunks. A stream takes one of the two ways.
fn append_pieces(message: &mut Value, call: &SlackArguments<'_>) -> Result<(), &'static str> {
    let chunks = call.json("chunks");
    let chunks = match (&chunks, call.optional("markdown_text")) {
        (Value::Array(_), Some(_)) => return Err("streaming_mode_mismatch"),
        (Value::Array(chunks), None) => {
            set_mode(message, "chunks")?;
            chunks.clone()
        }
        (_, Some(text)) => {
            set_mode(message, "text")?;
            vec![json!({"type": "markdown_text", "text": text})]
        }
        _ => return Ok(()),
    };
    for chunk in &chunks {
        append_chunk(message, chunk)?;
    }
    Ok(())
}

fn set_mode(message: &mut Value, mode: &str) -> Result<(), &'static str> {
    if !message["stream_mode"].is_null() && message["stream_mode"] != mode {
        return Err("streaming_mode_mismatch");
    }
    message["stream_mode"] = json!(mode);
    Ok(())
}

fn append_chunk(message: &mut Value, chunk: &Value) -> Result<(), &'static str> {
    match chunk["type"].as_str() {
        Some("markdown_text") => {
            let piece = chunk["text"].as_str().ok_or("invalid_chunks")?;
            let text = message["text"].as_str().unwrap_or_default();
            let text = format!("{text}{piece}");
            if text.chars().count() > MAX_CHARS {
                return Err("msg_too_long");
            }
            message["text"] = json!(text);
            message["stream_markdown"] = json!(text);
        }
        Some("task_update") => {
            let status = chunk["status"].as_str().unwrap_or_default();
            let is_known = ["pending", "in_progress", "complete", "error"].contains(&status);
            let has_title = chunk["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty());
            if !is_known || !has_title || !chunk["id"].is_string() {
                return Err("invalid_chunks");
            }
            let mut tasks = message["tasks"].as_array().cloned().unwrap_or_default();
            tasks.retain(|task| task["id"] != chunk["id"]);
            tasks.push(chunk.clone());
            message["tasks"] = json!(tasks);
        }
        Some("plan_update" | "blocks") => {}
        _ => return Err("invalid_chunks"),
    }
    Ok(())
}

/// `agents.sessions.setStatus`.
pub(super) fn set_session_status(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    if !server.slack.lock().scopes.contains("assistant:write") {
        // Only an app that is declared as an agent has sessions, and that gives it the scope.
        return Err("not_allowed".into());
    }
    let status = call.text("status");
    if !["active", "processing", "suspended", "closed"].contains(&status.as_str()) {
        return Err("invalid_arguments".into());
    }
    store_status(server, call, &status)
}

/// `assistant.threads.setStatus`: an empty text removes it.
pub(super) fn set_thread_status(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    store_status(server, call, &call.text("status"))
}

fn store_status(server: &PlatformState, call: &SlackArguments<'_>, status: &str) -> SlackReply {
    let channel = call.text("channel_id");
    let Some(thread) = call.optional("thread_ts") else {
        return Err("invalid_thread_ts".into());
    };
    let mut state = server.slack.lock();
    state.channel(&channel)?;
    state
        .session_status
        .insert((channel, thread), status.to_owned());
    Ok(json!({"status": status}))
}
