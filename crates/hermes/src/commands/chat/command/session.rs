//! Sessions: begin one, list them, go on with another, name it, take turns back.

use std::fmt::Write as _;

use hermes_agent::{
    compact::Ran,
    conversation::{ConversationError, Which},
    turn::TurnEvent,
};
use hermes_store::{EndReason, NewSession, SessionId, SessionOrder, SessionQuery, SessionSummary};
use jiff::Zoned;

use super::{Done, Room, transcript};
use crate::{
    chat::strip,
    commands::{
        chat::start,
        state::{count, now, span},
    },
    failure::Failure,
};

/// How many sessions are listed.
const LISTED: u32 = 15;
/// How much of a resumed session is shown.
const RECALLED: usize = 6;

#[expect(
    clippy::needless_pass_by_value,
    reason = "errors are handed on as they come"
)]
fn failure(error: ConversationError) -> Failure {
    start::failure(&error)
}

pub(super) async fn new(room: &mut Room<'_>, title: &str) -> Result<Done, Failure> {
    let row = NewSession::new(SessionId::for_cli(&Zoned::now()), "cli");
    let begun = room.conversation.start_over(row, EndReason::NewSession);
    begun.await.map_err(failure)?;
    *room.desk = super::Desk::default();
    let mut text = format!("A new session: {}", room.conversation.id());
    if !title.is_empty() {
        let title = room.conversation.set_title(title).await.map_err(failure)?;
        let _ = write!(text, " \"{}\"", title.unwrap_or_default());
    }
    Ok(Done::text(text))
}

pub(super) async fn list(room: &Room<'_>) -> Result<Done, Failure> {
    let query = SessionQuery {
        order: SessionOrder::Active,
        limit: LISTED,
        ..SessionQuery::default()
    };
    let sessions = room
        .conversation
        .agent()
        .store()
        .list_sessions(&query)
        .await?;
    let current = room.conversation.id();
    Ok(Done::text(table(
        &sessions,
        current,
        now(),
        room.screen.width(),
    )))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds since 1970"
)]
fn table(sessions: &[SessionSummary], current: &SessionId, now: u64, width: usize) -> String {
    if sessions.is_empty() {
        return "There is no session yet.".to_owned();
    }
    let mut text = String::new();
    for summary in sessions {
        let session = &summary.session;
        let mark = if session.id == *current { '*' } else { ' ' };
        let age = span(now.saturating_sub(summary.last_active as u64));
        let messages = count(
            usize::try_from(session.message_count).unwrap_or(0),
            "message",
        );
        let name = session.title.as_deref().unwrap_or(&summary.preview);
        let line = format!(
            "{mark} {:<24} {:>9}  {messages:<13} {:<9} {}",
            session.id.as_str(),
            format!("{age} ago"),
            session.source,
            strip::one_line(name, width),
        );
        let _ = writeln!(text, "{}", strip::cut(line.trim_end(), width));
    }
    text.push_str("`/resume SESSION` goes on with one; the beginning of an id is enough.");
    text
}

pub(super) async fn resume(room: &mut Room<'_>, reference: &str) -> Result<Done, Failure> {
    if reference.is_empty() {
        return list(room).await;
    }
    let which = Which::Named(reference.to_owned());
    let switched = room.conversation.switch(&which, EndReason::ResumedOther);
    if let Err(error) = switched.await {
        return Err(start::resume_failure(room.conversation.agent(), &error).await);
    }
    *room.desk = super::Desk::default();
    Ok(Done::text(recall(room).await?))
}

/// Where a resumed session stands.
pub(in crate::commands::chat) async fn recall(room: &Room<'_>) -> Result<String, Failure> {
    let session = room.conversation.session().await.map_err(failure)?;
    let title = session.and_then(|session| session.title);
    let messages = room.conversation.messages();
    let mut text = format!("Going on with {}", room.conversation.id());
    if let Some(title) = title {
        let _ = write!(text, " \"{}\"", strip::one_line(&title, 80));
    }
    let _ = writeln!(text, ", {}.", count(messages.len(), "message"));
    text.push_str(&transcript::last(
        messages,
        RECALLED,
        room.screen.paint(),
        room.screen.width(),
    ));
    Ok(text.trim_end().to_owned())
}

pub(super) async fn title(room: &mut Room<'_>, title: &str) -> Result<Done, Failure> {
    if title.is_empty() {
        let session = room.conversation.session().await.map_err(failure)?;
        let title = session.and_then(|session| session.title);
        return Ok(Done::text(title.map_or_else(
            || "The session has no title; `/title TEXT` gives it one.".to_owned(),
            |title| strip::one_line(&title, 200),
        )));
    }
    let title = room.conversation.set_title(title).await.map_err(failure)?;
    Ok(Done::text(format!(
        "The title is \"{}\".",
        title.unwrap_or_default()
    )))
}

pub(super) async fn undo(room: &mut Room<'_>, turns: &str) -> Result<Done, Failure> {
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
    let undone = room.conversation.undo(turns).await.map_err(failure)?;
    let prompt = strip::one_line(&undone.prompt.text(), 80);
    let turns = count(undone.turns as usize, "turn");
    Ok(Done::text(format!(
        "Took back {turns}, from \"{prompt}\" on."
    )))
}

pub(super) async fn compress(room: &mut Room<'_>) -> Result<Done, Failure> {
    let screen = room.screen.clone();
    let mut display = |event: TurnEvent| screen.show(&event);
    room.screen.begin_turn();
    let ran = room
        .conversation
        .compress(&mut display, room.cancel.clone())
        .await;
    room.screen.end_turn();
    match ran.map_err(failure)? {
        Ran::Compacted => Ok(Done::text("")),
        Ran::Nothing => Ok(Done::text("There is nothing to make shorter yet.")),
        Ran::Interrupted => Err(Failure::interrupted()),
    }
}
