//! `hermes send`: one message to a chat of a platform.

use std::{
    fs,
    io::{IsTerminal as _, Read as _, stdin},
    path::Path,
};

use hermes_gateway::send::{MediaPolicy, MessageSender, SentMessage};
use serde_json::json;

use super::channels;
use crate::{cli::SendArgs, context::Context, failure::Failure};

pub(super) fn run(context: &Context, args: &SendArgs) -> Result<(), Failure> {
    if let Some(platform) = &args.list {
        return context.block_on(channels::list(context, platform.as_deref()));
    }
    let target = args.to.as_deref().unwrap_or_default();
    let message = read_message(args)?;
    let sender = MessageSender::new(&context.home, &context.written_settings()?);
    let sent = context.block_on(async {
        let sent = sender.send(target, &message, MediaPolicy::Upload).await;
        sent.map_err(Failure::from)
    })?;
    let output = context.output;
    for warning in &sent.warnings {
        output.warning(warning);
    }
    if !args.quiet {
        output.line(receipt(&sent));
        output.json(json!(sent));
    }
    Ok(())
}

/// What to send, from wherever it comes.
fn read_message(args: &SendArgs) -> Result<String, Failure> {
    let text = match (&args.message, &args.file) {
        (Some(message), _) => message.clone(),
        (None, Some(path)) if path != Path::new("-") => {
            fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("`{}` cannot be read: {error}", path.display()))
            })?
        }
        (None, None) if stdin().is_terminal() => {
            return Err(Failure::usage("there is no message")
                .hint("give it as an argument, in a file with `-f`, or on stdin"));
        }
        _ => read_stdin()?,
    };
    let text = text.trim_end();
    if text.is_empty() {
        return Err(Failure::usage("the message is empty"));
    }
    Ok(match &args.subject {
        Some(subject) => format!("{subject}\n\n{}", text.trim_start()),
        None => text.to_owned(),
    })
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("stdin cannot be read: {error}")))?;
    Ok(text)
}

fn receipt(sent: &SentMessage) -> String {
    if let Some(note) = &sent.note {
        return format!("{note}.");
    }
    let thread = sent.thread_id.as_ref().map(|thread| format!(":{thread}"));
    format!(
        "Sent to {}:{}{} (message {}).",
        sent.platform,
        sent.chat_id,
        thread.unwrap_or_default(),
        sent.message_id
    )
}
