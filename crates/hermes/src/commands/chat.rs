//! `hermes chat`: a conversation at the terminal, one question with -q or -z, or lines from a pipe.

use std::io::IsTerminal;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{cli::ChatArgs, context::Context, failure::Failure, logging, telemetry};

mod attachments;
mod call;
mod commands;
pub(crate) mod editor;
mod interactive;
mod json_report;
mod lines;
mod once;
mod progress;
mod prompts;
mod rendering;
pub(crate) mod screen;
mod start;

/// How the conversation is held.
enum ChatMode {
    /// One message, then the end.
    Once(once::OneShotQuestion),
    /// A message per line of stdin.
    Lines,
    /// With a person at the terminal.
    Interactive,
}

pub(super) fn run(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    if args.ignore_user_config && !context.ignores_config() {
        return run(&context.without_config(), args);
    }
    let manner = choose_mode(context, args)?;
    telemetry::start_for_home("hermes").map_err(Failure::usage)?;
    if logging::is_requested() && !matches!(manner, ChatMode::Interactive) {
        logging::log_to_stderr_if_requested()?;
    } else {
        logging::log_to_file(&context.home)?;
    }
    match manner {
        ChatMode::Once(question) => context.run_to_end(once::run(context, args, question)),
        ChatMode::Lines => context.run_to_end(lines::run(context, args)),
        ChatMode::Interactive => interactive::run(context, args),
    }
}

fn choose_mode(context: &Context, args: &ChatArgs) -> Result<ChatMode, Failure> {
    if args.resume.is_some() && args.continued.is_some() {
        return Err(Failure::usage(
            "`--resume` and `--continue` both name a session",
        ));
    }
    let needs_query = [
        (args.quiet, "--quiet"),
        (context.output.is_json(), "--json"),
    ];
    if let (None, Some((_, flag))) = (&args.query, needs_query.iter().find(|(is_set, _)| *is_set)) {
        return Err(Failure::usage(format!("`{flag}` needs `-q TEXT`")));
    }
    if args.usage_file.is_some() && args.oneshot.is_none() {
        return Err(Failure::usage("`--usage-file` needs `-z TEXT`"));
    }
    let question = match (&args.query, &args.oneshot) {
        (Some(_), Some(_)) => return Err(Failure::usage("give the message once: `-q` or `-z`")),
        (Some(text), None) if context.output.is_json() => Some((text, once::ReportFormat::Json)),
        (Some(text), None) if args.quiet => Some((text, once::ReportFormat::AnswerAndId)),
        (Some(text), None) => Some((text, once::ReportFormat::Everything)),
        (None, Some(text)) => Some((text, once::ReportFormat::Answer)),
        (None, None) => None,
    };
    if let Some((text, report)) = question {
        return Ok(ChatMode::Once(once::OneShotQuestion::read(text, report)?));
    }
    if !std::io::stdin().is_terminal() {
        return Ok(ChatMode::Lines);
    }
    if std::io::stdout().is_terminal() {
        return Ok(ChatMode::Interactive);
    }
    Err(
        Failure::usage("a conversation needs a terminal, and stdout is not one")
            .hint("one message goes with `hermes -q TEXT`"),
    )
}

/// Does the work, which ends in order once `cancel` is cancelled.
fn cancel_on_interrupt<'a, T: 'a>(
    cancel: &'a CancellationToken,
    work: impl Future<Output = Result<T, Failure>> + 'a,
) -> impl Future<Output = Result<T, Failure>> + 'a {
    // Boxed, since a whole conversation is a large future.
    let mut work = Box::pin(work);
    async move {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            if cancel.is_cancelled() {
                return Err(Failure::interrupted());
            }
            cancel.cancel();
        }
    }
}
