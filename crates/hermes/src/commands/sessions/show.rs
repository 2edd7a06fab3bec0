//! `hermes sessions show`: a conversation to read.

use hermes_store::{MessageState, Role, Session, StoredMessage};
use serde_json::{Value, json};

use super::conversation::{self, message_json, session_json, shown_time};
use crate::{
    cli::SessionArgs,
    context::Context,
    failure::Failure,
    output::{Output, Tone, printable},
};

/// Results of tools are often long and seldom read.
const MAX_RESULT_LINES: usize = 10;
const MAX_ARGUMENTS_LENGTH: usize = 120;

pub(super) async fn run(context: &Context, args: &SessionArgs) -> Result<(), Failure> {
    let (store, session) = super::find_session(context, &args.id).await?;
    let messages = conversation::read_messages(&store, &session).await?;
    let output = context.output;
    output.line(render_header(output, &session));
    for message in &messages {
        output.line(format!("\n{}", render_message(output, message)));
    }
    if !output.is_json() && session.ended_at.is_none() && session.session_key.is_none() {
        output.note(format!(
            "\nContinue with: hermes chat --resume {}",
            session.id
        ));
    }
    let messages: Vec<Value> = messages.iter().map(message_json).collect();
    output.json(json!({"session": session_json(&session), "messages": messages}));
    Ok(())
}

fn render_header(output: Output, session: &Session) -> String {
    let title = session.title.as_deref().unwrap_or("(no title)");
    let mut facts = vec![session.source.clone()];
    facts.extend(session.display_name.clone());
    facts.extend(session.model.clone());
    facts.push(shown_time(session.started_at));
    facts.push(crate::commands::state::pluralize(
        usize::try_from(session.message_count).unwrap_or_default(),
        "message",
    ));
    let tokens = session.usage.input_tokens + session.usage.output_tokens;
    if tokens > 0 {
        facts.push(format!("{tokens} tokens"));
    }
    format!(
        "{}  {}\n{}",
        output.tint(Tone::Strong, session.id.as_str()),
        printable(title),
        output.tint(Tone::Faint, &printable(&facts.join(", "))),
    )
}

fn render_message(output: Output, message: &StoredMessage) -> String {
    let body = &message.body;
    let mut who = body.role.as_str().to_owned();
    if let Some(tool) = &body.tool_name {
        who = format!("{who} {tool}");
    }
    let mut lines = vec![format!(
        "{}  {}",
        output.tint(Tone::Strong, &printable(&who)),
        output.tint(Tone::Faint, &describe_time(message)),
    )];
    let text = conversation::message_text(message);
    let text = printable(&text);
    let most = if body.role == Role::Tool {
        MAX_RESULT_LINES
    } else {
        usize::MAX
    };
    let count = text.lines().count();
    lines.extend(text.lines().take(most).map(|line| format!("  {line}")));
    if count > most {
        let left = count - most;
        lines.push(output.tint(
            Tone::Faint,
            &format!("  … {left} more lines; `hermes sessions export` has all"),
        ));
    }
    for (name, arguments) in conversation::tool_calls(message) {
        let arguments: String = printable(&arguments)
            .replace('\n', " ")
            .chars()
            .take(MAX_ARGUMENTS_LENGTH)
            .collect();
        lines.push(format!("  → {} {arguments}", printable(&name)));
    }
    lines.join("\n")
}

fn describe_time(message: &StoredMessage) -> String {
    let time = shown_time(message.timestamp);
    match message.state {
        MessageState::Compacted => format!("{time}, summarized since"),
        _ => time,
    }
}
