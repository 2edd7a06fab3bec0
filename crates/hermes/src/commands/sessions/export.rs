//! `hermes sessions export`: a conversation for another program, or as a document.

use std::{fmt::Write as _, fs, io, path::Path};

use hermes_config::private_file::write_private;
use hermes_store::{Role, Session, StoredMessage};
use serde_json::{Value, json};

use super::conversation::{self, message_json, session_json, shown_time};
use crate::{
    cli::{ExportArgs, ExportFormat},
    context::Context,
    failure::Failure,
    output::printable,
};

pub(super) async fn run(context: &Context, args: &ExportArgs) -> Result<(), Failure> {
    let (store, session) = super::find_session(context, &args.id).await?;
    let messages = conversation::read_messages(&store, &session).await?;
    let text = match args.format {
        ExportFormat::Jsonl => json_lines(&session, &messages),
        ExportFormat::Markdown => render_markdown(&session, &messages),
    };
    let output = context.output;
    let file = args
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    if let Some(path) = file {
        // Conversations are private, so their file is, too.
        write_export(path, &text)
            .map_err(|error| Failure::failed(format!("`{}`: {error}", path.display())))?;
        let count = crate::commands::state::pluralize(messages.len(), "message");
        output.note(format!("{count} written to `{}`", path.display()));
        output.json(json!({
            "session": session.id.as_str(),
            "path": path,
            "messages": messages.len(),
        }));
    } else if output.is_json() {
        let messages: Vec<Value> = messages.iter().map(message_json).collect();
        output.json(json!({"session": session_with_prompt(&session), "messages": messages}));
    } else {
        output.raw(&text);
    }
    Ok(())
}

/// A device or a pipe is written to as it is. Everything else becomes a private file.
fn write_export(path: &Path, text: &str) -> io::Result<()> {
    let is_other = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if is_other || path.starts_with("/dev") {
        fs::write(path, text)
    } else {
        write_private(path, text.as_bytes())
    }
}

/// With what the model was told first.
fn session_with_prompt(session: &Session) -> Value {
    let mut object = session_json(session);
    object["system_prompt"] = json!(session.system_prompt);
    object
}

fn json_lines(session: &Session, messages: &[StoredMessage]) -> String {
    let mut text = format!("{}\n", json!({"session": session_with_prompt(session)}));
    for message in messages {
        // Writing to a text does not fail.
        let _ = writeln!(text, "{}", message_json(message));
    }
    text
}

fn render_markdown(session: &Session, messages: &[StoredMessage]) -> String {
    let title = session.title.as_deref().unwrap_or(session.id.as_str());
    let model = session.model.as_deref().unwrap_or("no model");
    let mut text = format!(
        "# {}\n\n`{}`, {}, {}, {}\n",
        printable(title),
        session.id,
        printable(&session.source),
        printable(model),
        shown_time(session.started_at),
    );
    for message in messages {
        let body = &message.body;
        let words = conversation::message_text(message);
        let words = printable(&words);
        let name = body.tool_name.as_deref().unwrap_or("tool");
        let heading = match &body.role {
            Role::User => "User".to_owned(),
            Role::Assistant => "Assistant".to_owned(),
            Role::Tool => format!("Result of `{}`", printable(name)),
            Role::System => "System".to_owned(),
            Role::Other(role) => printable(role).into_owned(),
        };
        let _ = write!(text, "\n## {heading}\n");
        if body.role == Role::Tool {
            let _ = write!(text, "\n{}", fenced(&words, ""));
        } else if !words.trim().is_empty() {
            let _ = writeln!(text, "\n{}", words.trim_end());
        }
        for (name, arguments) in conversation::tool_calls(message) {
            let _ = write!(
                text,
                "\nCalls `{}`:\n\n{}",
                printable(&name),
                fenced(&printable(&arguments), "json")
            );
        }
    }
    text
}

/// A block of code whose fence is longer than any in it.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_those_in_the_text() {
        assert_eq!(fenced("x", "json"), "```json\nx\n```\n");
        assert_eq!(fenced("a\n````\nb", ""), "`````\na\n````\nb\n`````\n");
    }
}
