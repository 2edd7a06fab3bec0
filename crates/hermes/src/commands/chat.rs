//! `hermes chat`: a conversation at the terminal, one question with -q or -z, or lines from a pipe.

use std::io::IsTerminal;

use crate::{cli::ChatArgs, context::Context, failure::Failure, logging};

mod answer;
mod call;
mod command;
mod image;
mod interactive;
mod interrupt;
mod lines;
mod mentions;
mod once;
mod progress;
mod prompt;
mod slash;
mod start;
mod tools;

/// How the conversation is held.
enum Manner {
    /// One message, then the end.
    Once(once::Question),
    /// A message per line of stdin.
    Lines,
    /// With a person at the terminal.
    Interactive,
}

pub(super) fn run(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    if args.ignore_user_config && !context.is_config_left_aside() {
        return run(&context.without_config(), args);
    }
    let manner = manner(context, args)?;
    if logging::is_asked() && !matches!(manner, Manner::Interactive) {
        logging::to_stderr_if_asked()?;
    } else {
        logging::to_file(&context.home)?;
    }
    match manner {
        Manner::Once(question) => context.run_to_end(once::run(context, args, question)),
        Manner::Lines => context.run_to_end(lines::run(context, args)),
        Manner::Interactive => interactive::run(context, args),
    }
}

fn manner(context: &Context, args: &ChatArgs) -> Result<Manner, Failure> {
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
        (Some(text), None) if context.output.is_json() => Some((text, once::Report::Json)),
        (Some(text), None) if args.quiet => Some((text, once::Report::AnswerAndId)),
        (Some(text), None) => Some((text, once::Report::Everything)),
        (None, Some(text)) => Some((text, once::Report::Answer)),
        (None, None) => None,
    };
    if let Some((text, report)) = question {
        return Ok(Manner::Once(once::Question::read(text, report)?));
    }
    if !std::io::stdin().is_terminal() {
        return Ok(Manner::Lines);
    }
    if std::io::stdout().is_terminal() {
        return Ok(Manner::Interactive);
    }
    Err(
        Failure::usage("a conversation needs a terminal, and stdout is not one")
            .hint("one message goes with `hermes -q TEXT`"),
    )
}
