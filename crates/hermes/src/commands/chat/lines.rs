//! A conversation over a pipe: every line of stdin is a message or a command.

use std::sync::Arc;

use hermes_agent::{
    approval::NobodyDecides,
    conversation::{Consent, Conversation, ConversationError, Titles},
    message::Content,
    turn::TurnEnd,
};
use hermes_mcp::RememberedTools;
use hermes_store::EndReason;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio_util::sync::CancellationToken;

use super::{
    command::{Desk, Next},
    image, interrupt, mentions, once,
    progress::{Detail, Progress},
    slash::Slash,
    start,
};
use crate::{
    answers::Answers,
    cli::ChatArgs,
    context::Context,
    failure::{Failure, Kind},
};

pub(super) async fn run(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    let cancel = CancellationToken::new();
    let work = async {
        let settings = start::settings(context, args)?;
        let answers = Answers::without_person(context, &settings);
        answers.expect_model();
        let remembered = RememberedTools::Hidden;
        let agent = start::agent(context, settings, answers.inquiries(), remembered).await?;
        let begun = async {
            let mut setup = start::setup(context, args, Consent::Ask(Arc::new(NobodyDecides)))?;
            setup.titles = Titles::ByHand;
            start::conversation(&agent, args, setup).await
        };
        let outcome = match begun.await {
            Ok(mut conversation) => {
                let outcome = converse(context, args, &mut conversation, &answers, &cancel).await;
                let closed = conversation.close(EndReason::CliClose).await;
                outcome.and(closed.map_err(|error| start::failure(&error)))
            }
            Err(failure) => Err(failure),
        };
        start::stop(&agent).await;
        outcome
    };
    interrupt::listening(&cancel, work).await
}

async fn converse(
    context: &Context,
    args: &ChatArgs,
    conversation: &mut Conversation,
    answers: &Answers,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let mut mentions = mentions::of(conversation);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut has_waited = false;
    let mut has_failed = false;
    let mut desk = Desk::default();
    for path in &args.image {
        desk.parts.push(image::part(path)?);
    }
    while let Some(line) = next(&mut lines, cancel).await? {
        if !has_waited {
            let wanted = once::Wanted::Servers;
            once::wait_for_servers(context, conversation, wanted, cancel).await?;
            has_waited = true;
        }
        let outcome = if let Some(slash) = Slash::read(&line) {
            let ran = once::command(context, conversation, answers, &mut desk, slash, cancel);
            match ran.await {
                Ok(done) => {
                    if !done.text.is_empty() {
                        once::print_text(context, &done.text);
                    }
                    match done.next {
                        Next::Leave => break,
                        Next::Say(said) => {
                            say(context, args, conversation, answers, said, cancel).await
                        }
                        _ => Ok(()),
                    }
                }
                Err(failure) => Err(failure),
            }
        } else {
            let options = mentions::options(conversation, cancel);
            let warn = |text: &str| context.output.warning(text);
            let said = desk.message(&line);
            let said = mentions::complete(mentions.as_mut(), said, &options, warn).await;
            say(context, args, conversation, answers, said, cancel).await
        };
        match outcome {
            Ok(()) => {}
            // Further lines would meet the same end.
            Err(failure)
                if failure.is_told || matches!(failure.kind, Kind::Interrupted | Kind::Usage) =>
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
        return Err(Failure::new(Kind::Told, "a line failed"));
    }
    Ok(())
}

/// The next line with something on it. A stroke at the end joins the next one.
async fn next(
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

async fn say(
    context: &Context,
    args: &ChatArgs,
    conversation: &mut Conversation,
    answers: &Answers,
    said: Content,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let detail = if args.verbose {
        Detail::Verbose
    } else {
        Detail::Line
    };
    let found = conversation.find_model().await;
    for note in conversation.take_notes() {
        context.output.note(note);
    }
    let mut progress = Progress::new(context.output, detail);
    let answered = match found {
        Ok(selection) => {
            answers.use_model(&selection);
            conversation.say(said, &mut progress, cancel.clone()).await
        }
        Err(error) => Err(error),
    };
    progress.end_line();
    match answered {
        Ok(answer) if answer.end == TurnEnd::Interrupted => Err(Failure::interrupted()),
        Ok(_) => Ok(()),
        Err(error @ ConversationError::NoModel(_)) => {
            let failure = start::failure(&error);
            context.output.failure(&failure);
            Err(failure.told())
        }
        Err(error) => Err(start::failure(&error)),
    }
}
