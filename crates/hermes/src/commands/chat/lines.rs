//! A conversation over a pipe: every line of stdin is a message or a command.

use std::sync::Arc;

use hermes_agent::{
    approval::DenyAllApprover,
    conversation::{Consent, Conversation, ConversationError, TitleSource},
    message::Content,
    turn::TurnEnd,
};
use hermes_mcp::RememberedTools;
use hermes_store::EndReason;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio_util::sync::CancellationToken;

use super::{
    once,
    progress::{ProgressDetail, TurnProgress},
    start,
};
use crate::{
    cli::ChatArgs,
    commands::{
        chat,
        chat::{
            attachments,
            commands::{NextStep, PendingMessage, SlashCommand},
        },
    },
    context::Context,
    failure::{Failure, FailureKind},
    server_requests::ServerRequests,
};

pub(super) async fn run(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    let cancel = CancellationToken::new();
    let work = async {
        let settings = start::chat_settings(context, args)?;
        let answers = ServerRequests::without_person(context, &settings);
        answers.expect_model();
        let remembered = RememberedTools::Hidden;
        let agent = start::start_agent(context, settings, answers.handler(), remembered).await?;
        let begun = async {
            let mut setup =
                start::conversation_setup(context, args, Consent::Ask(Arc::new(DenyAllApprover)))?;
            setup.titles = TitleSource::Manual;
            start::open_conversation(&agent, args, setup).await
        };
        let outcome = match begun.await {
            Ok(mut conversation) => {
                let outcome =
                    run_conversation(context, args, &mut conversation, &answers, &cancel).await;
                let closed = conversation.close(EndReason::CliClose).await;
                outcome.and(closed.map_err(|error| start::conversation_failure(&error)))
            }
            Err(failure) => Err(failure),
        };
        start::stop_agent(&agent).await;
        outcome
    };
    chat::cancel_on_interrupt(&cancel, work).await
}

async fn run_conversation(
    context: &Context,
    args: &ChatArgs,
    conversation: &mut Conversation,
    answers: &ServerRequests,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let mut mentions = attachments::for_conversation(conversation);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut has_waited = false;
    let mut has_failed = false;
    let mut pending = PendingMessage::default();
    for path in &args.image {
        pending.parts.push(attachments::read_image(path)?);
    }
    while let Some(line) = read_message(&mut lines, cancel).await? {
        if !has_waited {
            let wanted = once::ServerNeed::Servers;
            once::wait_for_servers(context, conversation, wanted, cancel).await?;
            has_waited = true;
        }
        let outcome = if let Some(slash) = SlashCommand::parse(&line) {
            let ran = once::command(context, conversation, answers, &mut pending, slash, cancel);
            match ran.await {
                Ok(done) => {
                    if !done.text.is_empty() {
                        once::print_text(context, &done.text);
                    }
                    match done.next {
                        NextStep::Quit => break,
                        NextStep::SendMessage(message) => {
                            run_turn(context, args, conversation, answers, message, cancel).await
                        }
                        _ => Ok(()),
                    }
                }
                Err(failure) => Err(failure),
            }
        } else {
            let options = attachments::call_options(conversation, cancel);
            let warn = |text: &str| context.output.warning(text);
            let message = pending.take_message(&line);
            let message =
                attachments::attach_mentions(mentions.as_mut(), message, &options, warn).await;
            run_turn(context, args, conversation, answers, message, cancel).await
        };
        match outcome {
            Ok(()) => {}
            // Further lines would meet the same end.
            Err(failure)
                if failure.is_printed
                    || matches!(failure.kind, FailureKind::Interrupted | FailureKind::Usage) =>
            {
                return Err(failure);
            }
            Err(failure) => {
                context.output.failure(&failure);
                has_failed = true;
            }
        }
    }
    if has_failed {
        return Err(Failure::new(FailureKind::AlreadyPrinted, "a line failed"));
    }
    Ok(())
}

/// The next line with something on it. A stroke at the end joins the next one.
async fn read_message(
    lines: &mut Lines<BufReader<Stdin>>,
    cancel: &CancellationToken,
) -> Result<Option<String>, Failure> {
    let mut message = String::new();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            () = cancel.cancelled() => return Err(Failure::interrupted()),
        };
        let Some(line) = line else {
            return Ok((!message.trim().is_empty()).then_some(message));
        };
        if let Some(begun) = line.strip_suffix('\\') {
            message.push_str(begun);
            message.push('\n');
            continue;
        }
        message.push_str(&line);
        if !message.trim().is_empty() {
            return Ok(Some(message));
        }
        message.clear();
    }
}

async fn run_turn(
    context: &Context,
    args: &ChatArgs,
    conversation: &mut Conversation,
    answers: &ServerRequests,
    message: Content,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let detail = if args.verbose {
        ProgressDetail::Verbose
    } else {
        ProgressDetail::Line
    };
    let model = conversation.find_model().await;
    for note in conversation.take_notes() {
        context.output.note(note);
    }
    let mut progress = TurnProgress::new(context.output, detail);
    let answered = match model {
        Ok(selection) => {
            answers.set_model(&selection);
            conversation
                .send_user_message(message, &mut progress, cancel.clone())
                .await
        }
        Err(error) => Err(error),
    };
    progress.end_line();
    match answered {
        Ok(answer) if answer.end == TurnEnd::Interrupted => Err(Failure::interrupted()),
        Ok(_) => Ok(()),
        Err(error @ ConversationError::NoModel(_)) => {
            let failure = start::conversation_failure(&error);
            context.output.failure(&failure);
            Err(failure.mark_printed())
        }
        Err(error) => Err(start::conversation_failure(&error)),
    }
}
