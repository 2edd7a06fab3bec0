//! Sessions: begin one, list them, go on with another, name it, take turns back.

use std::fmt::Write as _;

use hermes_agent::{
    compact::CompactionOutcome,
    conversation::{ConversationError, SessionReference},
    turn::TurnEvent,
};
use hermes_store::{EndReason, NewSession, SessionId, SessionOrder, SessionQuery, SessionSummary};
use jiff::Zoned;

use super::{ChatContext, CommandOutcome, transcript};
use crate::{
    commands::{
        chat::{rendering::wrap, start},
        state::{format_span, pluralize, unix_now},
    },
    failure::Failure,
};

/// How many sessions are listed.
const MAX_LISTED: u32 = 15;
/// How much of a resumed session is shown.
const RECALLED_MESSAGES: usize = 6;

#[expect(
    clippy::needless_pass_by_value,
    reason = "errors are handed on as they come"
)]
fn conversation_failure(error: ConversationError) -> Failure {
    start::conversation_failure(&error)
}

pub(super) async fn new(
    chat: &mut ChatContext<'_>,
    title: &str,
) -> Result<CommandOutcome, Failure> {
    let row = NewSession::new(SessionId::for_cli(&Zoned::now()), "cli");
    let begun = chat
        .conversation
        .start_new_session(row, EndReason::NewSession);
    begun.await.map_err(conversation_failure)?;
    *chat.pending = super::PendingMessage::default();
    let mut text = format!("A new session: {}", chat.conversation.id());
    if !title.is_empty() {
        let title = chat
            .conversation
            .set_title(title)
            .await
            .map_err(conversation_failure)?;
        let _ = write!(text, " \"{}\"", title.unwrap_or_default());
    }
    Ok(CommandOutcome::text(text))
}

pub(super) async fn list(chat: &ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let query = SessionQuery {
        order: SessionOrder::Active,
        limit: MAX_LISTED,
        ..SessionQuery::default()
    };
    let sessions = chat
        .conversation
        .agent()
        .store()
        .list_sessions(&query)
        .await?;
    let current = chat.conversation.id();
    Ok(CommandOutcome::text(render_table(
        &sessions,
        current,
        unix_now(),
        chat.screen.width(),
    )))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds since 1970"
)]
fn render_table(
    sessions: &[SessionSummary],
    current: &SessionId,
    now: u64,
    width: usize,
) -> String {
    if sessions.is_empty() {
        return "There is no session yet.".to_owned();
    }
    let mut text = String::new();
    for summary in sessions {
        let session = &summary.session;
        let mark = if session.id == *current { '*' } else { ' ' };
        let age = format_span(now.saturating_sub(summary.last_active as u64));
        let messages = pluralize(
            usize::try_from(session.message_count).unwrap_or(0),
            "message",
        );
        let name = session.title.as_deref().unwrap_or(&summary.preview);
        let line = format!(
            "{mark} {:<24} {:>9}  {messages:<13} {:<9} {}",
            session.id.as_str(),
            format!("{age} ago"),
            session.source,
            wrap::first_line(name, width),
        );
        let _ = writeln!(text, "{}", wrap::truncate_line(line.trim_end(), width));
    }
    text.push_str("`/resume SESSION` resumes one; the beginning of an id is enough.");
    text
}

pub(super) async fn resume(
    chat: &mut ChatContext<'_>,
    reference: &str,
) -> Result<CommandOutcome, Failure> {
    if reference.is_empty() {
        return list(chat).await;
    }
    let which = SessionReference::Named(reference.to_owned());
    let switched = chat
        .conversation
        .switch_session(&which, EndReason::ResumedOther);
    if let Err(error) = switched.await {
        return Err(start::resume_failure(chat.conversation.agent(), &error).await);
    }
    *chat.pending = super::PendingMessage::default();
    Ok(CommandOutcome::text(describe_resumed(chat).await?))
}

/// Where a resumed session stands.
pub(in crate::commands::chat) async fn describe_resumed(
    chat: &ChatContext<'_>,
) -> Result<String, Failure> {
    let session = chat
        .conversation
        .session()
        .await
        .map_err(conversation_failure)?;
    let title = session.and_then(|session| session.title);
    let messages = chat.conversation.messages();
    let mut text = format!("Resumed {}", chat.conversation.id());
    if let Some(title) = title {
        let _ = write!(text, " \"{}\"", wrap::first_line(&title, 80));
    }
    let _ = writeln!(text, ", {}.", pluralize(messages.len(), "message"));
    text.push_str(&transcript::render_last(
        messages,
        RECALLED_MESSAGES,
        chat.screen.paint(),
        chat.screen.width(),
    ));
    Ok(text.trim_end().to_owned())
}

pub(super) async fn title(
    chat: &mut ChatContext<'_>,
    title: &str,
) -> Result<CommandOutcome, Failure> {
    if title.is_empty() {
        let session = chat
            .conversation
            .session()
            .await
            .map_err(conversation_failure)?;
        let title = session.and_then(|session| session.title);
        return Ok(CommandOutcome::text(title.map_or_else(
            || "The session has no title; `/title TEXT` gives it one.".to_owned(),
            |title| wrap::first_line(&title, 200),
        )));
    }
    let title = chat
        .conversation
        .set_title(title)
        .await
        .map_err(conversation_failure)?;
    Ok(CommandOutcome::text(format!(
        "The title is \"{}\".",
        title.unwrap_or_default()
    )))
}

pub(super) async fn undo(
    chat: &mut ChatContext<'_>,
    turns: &str,
) -> Result<CommandOutcome, Failure> {
    let turns = match turns {
        "" => 1,
        number => number
            .parse()
            .ok()
            .filter(|turns| *turns > 0)
            .ok_or_else(|| {
                Failure::usage(format!("`{number}` is not a number of turns")).hint("`/undo 2`")
            })?,
    };
    let undone = chat
        .conversation
        .undo(turns)
        .await
        .map_err(conversation_failure)?;
    let prompt = wrap::first_line(&undone.prompt.text(), 80);
    let turns = pluralize(undone.turns as usize, "turn");
    Ok(CommandOutcome::text(format!(
        "Undid {turns}, from \"{prompt}\" on."
    )))
}

pub(super) async fn compress(chat: &mut ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let screen = chat.screen.clone();
    let mut display = |event: TurnEvent| screen.show(&event);
    chat.screen.begin_turn();
    let ran = chat
        .conversation
        .compress(&mut display, chat.cancel.clone())
        .await;
    chat.screen.end_turn();
    match ran.map_err(conversation_failure)? {
        CompactionOutcome::Compacted => Ok(CommandOutcome::text("")),
        CompactionOutcome::Nothing => {
            Ok(CommandOutcome::text("There is nothing to summarize yet."))
        }
        CompactionOutcome::Interrupted => Err(Failure::interrupted()),
    }
}
