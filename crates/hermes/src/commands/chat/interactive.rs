//! A conversation with a person at the terminal: reads a line, runs it, shows what comes of it.

use std::{io::IsTerminal, sync::Arc, time::Duration};

use hermes_agent::{
    approval::Published,
    conversation::{Answer, Consent, Conversation, ConversationError, Setup},
    mention::Mentions,
    turn::TurnEnd,
};
use hermes_mcp::RememberedTools;
use hermes_store::{EndReason, SessionId};
use tokio_util::sync::CancellationToken;

use super::{
    command::{self, Desk, Next, Room},
    image, mentions,
    slash::Slash,
    start,
};
use crate::{
    chat::{
        ahead::Ahead,
        clarify, consent,
        editor::{Editor, Typed},
        floor::{Floor, Presence},
        screen::{Detail, Screen},
        terminal,
    },
    cli::ChatArgs,
    context::Context,
    failure::{Failure, Kind},
};

mod background;
mod banner;
mod configuration;
mod news;
mod seat;
mod signals;
mod supervise;
mod turn;
mod words;

use background::Background;
use configuration::Configuration;
use news::News;
use seat::Seat;
use signals::{Sign, Signals};
use turn::{Said, Turn};

/// How long blocking work may take at shutdown.
const LAST_WORK: Duration = Duration::from_millis(200);
/// The file of the home that remembers what was typed.
const HISTORY: &str = "chat_history";

pub(super) fn run(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    // Whatever happens, the shell gets its terminal back as it was.
    let _settings = terminal::Settings::remember()?;
    // The line that is typed is drawn on stderr, and a person has to see it.
    if !std::io::stderr().is_terminal() {
        rustix::stdio::dup2_stderr(std::io::stdout()).map_err(|error| {
            Failure::failed(format!("stderr cannot be shown at the terminal: {error}"))
        })?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the async runtime: {error}")))?;
    let outcome = runtime.block_on(open(context, args));
    runtime.shutdown_timeout(LAST_WORK);
    outcome
}

/// Puts everything together, holds the conversation, and takes everything apart again.
async fn open(context: &Context, args: &ChatArgs) -> Result<(), Failure> {
    let signals = Signals::new()?;
    // It looks before the file is read, so that no edit is missed.
    let configuration = Configuration::new(context, !context.is_config_left_aside());
    let settings = start::settings(context, args)?;
    let detail = if args.verbose {
        Detail::Full
    } else {
        Detail::Brief
    };
    let screen = Screen::new(context.output, detail);
    let floor = Floor::new(screen.clone(), Presence::Person);
    let seat = Seat::new(context, &settings, floor.clone());
    seat.answers.expect_model();
    let inquiries = seat.answers.inquiries();
    let agent = start::agent(context, settings, inquiries, RememberedTools::Hidden).await?;
    let approver = consent::published(context, &floor, &screen);
    let setup = setup(context, args, approver.clone(), &floor, &screen);
    let conversation = match setup {
        Ok(setup) => start::conversation(&agent, args, setup.clone())
            .await
            .map(|conversation| (conversation, setup)),
        Err(failure) => Err(failure),
    };
    let outcome = match conversation {
        Ok((conversation, setup)) => {
            let parts = Parts {
                conversation,
                setup,
                screen,
                floor,
                seat,
                configuration,
                signals,
            };
            let mut chat = Chat::new(context, args, parts)?;
            let outcome = chat.hold().await;
            chat.close().await.and(outcome)
        }
        Err(failure) => Err(failure),
    };
    approver.close().await;
    start::stop(&agent).await;
    outcome
}

fn setup(
    context: &Context,
    args: &ChatArgs,
    approver: Arc<Published>,
    floor: &Floor,
    screen: &Screen,
) -> Result<Setup, Failure> {
    let mut setup = start::setup(context, args, Consent::Ask(approver))?;
    let person = clarify::Person::new(floor.clone(), screen.paint());
    setup.questioner = Some(Arc::new(person));
    Ok(setup)
}

/// A conversation at the terminal.
struct Chat<'a> {
    context: &'a Context,
    conversation: Conversation,
    setup: Setup,
    screen: Screen,
    floor: Floor,
    editor: Editor,
    ahead: Ahead,
    desk: Desk,
    news: News,
    configuration: Configuration,
    background: Background,
    seat: Seat,
    /// What was mentioned, and in which session.
    mentions: Option<(SessionId, Mentions)>,
    signals: Signals,
    /// Whether servers were waited for.
    has_waited: bool,
}

/// Whether the conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Leave,
}

/// What a chat is put together from.
struct Parts {
    conversation: Conversation,
    setup: Setup,
    screen: Screen,
    floor: Floor,
    seat: Seat,
    configuration: Configuration,
    signals: Signals,
}

impl<'a> Chat<'a> {
    fn new(context: &'a Context, args: &ChatArgs, parts: Parts) -> Result<Self, Failure> {
        let Parts {
            conversation,
            setup,
            screen,
            floor,
            seat,
            configuration,
            signals,
        } = parts;
        let mut desk = Desk::default();
        for path in &args.image {
            desk.parts.push(image::part(path)?);
        }
        let news = News::new(&conversation);
        let editor = Editor::start(
            screen.clone(),
            &context.home.path().join(HISTORY),
            news.vocabulary(),
        )?;
        Ok(Self {
            configuration,
            background: Background::default(),
            mentions: None,
            has_waited: false,
            context,
            conversation,
            setup,
            screen,
            floor,
            editor,
            ahead: Ahead::default(),
            desk,
            news,
            seat,
            signals,
        })
    }

    async fn hold(&mut self) -> Result<(), Failure> {
        self.greet().await?;
        self.configuration
            .answer_others(self.conversation.agent(), &self.screen);
        let mut is_leaving = false;
        loop {
            let typed = self.next_line().await;
            let line = match typed {
                Typed::Text(line) => line,
                Typed::Interrupt if is_leaving => return Ok(()),
                Typed::Interrupt => {
                    self.screen
                        .note("Ctrl-C once more leaves; so does Ctrl-D or `/quit`.");
                    is_leaving = true;
                    continue;
                }
                Typed::End => return Ok(()),
                Typed::Failed(reason) => {
                    return Err(Failure::failed(format!(
                        "the terminal cannot be used: {reason}"
                    )));
                }
            };
            is_leaving = false;
            if line.trim().is_empty() {
                continue;
            }
            self.seat.follow(&self.conversation).await;
            // What is typed meanwhile is for the next line, and not shown before it.
            let quiet = terminal::Settings::quiet();
            let flow = self.run_line(&line).await;
            // A question that was given up puts the terminal back as it found it: not after we have.
            self.floor.free().await;
            drop(quiet);
            if flow == Flow::Leave {
                return Ok(());
            }
        }
    }

    async fn greet(&mut self) -> Result<(), Failure> {
        let banner = banner::Banner::of(&self.conversation, &self.setup).await;
        self.screen.say(&banner.render(self.screen.paint()));
        if !self.conversation.messages().is_empty() {
            let room = self.room(CancellationToken::new());
            let recalled = command::recall(&room).await?;
            self.screen.say(&recalled);
        }
        if banner.looks_for_model() {
            let agent = self.conversation.agent().clone();
            let wanted = self.setup.wanted.clone();
            self.background.look_for_model(agent, wanted);
        }
        Ok(())
    }

    /// Waits for a line, and meanwhile tells what happens beside it.
    async fn next_line(&mut self) -> Typed {
        loop {
            tokio::select! {
                typed = self.editor.read(&mut self.ahead) => return typed,
                () = self.news.changed() => self.news.tell(&self.conversation, &self.screen),
                done = self.background.next() => self.screen.note(&done.tell(&self.screen)),
                () = self.configuration.changed() => self.apply_configuration().await,
                sign = self.signals.next() => return match sign {
                    Sign::Interrupt => Typed::Interrupt,
                    Sign::End => Typed::End,
                },
            }
        }
    }

    /// The file was changed by somebody else.
    async fn apply_configuration(&mut self) {
        let agent = self.conversation.agent().clone();
        let (answers, screen) = (&self.seat.answers, &self.screen);
        let Some(settings) = self.configuration.read(&agent, answers, screen).await else {
            return;
        };
        let mut room = self.room(CancellationToken::new());
        let told = command::apply_settings(&mut room, settings).await;
        self.screen
            .note(&format!("The configuration has changed.\n{told}"));
    }

    fn room(&mut self, cancel: CancellationToken) -> Room<'_> {
        Room {
            context: self.context,
            conversation: &mut self.conversation,
            screen: &self.screen,
            floor: &self.floor,
            answers: &self.seat.answers,
            desk: &mut self.desk,
            cancel,
        }
    }

    async fn run_line(&mut self, line: &str) -> Flow {
        let outcome = match Slash::read(line) {
            Some(slash) => self.run_command(slash).await,
            None => self.say(Said::Line(line)).await.map(|()| Flow::On),
        };
        match outcome {
            Ok(flow) => flow,
            Err(failure) => {
                self.tell_failure(&failure);
                Flow::On
            }
        }
    }

    fn tell_failure(&self, failure: &Failure) {
        if failure.kind == Kind::Interrupted {
            self.screen.note("Interrupted.");
            return;
        }
        self.screen
            .note(&banner::failure(failure, self.screen.paint()));
    }

    async fn run_command(&mut self, slash: Slash<'_>) -> Result<Flow, Failure> {
        let cancel = CancellationToken::new();
        let work = async {
            let mut room = Room {
                context: self.context,
                conversation: &mut self.conversation,
                screen: &self.screen,
                floor: &self.floor,
                answers: &self.seat.answers,
                desk: &mut self.desk,
                cancel: cancel.clone(),
            };
            command::run(&mut room, slash).await
        };
        let watch = supervise::Watch {
            signals: &mut self.signals,
            screen: &self.screen,
            floor: &self.floor,
            ahead: &mut self.ahead,
            cancel: &cancel,
        };
        let done = watch.over(Box::pin(work)).await;
        let done = done.ok_or_else(Failure::interrupted)??;
        if !done.text.is_empty() {
            self.screen.say(&done.text);
        }
        self.tell_notes();
        match done.next {
            Next::Stay => {}
            Next::Leave => return Ok(Flow::Leave),
            Next::Say(content) => self.say(Said::Content(content)).await?,
            Next::Retry => self.say(Said::Again).await?,
            Next::Background(text) => {
                let text = self.background.begin(&self.conversation, &self.setup, text);
                self.screen.note(&text);
            }
            Next::StopBackground => self.screen.note(&self.background.stop()),
        }
        Ok(Flow::On)
    }

    fn tell_notes(&mut self) {
        for note in self.conversation.take_notes() {
            self.screen.note(&note);
        }
    }

    /// Runs a turn and shows it.
    async fn say(&mut self, said: Said<'_>) -> Result<(), Failure> {
        let cancel = CancellationToken::new();
        self.screen.begin_turn();
        let patience = if self.has_waited {
            Duration::ZERO
        } else {
            self.conversation.agent().settings().mcp.discovery_timeout
        };
        let mentions = mentions::in_session(&mut self.mentions, &self.conversation);
        let turn = Turn {
            conversation: &mut self.conversation,
            desk: &mut self.desk,
            mentions,
            answers: &self.seat.answers,
            screen: &self.screen,
            patience,
            cancel: &cancel,
        };
        let work = Box::pin(turn.run(said));
        let watch = supervise::Watch {
            signals: &mut self.signals,
            screen: &self.screen,
            floor: &self.floor,
            ahead: &mut self.ahead,
            cancel: &cancel,
        };
        let answer = watch.over(work).await;
        self.screen.end_turn();
        self.has_waited = true;
        self.tell_notes();
        self.news.tell(&self.conversation, &self.screen);
        match answer {
            Some(answer) => self.finish(answer),
            None => Err(Failure::interrupted()),
        }
    }

    fn finish(&mut self, answer: Result<Answer, ConversationError>) -> Result<(), Failure> {
        let answer = answer.map_err(|error| start::failure(&error))?;
        if !answer.text.is_empty() {
            self.desk.last_answer = answer.text;
        }
        match answer.end {
            TurnEnd::Interrupted => return Err(Failure::interrupted()),
            TurnEnd::Answered | TurnEnd::ClientCalls => {}
            TurnEnd::OutOfCalls => self
                .screen
                .note("The turn ended at its limit of model calls; say \"go on\" to continue."),
            TurnEnd::Repeating => self
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
                .note(&format!("Go on with: hermes --resume {id}"));
        }
        closed.map_err(|error| start::failure(&error))
    }
}
