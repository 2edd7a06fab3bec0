//! Work beside the conversation: turns in sessions of their own, and the search for a model.

use std::sync::Arc;

use hermes_agent::{
    approval::DenyAllApprover,
    conversation::{
        Agent, Consent, Conversation, ConversationError, ConversationSetup, TitleSource,
        TurnOutcome,
    },
    model::{ModelOverrides, ResolveError, Selection},
    printable::printable,
    turn::TurnEvent,
};
use hermes_store::{EndReason, NewSession, SessionId};
use jiff::Zoned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::banner;
use crate::commands::{
    chat::{rendering::wrap, screen::Screen, start},
    state::pluralize,
};

/// What runs in the background.
#[derive(Default)]
pub(super) struct BackgroundWork {
    tasks: JoinSet<BackgroundResult>,
    running: usize,
    stop: CancellationToken,
}

/// Something that has come to its end.
pub(super) enum BackgroundResult {
    Turn {
        id: SessionId,
        request: String,
        answer: Result<TurnOutcome, ConversationError>,
    },
    Model(Result<Box<Selection>, ResolveError>),
    /// It was ended without a result.
    Broken,
}

/// Where these sessions come from: none that `--continue` would take for the person's own.
const SOURCE: &str = "background";
/// How much of an answer is shown.
const MAX_LINES: usize = 40;

impl BackgroundWork {
    /// Works on a request in a session of its own, where nobody can be asked. Returns what to tell.
    pub(super) fn start_turn(
        &mut self,
        conversation: &Conversation,
        setup: &ConversationSetup,
        request: String,
    ) -> String {
        let mut setup = setup.clone();
        if matches!(setup.consent, Consent::Ask(_)) {
            setup.consent = Consent::Ask(Arc::new(DenyAllApprover));
        }
        setup.questioner = None;
        setup.titles = TitleSource::Manual;
        conversation.cwd().clone_into(&mut setup.cwd);
        let id = SessionId::for_cli(&Zoned::now());
        let row = NewSession::new(id.clone(), SOURCE);
        let mut own = Conversation::new(conversation.agent().clone(), row, setup);
        let notice = format!("Working on it in session {id}; `/stop` ends it.");
        let cancel = self.stop.child_token();
        self.running += 1;
        self.tasks.spawn(async move {
            let mut silence = |_: TurnEvent| {};
            let turn = own
                .send_user_message(request.as_str(), &mut silence, cancel)
                .await;
            let closed = own.close(EndReason::AgentClose).await;
            BackgroundResult::Turn {
                id,
                request,
                answer: turn.and_then(|answer| closed.map(|()| answer)),
            }
        });
        notice
    }

    /// Looks for a model while the person may already type.
    pub(super) fn start_model_search(&mut self, agent: Agent, wanted: ModelOverrides) {
        self.tasks.spawn(async move {
            let selection = agent.find_model(&wanted).await;
            BackgroundResult::Model(selection.map(Box::new))
        });
    }

    /// The next thing that ends.
    pub(super) async fn next(&mut self) -> BackgroundResult {
        let Some(finished) = self.tasks.join_next().await else {
            return std::future::pending().await;
        };
        let finished = finished.unwrap_or(BackgroundResult::Broken);
        if !matches!(finished, BackgroundResult::Model(_)) {
            self.running = self.running.saturating_sub(1);
        }
        finished
    }

    /// Ends everything under way. Returns what to tell.
    pub(super) fn stop(&mut self) -> String {
        if self.running == 0 {
            return "Nothing runs in the background.".to_owned();
        }
        std::mem::take(&mut self.stop).cancel();
        format!(
            "Stopping {}.",
            pluralize(self.running, "background session")
        )
    }

    pub(super) async fn close(&mut self) {
        self.stop.cancel();
        self.tasks.shutdown().await;
    }
}

impl BackgroundResult {
    /// What the person is told.
    pub(super) fn render(&self, screen: &Screen) -> String {
        match self {
            Self::Model(Ok(selection)) => {
                let endpoint = &selection.endpoint;
                let mut lines = selection.notes.clone();
                if lines.is_empty() {
                    lines.push(format!("model: {} ({})", endpoint.model, endpoint.provider));
                }
                lines.join("\n")
            }
            Self::Model(Err(ResolveError::NoModel(_))) => banner::NO_MODEL.to_owned(),
            Self::Model(Err(error)) => wrap::first_line(&error.to_string(), screen.width()),
            Self::Broken => "A background session failed.".to_owned(),
            Self::Turn {
                id,
                request,
                answer,
            } => {
                let request = wrap::first_line(request, 60);
                match answer {
                    Ok(answer) => format!(
                        "\"{request}\" is done ({id}):\n{}",
                        shorten(&answer.text, id)
                    ),
                    Err(error) => {
                        let failure = banner::render_failure(
                            &start::conversation_failure(error),
                            screen.paint(),
                        );
                        format!("\"{request}\" failed ({id}):\n{failure}")
                    }
                }
            }
        }
    }
}

fn shorten(text: &str, id: &SessionId) -> String {
    let text = printable(text.trim());
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= MAX_LINES {
        return text.into_owned();
    }
    let more = lines.len() - MAX_LINES;
    format!(
        "{}\n… {more} lines more: `/resume {id}`",
        lines[..MAX_LINES].join("\n")
    )
}
