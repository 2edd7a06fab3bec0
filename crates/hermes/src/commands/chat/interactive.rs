//! A conversation with a person at the terminal: reads a line, runs it, shows what comes of it.

use std::{io::IsTerminal, sync::Arc, time::Duration};

use hermes_agent::{
    approval::PublishedApprover,
    conversation::{Consent, Conversation, ConversationError, ConversationSetup, TurnOutcome},
    mention::Mentions,
    turn::TurnEnd,
};
use hermes_mcp::RememberedTools;
use hermes_store::{EndReason, SessionId};
use tokio_util::sync::CancellationToken;

use super::start;
use crate::{
    cli::ChatArgs,
    commands::chat::{
        attachments, commands,
        commands::{ChatContext, NextStep, PendingMessage, SlashCommand},
        editor::{Editor, EditorInput, type_ahead::TypeAhead},
        prompts::{
            approval, questions,
            queue::{PromptQueue, TerminalPresence},
        },
        screen::{CallDetail, Screen},
    },
    context::{Context, RuntimeThreads, run_future},
    failure::{Failure, FailureKind},
    output::terminal,
};

mod background;
mod banner;
mod completion_words;
mod configuration;
mod server_updates;
mod supervise;
mod turn;

use crate::commands::chat::interactive::{
    server_updates::ServerUpdates,
    supervise::{ChatSignal, ChatSignals},
    turn::SessionPresence,
};
use background::BackgroundWork;
use configuration::ChatConfigWatcher;
use turn::{ChatTurn, TurnInput};

/// How long blocking work may take at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(200);
/// The file of the home that remembers what was typed.
const HISTORY_FILE: &str = "chat_history";

pub(super) fn run(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    // Whatever happens, the shell gets its terminal back as it was.
    let _settings = terminal::TerminalModeGuard::save_current()?;
    // The line that is typed is drawn on stderr, and a person has to see it.
    if !std::io::stderr().is_terminal() {
        rustix::stdio::dup2_stderr(std::io::stdout()).map_err(|error| {
            Failure::failed(format!("stderr cannot be shown at the terminal: {error}"))
        })?;
    }
    let work = Box::pin(run_chat(context, args));
    run_future(RuntimeThreads::Two, SHUTDOWN_GRACE, work)
}

/// Puts everything together, holds the conversation, and takes everything apart again.
async fn run_chat(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    let signals = ChatSignals::new()?;
    // It looks before the file is read, so that no edit is missed.
    let configuration = ChatConfigWatcher::new(context, !context.ignores_config());
    let settings = start::chat_settings(context, args)?;
    let detail = if args.verbose {
        CallDetail::Full
    } else {
        CallDetail::Brief
    };
    let screen = Screen::new(context.output, detail);
    let queue = PromptQueue::new(screen.clone(), TerminalPresence::Person);
    let presence = SessionPresence::new(context, &settings, queue.clone());
    presence.server_requests.expect_model();
    let handler = presence.server_requests.handler();
    let agent = start::start_agent(context, settings, handler, RememberedTools::Hidden).await?;
    let approver = approval::published_approver(context, &queue, &screen);
    let setup = chat_setup(context, args, approver.clone(), &queue, &screen);
    let conversation = match setup {
        Ok(setup) => start::open_conversation(&agent, args, setup.clone())
            .await
            .map(|conversation| (conversation, setup)),
        Err(failure) => Err(failure),
    };
    let outcome = match conversation {
        Ok((conversation, setup)) => {
            let parts = ChatParts {
                conversation,
                setup,
                screen,
                prompts: queue,
                presence,
                configuration,
                signals,
            };
            let mut chat = InteractiveChat::new(context, args, parts)?;
            let outcome = chat.run_loop().await;
            chat.close().await.and(outcome)
        }
        Err(failure) => Err(failure),
    };
    approver.close().await;
    start::stop_agent(&agent).await;
    outcome
}

fn chat_setup(
    context: &Context,
    args: &ChatArgs,
    approver: Arc<PublishedApprover>,
    queue: &PromptQueue,
    screen: &Screen,
) -> Result<ConversationSetup, Failure> {
    let mut setup = start::conversation_setup(context, args, Consent::Ask(approver))?;
    let person = questions::ClarifyPrompt::new(queue.clone(), screen.paint());
    setup.questioner = Some(Arc::new(person));
    Ok(setup)
}

/// A conversation at the terminal.
struct InteractiveChat<'a> {
    context: &'a Context,
    conversation: Conversation,
    setup: ConversationSetup,
    screen: Screen,
    prompts: PromptQueue,
    editor: Editor,
    type_ahead: TypeAhead,
    pending: PendingMessage,
    server_updates: ServerUpdates,
    configuration: ChatConfigWatcher,
    background: BackgroundWork,
    presence: SessionPresence,
    /// What was mentioned, and in which session.
    mentions: Option<(SessionId, Mentions)>,
    signals: ChatSignals,
    /// Whether servers were waited for.
    has_waited: bool,
}

/// Whether the conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatFlow {
    Continue,
    Quit,
}

/// What a chat is put together from.
struct ChatParts {
    conversation: Conversation,
    setup: ConversationSetup,
    screen: Screen,
    prompts: PromptQueue,
    presence: SessionPresence,
    configuration: ChatConfigWatcher,
    signals: ChatSignals,
}

impl<'a> InteractiveChat<'a> {
    fn new(context: &'a Context, args: &ChatArgs, parts: ChatParts) -> Result<Self, Failure> {
        let ChatParts {
            conversation,
            setup,
            screen,
            prompts: queue,
            presence,
            configuration,
            signals,
        } = parts;
        let mut pending = PendingMessage::default();
        for path in &args.image {
            pending.parts.push(attachments::read_image(path)?);
        }
        let updates = ServerUpdates::new(&conversation);
        let editor = Editor::start(
            screen.clone(),
            &context.home.path().join(HISTORY_FILE),
            updates.vocabulary(),
        )?;
        Ok(Self {
            configuration,
            background: BackgroundWork::default(),
            mentions: None,
            has_waited: false,
            context,
            conversation,
            setup,
            screen,
            prompts: queue,
            editor,
            type_ahead: TypeAhead::default(),
            pending,
            server_updates: updates,
            presence,
            signals,
        })
    }

    async fn run_loop(&mut self) -> Result<(), Failure> {
        self.show_banner().await?;
        self.configuration
            .serve_control_requests(self.conversation.agent(), &self.screen);
        let mut is_leaving = false;
        loop {
            let typed = self.next_line().await;
            let line = match typed {
                EditorInput::Text(line) => line,
                EditorInput::Interrupt if is_leaving => return Ok(()),
                EditorInput::Interrupt => {
                    self.screen
                        .note("Ctrl-C once more leaves; so does Ctrl-D or `/quit`.");
                    is_leaving = true;
                    continue;
                }
                EditorInput::End => return Ok(()),
                EditorInput::Failed(reason) => {
                    return Err(Failure::failed(format!(
                        "the terminal cannot be used: {reason}"
                    )));
                }
            };
            is_leaving = false;
            if line.trim().is_empty() {
                continue;
            }
            self.presence.follow(&self.conversation).await;
            // What is typed meanwhile is for the next line, and not shown before it.
            let quiet = terminal::TerminalModeGuard::disable_echo();
            let flow = self.run_line(&line).await;
            // A question that was given up puts the terminal back as it found it: not after we have.
            self.prompts.wait_until_idle().await;
            drop(quiet);
            if flow == ChatFlow::Quit {
                return Ok(());
            }
        }
    }

    async fn show_banner(&mut self) -> Result<(), Failure> {
        let banner = banner::Banner::from_conversation(&self.conversation, &self.setup).await;
        self.screen.say(&banner.render(self.screen.paint()));
        if !self.conversation.messages().is_empty() {
            let chat = self.command_context(CancellationToken::new());
            let recalled = commands::describe_resumed(&chat).await?;
            self.screen.say(&recalled);
        }
        if banner.looks_for_model() {
            let agent = self.conversation.agent().clone();
            let wanted = self.setup.model_overrides.clone();
            self.background.start_model_search(agent, wanted);
        }
        Ok(())
    }

    /// Waits for a line, and meanwhile tells what happens beside it.
    async fn next_line(&mut self) -> EditorInput {
        loop {
            tokio::select! {
                typed = self.editor.read(&mut self.type_ahead) => return typed,
                () = self.server_updates.wait_for_change() => self.server_updates.show_changes(&self.conversation, &self.screen),
                done = self.background.next() => self.screen.note(&done.render(&self.screen)),
                () = self.configuration.wait_for_change() => self.apply_configuration().await,
                sign = self.signals.next() => return match sign {
                    ChatSignal::Interrupt => EditorInput::Interrupt,
                    ChatSignal::End => EditorInput::End,
                },
            }
        }
    }

    /// The file was changed by somebody else.
    async fn apply_configuration(&mut self) {
        let agent = self.conversation.agent().clone();
        let (answers, screen) = (&self.presence.server_requests, &self.screen);
        let Some(settings) = self
            .configuration
            .read_settings(&agent, answers, screen)
            .await
        else {
            return;
        };
        let mut chat = self.command_context(CancellationToken::new());
        let changes = commands::apply_settings(&mut chat, settings).await;
        self.screen
            .note(&format!("The configuration has changed.\n{changes}"));
    }

    fn command_context(&mut self, cancel: CancellationToken) -> ChatContext<'_> {
        ChatContext {
            context: self.context,
            conversation: &mut self.conversation,
            screen: &self.screen,
            prompts: &self.prompts,
            server_requests: &self.presence.server_requests,
            pending: &mut self.pending,
            cancel,
        }
    }

    async fn run_line(&mut self, line: &str) -> ChatFlow {
        let outcome = match SlashCommand::parse(line) {
            Some(slash) => self.run_command(slash).await,
            None => self
                .run_turn(TurnInput::Line(line))
                .await
                .map(|()| ChatFlow::Continue),
        };
        match outcome {
            Ok(flow) => flow,
            Err(failure) => {
                self.show_failure(&failure);
                ChatFlow::Continue
            }
        }
    }

    fn show_failure(&self, failure: &Failure) {
        if failure.kind == FailureKind::Interrupted {
            self.screen.note("Interrupted.");
            return;
        }
        self.screen
            .note(&banner::render_failure(failure, self.screen.paint()));
    }

    async fn run_command(&mut self, slash: SlashCommand<'_>) -> Result<ChatFlow, Failure> {
        let cancel = CancellationToken::new();
        let work = async {
            let mut chat = ChatContext {
                context: self.context,
                conversation: &mut self.conversation,
                screen: &self.screen,
                prompts: &self.prompts,
                server_requests: &self.presence.server_requests,
                pending: &mut self.pending,
                cancel: cancel.clone(),
            };
            commands::run_command(&mut chat, slash).await
        };
        let watch = supervise::WorkSupervisor {
            signals: &mut self.signals,
            screen: &self.screen,
            prompts: &self.prompts,
            type_ahead: &mut self.type_ahead,
            cancel: &cancel,
        };
        let done = watch.run(Box::pin(work)).await;
        let done = done.ok_or_else(Failure::interrupted)??;
        if !done.text.is_empty() {
            self.screen.say(&done.text);
        }
        self.show_notes();
        match done.next {
            NextStep::Continue => {}
            NextStep::Quit => return Ok(ChatFlow::Quit),
            NextStep::SendMessage(content) => self.run_turn(TurnInput::Content(content)).await?,
            NextStep::Retry => self.run_turn(TurnInput::Again).await?,
            NextStep::Background(text) => {
                let text = self
                    .background
                    .start_turn(&self.conversation, &self.setup, text);
                self.screen.note(&text);
            }
            NextStep::StopBackground => self.screen.note(&self.background.stop()),
        }
        Ok(ChatFlow::Continue)
    }

    fn show_notes(&mut self) {
        for note in self.conversation.take_notes() {
            self.screen.note(&note);
        }
    }

    /// Runs a turn and shows it.
    async fn run_turn(&mut self, input: TurnInput<'_>) -> Result<(), Failure> {
        let cancel = CancellationToken::new();
        self.screen.begin_turn();
        let timeout = if self.has_waited {
            Duration::ZERO
        } else {
            self.conversation.agent().settings().mcp.discovery_timeout
        };
        let mentions = attachments::for_session(&mut self.mentions, &self.conversation);
        let turn = ChatTurn {
            conversation: &mut self.conversation,
            pending: &mut self.pending,
            mentions,
            server_requests: &self.presence.server_requests,
            screen: &self.screen,
            server_timeout: timeout,
            cancel: &cancel,
        };
        let work = Box::pin(turn.run(input));
        let watch = supervise::WorkSupervisor {
            signals: &mut self.signals,
            screen: &self.screen,
            prompts: &self.prompts,
            type_ahead: &mut self.type_ahead,
            cancel: &cancel,
        };
        let answer = watch.run(work).await;
        self.screen.end_turn();
        self.has_waited = true;
        self.show_notes();
        self.server_updates
            .show_changes(&self.conversation, &self.screen);
        match answer {
            Some(answer) => self.finish_turn(answer),
            None => Err(Failure::interrupted()),
        }
    }

    fn finish_turn(
        &mut self,
        answer: Result<TurnOutcome, ConversationError>,
    ) -> Result<(), Failure> {
        let answer = answer.map_err(|error| start::conversation_failure(&error))?;
        if !answer.text.is_empty() {
            self.pending.last_answer = answer.text;
        }
        match answer.end {
            TurnEnd::Interrupted => return Err(Failure::interrupted()),
            TurnEnd::Answered | TurnEnd::ClientCalls => {}
            TurnEnd::OutOfCalls => self
                .screen
                .note("The turn ended at its limit of model calls; say \"go on\" to continue."),
            TurnEnd::RepetitionStopped => self
                .screen
                .note("The turn ended because the same call failed again and again."),
        }
        self.screen.say("");
        Ok(())
    }

    async fn close(mut self) -> Result<(), Failure> {
        self.editor.close();
        self.background.close().await;
        self.configuration.close().await;
        let stored = self.conversation.is_stored();
        let id = self.conversation.id().clone();
        let closed = self.conversation.close(EndReason::CliClose).await;
        if stored {
            self.screen
                .note(&format!("Continue with: hermes --resume {id}"));
        }
        closed.map_err(|error| start::conversation_failure(&error))
    }
}
