//! One message and its answer: -q and -z.

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_agent::{
    approval::{DenyAllApprover, PublishedApprover},
    conversation::{Agent, Consent, Conversation, TitleSource, TurnDisplay, TurnOutcome},
    turn::{TurnEnd, TurnEvent},
};
use hermes_config::{ServerName, Settings};
use hermes_mcp::RememberedTools;
use hermes_store::EndReason;
use tokio_util::sync::CancellationToken;

use super::{
    call::ForwardedCall,
    progress::{ProgressDetail, TurnProgress},
    start,
};
use crate::{
    cli::ChatArgs,
    commands::{
        chat,
        chat::{
            attachments, commands,
            commands::{ChatContext, CommandOutcome, NextStep, PendingMessage, SlashCommand},
            json_report,
            prompts::{
                approval,
                queue::{PromptQueue, TerminalPresence},
            },
            screen,
            screen::Screen,
        },
        state::pluralize,
    },
    context::Context,
    failure::Failure,
    output::printable,
    question::Questions,
    server_requests::ServerRequests,
};

/// How long a failed attempt may take to report its failure.
const FAILURE_GRACE: Duration = Duration::from_secs(5);
/// Waits shorter than this show no progress line.
const PROGRESS_DELAY: Duration = Duration::from_millis(300);

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportFormat {
    /// The question, the calls, the answer as it comes, and how to go on.
    Everything,
    /// The answer, and the session's id on stderr.
    AnswerAndId,
    Answer,
    /// One object.
    Json,
}

/// What is asked, and how the answer is printed.
pub(super) struct OneShotQuestion {
    text: String,
    report: ReportFormat,
}

impl OneShotQuestion {
    /// Takes the text from stdin if it is `-`.
    pub(super) fn read(text: &str, report: ReportFormat) -> Result<Self, Failure> {
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
    question: OneShotQuestion,
) -> Result<(), Failure> {
    let cancel = CancellationToken::new();
    let work = async {
        let mut settings = start::chat_settings(context, args)?;
        start::remove_unused_servers(args, &mut settings);
        let called = call_in_running_process(context, args, &settings, &question, &cancel);
        if let Some(text) = called.await? {
            print_call_result(context, &question, &text);
            return Ok(());
        }
        let answers = ServerRequests::without_person(context, &settings);
        answers.expect_model();
        let remembered = RememberedTools::Offered;
        let agent = start::start_agent(context, settings, answers.handler(), remembered).await?;
        let conversation = run_conversation(context, args, &question, &agent, &answers, &cancel);
        let outcome = Box::pin(conversation).await;
        start::stop_agent(&agent).await;
        outcome
    };
    let outcome = chat::cancel_on_interrupt(&cancel, work).await;
    match outcome {
        Err(failure) if question.report == ReportFormat::Json && !failure.is_printed => {
            context
                .output
                .object(&json_report::answer_object(None, Err(&failure), None));
            Err(failure.mark_printed())
        }
        outcome => outcome,
    }
}

/// The result of a `/call`, if a running process has the server: nothing is started for it then.
async fn call_in_running_process(
    context: &Context,
    args: &ChatArgs,
    settings: &Settings,
    question: &OneShotQuestion,
    cancel: &CancellationToken,
) -> Result<Option<String>, Failure> {
    let slash = SlashCommand::parse(&question.text);
    let Some(slash) = slash.filter(|slash| slash.name == "call" && !context.is_safe_mode()) else {
        return Ok(None);
    };
    let person = terminal_approver(context, cancel);
    let call = ForwardedCall {
        context,
        settings,
        consent: if args.yolo {
            Consent::AllowAll
        } else {
            consent_of(person.as_ref())
        },
        cancel,
    };
    let called = call.run(slash.rest).await;
    if let Some(person) = person {
        person.close().await;
    }
    called
}

/// Asks the person, and without one denies.
fn consent_of(person: Option<&Arc<PublishedApprover>>) -> Consent {
    match person {
        Some(person) => Consent::Ask(person.clone()),
        None => Consent::Ask(Arc::new(DenyAllApprover)),
    }
}

/// Shows what a tool said, as the conversation's own command does.
fn print_call_result(context: &Context, question: &OneShotQuestion, text: &str) {
    if question.report == ReportFormat::Json {
        let usage = hermes_agent::conversation::TurnUsage::default();
        let object = json_report::answer_object(None, Ok(text), Some(&usage));
        context.output.object(&object);
    } else {
        print_text(context, text);
    }
}

async fn run_conversation(
    context: &Context,
    args: &ChatArgs,
    question: &OneShotQuestion,
    agent: &Agent,
    answers: &ServerRequests,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let person = terminal_approver(context, cancel);
    let mut setup = start::conversation_setup(context, args, consent_of(person.as_ref()))?;
    // A title would cost a further call of the model, and nobody is there to see it.
    setup.titles = TitleSource::Manual;
    let wanted_rules = setup.project_rules;
    let mut conversation = start::open_conversation(agent, args, setup).await?;
    if question.report == ReportFormat::Everything && SlashCommand::parse(&question.text).is_none()
    {
        let rules = start::project_rules(&conversation, wanted_rules).await;
        if let Some(rules) = rules {
            context.output.note(format!("rules: {}", rules.notice()));
        }
    }
    let outcome = run_question(context, args, question, &mut conversation, answers, cancel).await;
    let model = conversation.model();
    let turn_usage = conversation.last_usage().cloned();
    let id = conversation.is_stored().then(|| conversation.id().clone());
    let closed = conversation.close(EndReason::CliClose).await;
    if let Some(person) = person {
        person.close().await;
    }
    let answer = outcome.and_then(|answer| match closed {
        Ok(()) => Ok(answer),
        Err(error) => Err(start::conversation_failure(&error)),
    });
    let id_line = id
        .as_ref()
        .filter(|_| question.report == ReportFormat::AnswerAndId)
        .map(|id| format!("session_id: {id}"));
    // A turn that failed was paid for, too.
    if let (Some(path), Some(id), Some(turn_usage)) = (&args.usage_file, &id, &turn_usage) {
        let report = json_report::usage_report(id, model.as_ref(), turn_usage);
        std::fs::write(path, format!("{report:#}\n")).map_err(|error| {
            Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
        })?;
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) if question.report == ReportFormat::Json => {
            let object =
                json_report::answer_object(id.as_ref(), Err(&failure), turn_usage.as_ref());
            context.output.object(&object);
            return Err(failure.mark_printed());
        }
        Err(failure) => {
            return Err(match id_line {
                Some(line) => failure.last_line(line),
                None => failure,
            });
        }
    };
    let QuestionOutcome::Answer(answer) = answer else {
        return Ok(());
    };
    match question.report {
        ReportFormat::Json => {
            let object =
                json_report::answer_object(id.as_ref(), Ok(&answer.text), Some(&answer.usage));
            context.output.object(&object);
        }
        ReportFormat::Answer | ReportFormat::AnswerAndId => print_text(context, &answer.text),
        ReportFormat::Everything => {
            let usage = answer.usage.tokens;
            context.output.note(format!(
                "\n[{}, {}, {} tokens in, {} out]",
                pluralize(answer.usage.model_calls as usize, "model call"),
                pluralize(answer.usage.tool_calls.len(), "tool call"),
                usage.prompt_tokens(),
                usage.output_tokens
            ));
            if let Some(id) = &id {
                context
                    .output
                    .note(format!("Continue with: hermes --resume {id}"));
            }
        }
    }
    if let Some(line) = id_line {
        context.output.note(line);
    }
    Ok(())
}

/// Whoever sits at the terminal, if it is one.
fn terminal_approver(
    context: &Context,
    cancel: &CancellationToken,
) -> Option<Arc<PublishedApprover>> {
    if !Questions::new(false).can_ask() {
        return None;
    }
    let screen = Screen::new(context.output, screen::CallDetail::Brief);
    let queue = PromptQueue::new(screen.clone(), TerminalPresence::Person);
    queue.cancel_on_interrupt(cancel.clone());
    Some(approval::published_approver(context, &queue, &screen))
}

/// The outcome of a message.
enum QuestionOutcome {
    /// An answer of the model.
    Answer(TurnOutcome),
    /// The result of a command, which is printed.
    Command,
}

async fn run_question(
    context: &Context,
    args: &ChatArgs,
    question: &OneShotQuestion,
    conversation: &mut Conversation,
    answers: &ServerRequests,
    cancel: &CancellationToken,
) -> Result<QuestionOutcome, Failure> {
    let slash = SlashCommand::parse(&question.text);
    let mut outgoing = attachments::message_with_images(&question.text, &args.image)?;
    let is_prompt = slash.is_some_and(|slash| commands::is_prompt_name(slash.name));
    if slash.is_none() || is_prompt {
        let selection = conversation.find_model().await;
        for note in conversation.take_notes() {
            context.output.note(note);
        }
        answers.set_model(&selection.map_err(|error| start::conversation_failure(&error))?);
    }
    let wanted = if slash.is_some() {
        ServerNeed::Servers
    } else {
        ServerNeed::Tools
    };
    wait_for_servers(context, conversation, wanted, cancel).await?;
    if let Some(slash) = slash {
        let mut pending = PendingMessage::default();
        let done = command(context, conversation, answers, &mut pending, slash, cancel).await?;
        if let NextStep::SendMessage(message) = done.next {
            outgoing = message;
        } else if question.report == ReportFormat::Json {
            let answer = TurnOutcome {
                text: done.text,
                end: TurnEnd::Answered,
                usage: hermes_agent::conversation::TurnUsage::default(),
                client_calls: Vec::new(),
            };
            return Ok(QuestionOutcome::Answer(answer));
        } else {
            print_text(context, &done.text);
            return Ok(QuestionOutcome::Command);
        }
    }
    if slash.is_none() {
        let options = attachments::call_options(conversation, cancel);
        let mut mentions = attachments::for_conversation(conversation);
        let warn = |text: &str| context.output.warning(text);
        let text = outgoing.text();
        let awaited = mentions
            .as_ref()
            .map(|mentions| mentions.servers_to_connect(&text));
        let awaited = awaited.unwrap_or_default();
        let completed = attachments::attach_mentions(mentions.as_mut(), outgoing, &options, warn);
        outgoing = show_waiting(context, || awaited.clone(), completed).await;
    }
    let is_shown = question.report == ReportFormat::Everything;
    if is_shown {
        context
            .output
            .note(format!("> {}\n", question.text.trim_end()));
    }
    let detail = if args.verbose {
        ProgressDetail::Verbose
    } else {
        ProgressDetail::Line
    };
    let mut progress = TurnProgress::new(context.output, detail);
    let mut silence = |_: TurnEvent| {};
    let display: &mut dyn TurnDisplay = if is_shown {
        &mut progress
    } else {
        &mut silence
    };
    let answer = conversation
        .send_user_message(outgoing, display, cancel.clone())
        .await;
    progress.end_line();
    let answer = answer.map_err(|error| start::conversation_failure(&error))?;
    match answer.end {
        TurnEnd::Interrupted => Err(Failure::interrupted()),
        _ => Ok(QuestionOutcome::Answer(answer)),
    }
}

/// What a message or command needs of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerNeed {
    /// Tools to offer; those of an earlier run will do, since a call waits for its server.
    Tools,
    /// The servers themselves.
    Servers,
}

/// Waits until every server is there or has failed once, or its time is over; the model is told which are away.
pub(super) async fn wait_for_servers(
    context: &Context,
    conversation: &mut Conversation,
    wanted: ServerNeed,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let agent = conversation.agent().clone();
    let settings = agent.settings();
    let limit = settings.mcp.one_shot_timeout;
    let waiting = async {
        match wanted {
            ServerNeed::Tools => agent.wait_for_tools(limit).await,
            ServerNeed::Servers => {
                let servers = settings
                    .servers
                    .iter()
                    .filter_map(|entry| entry.server.as_ref().ok());
                let longest = servers.map(|server| server.connect_timeout).max();
                let limit = limit.unwrap_or(longest.unwrap_or_default() + FAILURE_GRACE);
                agent.wait_for_servers(limit).await
            }
        }
    };
    let awaited = || {
        let servers = agent.host().map(|host| match wanted {
            ServerNeed::Tools => host.servers_without_tools(),
            ServerNeed::Servers => host.connecting_servers(),
        });
        servers.unwrap_or_default()
    };
    let waiting = show_waiting(context, awaited, waiting);
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
    conversation.set_missing_servers(&missing);
    Ok(())
}

/// Shows on a terminal which servers are waited for.
async fn show_waiting<T>(
    context: &Context,
    awaited: impl Fn() -> Vec<ServerName>,
    waiting: impl Future<Output = T>,
) -> T {
    let began = Instant::now();
    let mut waiting = std::pin::pin!(waiting);
    let done = loop {
        tokio::select! {
            done = &mut waiting => break done,
            () = tokio::time::sleep(PROGRESS_DELAY) => {
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
    answers: &ServerRequests,
    pending: &mut PendingMessage,
    slash: SlashCommand<'_>,
    cancel: &CancellationToken,
) -> Result<CommandOutcome, Failure> {
    let screen = Screen::new(context.output, screen::CallDetail::Brief);
    let mut chat = ChatContext {
        context,
        conversation,
        screen: &screen,
        prompts: &PromptQueue::new(screen.clone(), TerminalPresence::Nobody),
        server_requests: answers,
        pending,
        cancel: cancel.clone(),
    };
    let mut done = commands::run_command(&mut chat, slash).await?;
    done.next = match done.next {
        NextStep::Retry => {
            let undone = chat.conversation.undo(1).await;
            NextStep::SendMessage(
                undone
                    .map_err(|error| start::conversation_failure(&error))?
                    .prompt,
            )
        }
        NextStep::Background(_) | NextStep::StopBackground => {
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
