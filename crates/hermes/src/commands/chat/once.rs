//! One message and its answer: -q and -z.

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_agent::{
    approval::{NobodyDecides, Published},
    conversation::{Agent, Answer, Consent, Conversation, Display, Titles},
    turn::{TurnEnd, TurnEvent},
};
use hermes_config::{ServerName, Settings};
use hermes_mcp::RememberedTools;
use hermes_store::EndReason;
use tokio_util::sync::CancellationToken;

use super::{
    answer, call,
    command::{self, Desk, Done, Next, Room},
    image, interrupt, mentions,
    progress::{Detail, Progress},
    prompt,
    slash::Slash,
    start,
};
use crate::{
    answers::Answers,
    chat::{
        consent,
        floor::{Floor, Presence},
        screen::{self, Screen},
    },
    cli::ChatArgs,
    commands::state::count,
    context::Context,
    failure::Failure,
    output::printable,
    question::Questions,
};

/// How long a failed attempt may take to report its failure.
const FAILING: Duration = Duration::from_secs(5);
/// Waits shorter than this show no progress line.
const SHOWN_AFTER: Duration = Duration::from_millis(300);

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The question, the calls, the answer as it comes, and how to go on.
    Everything,
    /// The answer, and the session's id on stderr.
    AnswerAndId,
    Answer,
    /// One object.
    Json,
}

/// What is asked, and how the answer is printed.
pub(super) struct Question {
    text: String,
    report: Report,
}

impl Question {
    /// Takes the text from stdin if it is `-`.
    pub(super) fn read(text: &str, report: Report) -> Result<Self, Failure> {
        let text = if text == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        } else {
            text.to_owned()
        };
        if text.trim().is_empty() {
            return Err(Failure::usage("the message is empty"));
        }
        Ok(Self { text, report })
    }
}

pub(super) async fn run(
    context: &Context,
    args: &ChatArgs,
    question: Question,
) -> Result<(), Failure> {
    let cancel = CancellationToken::new();
    let work = async {
        let mut settings = start::settings(context, args)?;
        start::leave_out_unused_servers(args, &mut settings);
        if let Some(text) = call_by_running(context, &settings, &question).await? {
            print_called(context, &question, &text);
            return Ok(());
        }
        let answers = Answers::without_person(context, &settings);
        answers.expect_model();
        let remembered = RememberedTools::Offered;
        let agent = start::agent(context, settings, answers.inquiries(), remembered).await?;
        let outcome = converse(context, args, &question, &agent, &answers, &cancel).await;
        start::stop(&agent).await;
        outcome
    };
    let outcome = interrupt::listening(&cancel, work).await;
    match outcome {
        Err(failure) if question.report == Report::Json && !failure.is_told => {
            context
                .output
                .object(&answer::object(None, Err(&failure), None));
            Err(failure.told())
        }
        outcome => outcome,
    }
}

/// The result of a `/call`, if a running process has the server: nothing is started for it then.
async fn call_by_running(
    context: &Context,
    settings: &Settings,
    question: &Question,
) -> Result<Option<String>, Failure> {
    match Slash::read(&question.text) {
        Some(slash) if slash.name == "call" && !context.is_safe_mode() => {
            call::by_running(context, settings, slash.rest).await
        }
        _ => Ok(None),
    }
}

/// Shows what a tool said, as the conversation's own command does.
fn print_called(context: &Context, question: &Question, text: &str) {
    if question.report == Report::Json {
        let tally = hermes_agent::conversation::Tally::default();
        let object = answer::object(None, Ok(text), Some(&tally));
        context.output.object(&object);
    } else {
        print_text(context, text);
    }
}

async fn converse(
    context: &Context,
    args: &ChatArgs,
    question: &Question,
    agent: &Agent,
    answers: &Answers,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let person = person(context, cancel);
    let consent = match &person {
        Some(person) => Consent::Ask(person.clone()),
        None => Consent::Ask(Arc::new(NobodyDecides)),
    };
    let mut setup = start::setup(context, args, consent)?;
    // A title would cost a further call of the model, and nobody is there to see it.
    setup.titles = Titles::ByHand;
    let wanted_rules = setup.project_rules;
    let mut conversation = start::conversation(agent, args, setup).await?;
    if question.report == Report::Everything && Slash::read(&question.text).is_none() {
        let rules = start::project_rules(&conversation, wanted_rules).await;
        if let Some(rules) = rules {
            context.output.note(format!("rules: {}", rules.notice()));
        }
    }
    let asked = ask(context, args, question, &mut conversation, answers, cancel).await;
    let model = conversation.model();
    let tally = conversation.last_tally().cloned();
    let id = conversation.is_stored().then(|| conversation.id().clone());
    let closed = conversation.close(EndReason::CliClose).await;
    if let Some(person) = person {
        person.close().await;
    }
    let answer = asked.and_then(|answer| match closed {
        Ok(()) => Ok(answer),
        Err(error) => Err(start::failure(&error)),
    });
    let id_line = id
        .as_ref()
        .filter(|_| question.report == Report::AnswerAndId)
        .map(|id| format!("session_id: {id}"));
    // A turn that failed was paid for, too.
    if let (Some(path), Some(id), Some(tally)) = (&args.usage_file, &id, &tally) {
        let report = answer::usage_report(id, model.as_ref(), tally);
        std::fs::write(path, format!("{report:#}\n")).map_err(|error| {
            Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
        })?;
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) if question.report == Report::Json => {
            let object = answer::object(id.as_ref(), Err(&failure), tally.as_ref());
            context.output.object(&object);
            return Err(failure.told());
        }
        Err(failure) => {
            return Err(match id_line {
                Some(line) => failure.last_line(line),
                None => failure,
            });
        }
    };
    let Asked::Answer(answer) = answer else {
        return Ok(());
    };
    match question.report {
        Report::Json => {
            let object = answer::object(id.as_ref(), Ok(&answer.text), Some(&answer.tally));
            context.output.object(&object);
        }
        Report::Answer | Report::AnswerAndId => print_text(context, &answer.text),
        Report::Everything => {
            let usage = answer.tally.usage;
            context.output.note(format!(
                "\n[{}, {}, {} tokens in, {} out]",
                count(answer.tally.model_calls as usize, "model call"),
                count(answer.tally.tool_calls.len(), "tool call"),
                usage.prompt_tokens(),
                usage.output_tokens
            ));
            if let Some(id) = &id {
                context
                    .output
                    .note(format!("Go on with: hermes --resume {id}"));
            }
        }
    }
    if let Some(line) = id_line {
        context.output.note(line);
    }
    Ok(())
}

/// Whoever sits at the terminal, if it is one.
fn person(context: &Context, cancel: &CancellationToken) -> Option<Arc<Published>> {
    if !Questions::new(false).can_ask() {
        return None;
    }
    let screen = Screen::new(context.output, screen::Detail::Brief);
    let floor = Floor::new(screen.clone(), Presence::Person);
    floor.serve(cancel.clone());
    Some(consent::published(context, &floor, &screen))
}

/// The outcome of a message.
enum Asked {
    /// An answer of the model.
    Answer(Answer),
    /// The result of a command, which is printed.
    Command,
}

async fn ask(
    context: &Context,
    args: &ChatArgs,
    question: &Question,
    conversation: &mut Conversation,
    answers: &Answers,
    cancel: &CancellationToken,
) -> Result<Asked, Failure> {
    let slash = Slash::read(&question.text);
    let mut said = image::content(&question.text, &args.image)?;
    let is_prompt = slash.is_some_and(|slash| prompt::is_name(slash.name));
    if slash.is_none() || is_prompt {
        let found = conversation.find_model().await;
        for note in conversation.take_notes() {
            context.output.note(note);
        }
        answers.use_model(&found.map_err(|error| start::failure(&error))?);
    }
    let wanted = if slash.is_some() {
        Wanted::Servers
    } else {
        Wanted::Tools
    };
    wait_for_servers(context, conversation, wanted, cancel).await?;
    if let Some(slash) = slash {
        let mut desk = Desk::default();
        let done = command(context, conversation, answers, &mut desk, slash, cancel).await?;
        if let Next::Say(message) = done.next {
            said = message;
        } else if question.report == Report::Json {
            let answer = Answer {
                text: done.text,
                end: TurnEnd::Answered,
                tally: hermes_agent::conversation::Tally::default(),
                client_calls: Vec::new(),
            };
            return Ok(Asked::Answer(answer));
        } else {
            print_text(context, &done.text);
            return Ok(Asked::Command);
        }
    }
    if slash.is_none() {
        let options = mentions::options(conversation, cancel);
        let mut mentions = mentions::of(conversation);
        let warn = |text: &str| context.output.warning(text);
        let text = said.text();
        let awaited = mentions.as_ref().map(|mentions| mentions.awaited(&text));
        let awaited = awaited.unwrap_or_default();
        let completed = mentions::complete(mentions.as_mut(), said, &options, warn);
        said = telling_whom(context, || awaited.clone(), completed).await;
    }
    let is_shown = question.report == Report::Everything;
    if is_shown {
        context
            .output
            .note(format!("> {}\n", question.text.trim_end()));
    }
    let detail = if args.verbose {
        Detail::Verbose
    } else {
        Detail::Line
    };
    let mut progress = Progress::new(context.output, detail);
    let mut silence = |_: TurnEvent| {};
    let display: &mut dyn Display = if is_shown {
        &mut progress
    } else {
        &mut silence
    };
    let answer = conversation.say(said, display, cancel.clone()).await;
    progress.end_line();
    let answer = answer.map_err(|error| start::failure(&error))?;
    match answer.end {
        TurnEnd::Interrupted => Err(Failure::interrupted()),
        _ => Ok(Asked::Answer(answer)),
    }
}

/// What a message or command needs of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Tools to offer; those of an earlier run will do, since a call waits for its server.
    Tools,
    /// The servers themselves.
    Servers,
}

/// Waits until every server is there or has failed once, or its time is over; the model is told which are away.
pub(super) async fn wait_for_servers(
    context: &Context,
    conversation: &mut Conversation,
    wanted: Wanted,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let agent = conversation.agent().clone();
    let settings = agent.settings();
    let limit = settings.mcp.one_shot_timeout;
    let waiting = async {
        match wanted {
            Wanted::Tools => agent.wait_for_tools(limit).await,
            Wanted::Servers => {
                let servers = settings
                    .servers
                    .iter()
                    .filter_map(|entry| entry.server.as_ref().ok());
                let longest = servers.map(|server| server.connect_timeout).max();
                let limit = limit.unwrap_or(longest.unwrap_or_default() + FAILING);
                agent.wait_for_servers(limit).await
            }
        }
    };
    let awaited = || {
        let servers = agent.host().map(|host| match wanted {
            Wanted::Tools => host.awaited(),
            Wanted::Servers => host.connecting(),
        });
        servers.unwrap_or_default()
    };
    let waiting = telling_whom(context, awaited, waiting);
    let missing = tokio::select! {
        missing = waiting => missing,
        () = cancel.cancelled() => {
            context.output.end_progress();
            return Err(Failure::interrupted());
        }
    };
    for server in &missing {
        let reason = server.reason.replace('\n', "\n  ");
        let text = format!("MCP server `{}` is missing: {reason}", server.name);
        context.output.warning(text);
    }
    conversation.tell_missing(&missing);
    Ok(())
}

/// Shows on a terminal which servers are waited for.
async fn telling_whom<T>(
    context: &Context,
    awaited: impl Fn() -> Vec<ServerName>,
    waiting: impl Future<Output = T>,
) -> T {
    let began = Instant::now();
    let mut waiting = std::pin::pin!(waiting);
    let done = loop {
        tokio::select! {
            done = &mut waiting => break done,
            () = tokio::time::sleep(SHOWN_AFTER) => {
                let servers = awaited();
                let names: Vec<&str> = servers.iter().map(ServerName::as_str).collect();
                if !names.is_empty() {
                    let seconds = began.elapsed().as_secs();
                    let names = names.join(", ");
                    context.output.progress(&format!("waiting for {names} … {seconds} s"));
                }
            }
        }
    };
    context.output.end_progress();
    done
}

/// Runs a command of the conversation where nobody can be asked. What is left to do is to say something, or nothing.
pub(super) async fn command(
    context: &Context,
    conversation: &mut Conversation,
    answers: &Answers,
    desk: &mut Desk,
    slash: Slash<'_>,
    cancel: &CancellationToken,
) -> Result<Done, Failure> {
    let screen = Screen::new(context.output, screen::Detail::Brief);
    let mut room = Room {
        context,
        conversation,
        screen: &screen,
        floor: &Floor::new(screen.clone(), Presence::Nobody),
        answers,
        desk,
        cancel: cancel.clone(),
    };
    let mut done = command::run(&mut room, slash).await?;
    done.next = match done.next {
        Next::Retry => {
            let undone = room.conversation.undo(1).await;
            Next::Say(undone.map_err(|error| start::failure(&error))?.prompt)
        }
        Next::Background(_) | Next::StopBackground => {
            return Err(Failure::usage(format!(
                "`/{}` needs a conversation at a terminal",
                slash.name
            )));
        }
        next => next,
    };
    Ok(done)
}

/// Prints a text with exactly one line end.
pub(super) fn print_text(context: &Context, text: &str) {
    context
        .output
        .raw(&format!("{}\n", printable(text).trim_end_matches('\n')));
}
