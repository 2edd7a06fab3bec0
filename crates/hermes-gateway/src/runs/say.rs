//! A run of one turn in a session.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use hermes_agent::{
    approval::{Change, OthersDecide, Published},
    conversation::{self, Agent, Consent, Conversation, ConversationError, Setup, Titles, Which},
    elicitation::{ByApproval, Presence},
    message::{Content, Message, ToolResult},
    model::Wanted,
    turn::{Activity, ClientTools, TurnEnd},
};
use hermes_mcp::inquiry;
use hermes_store::{NewSession, SessionId, runtime::Outcome as Closed};
use serde_json::json;

use super::{
    Inner, Live,
    display::LogDisplay,
    log::RunLog,
    outcome::{self, Outcome},
};

/// How long to wait for servers, counted from the start of the gateway.
const SERVERS_AT_START: Duration = Duration::from_secs(15);

const PLATFORM: &str = "api_server";
const NOTE: &str = "Your answers go to a program over an HTTP API; it shows them to somebody, or uses them as they are.";

/// Something to say, and where.
#[derive(Debug, Clone)]
pub struct Say {
    /// The user message; `None` to continue with the results of the client's calls.
    pub input: Option<Content>,
    /// Results of the client's calls in a stored session.
    pub results: Vec<ToolResult>,
    /// Tools that the client runs itself.
    pub client_tools: Option<Arc<ClientTools>>,
    /// Added after the prompt, in this run only.
    pub instructions: Option<String>,
    /// Earlier messages; only used if the session is new.
    pub history: Vec<Message>,
    /// The session, which may be new.
    pub session: SessionId,
    pub model: Option<String>,
}

impl Say {
    pub fn add_instructions(&mut self, more: Option<String>) {
        let Some(more) = more.filter(|more| !more.trim().is_empty()) else {
            return;
        };
        self.instructions = Some(match self.instructions.take() {
            Some(before) => format!("{before}\n\n{more}"),
            None => more,
        });
    }
}

impl Inner {
    /// Waits for the session and a free turn, and runs the turn.
    pub(super) async fn say(&self, live: &Live, log: &RunLog, mut say: Say) -> Outcome {
        let seat = self.seats.seat(&say.session);
        let place = async {
            let seat = seat.take().await;
            (seat, self.turns.take().await)
        };
        let (mut seat_taken, _turn) = tokio::select! {
            biased;
            () = live.stop.cancelled() => return Outcome::Interrupted,
            place = place => place,
        };
        log.started(Some(say.session.as_str()));
        let published = Arc::new(self.published(&live.id, log));
        let setup = self.setup(&say, published.clone());
        let agent = &self.parts.agent;
        let stored = take_in_results(agent, &mut say).await;
        let conversation = match (stored, seat_taken.take()) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(mut conversation)) => {
                conversation.change_terms(setup);
                Ok(conversation)
            }
            (Ok(()), None) => open(agent, &say, setup).await,
        };
        let presence = self.presence(&say.session, published.clone());
        let mut conversation = match conversation {
            Ok(conversation) => conversation,
            Err(error) => return self.failure(&error),
        };
        tokio::select! {
            () = self.await_servers(&mut conversation) => {}
            () = live.stop.cancelled() => {}
        }
        let activity = Activity::default();
        let mut display = LogDisplay::new(log.clone(), agent.redactor(), activity.clone());
        let stop = live.stop.child_token();
        let patience = agent.settings().agent.gateway_timeout;
        let said = {
            let mut saying = match say.input {
                Some(input) => conversation.say(input, &mut display, stop.clone()).boxed(),
                None => conversation.go_on(&mut display, stop.clone()).boxed(),
            };
            tokio::select! {
                said = &mut saying => Ok(said),
                failure = overdue(&activity, patience, agent.ceiling().longest_run()) => {
                    stop.cancel();
                    // The turn ends regularly, but its answer comes too late.
                    let _ = saying.await;
                    Err(failure)
                }
            }
        };
        display.tell_thoughts();
        drop(presence);
        published.close().await;
        *seat_taken = Some(conversation);
        seat.touch();
        match said {
            Err(failure) => failure,
            Ok(Ok(answer)) if answer.end == TurnEnd::Interrupted => Outcome::Interrupted,
            Ok(Ok(answer)) => Outcome::Completed {
                usage: outcome::usage(&answer.tally),
                output: answer.text,
                client_calls: answer.client_calls,
            },
            Ok(Err(error)) => self.failure(&error),
        }
    }

    /// Elicitation of this session goes to the approver of its runs.
    fn presence(&self, session: &SessionId, approver: Arc<Published>) -> Presence {
        let agent = &self.parts.agent;
        let patience = agent.approval_patience();
        let person = ByApproval::new(approver, session.clone(), patience, agent.redactor());
        let conversation = inquiry::Conversation(session.as_str().into());
        self.parts.people.join(conversation, Arc::new(person))
    }

    fn failure(&self, error: &ConversationError) -> Outcome {
        let settings = self.parts.agent.settings();
        self.redacted(Outcome::of_error(error, conversation::tenant(&settings)))
    }

    /// Redacts credentials in the message of a failure.
    pub(super) fn redacted(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Failed { code, message } => {
                let redactor = self.parts.agent.redactor();
                Outcome::failed(code, redactor.redact(&message).into_owned())
            }
            other => other,
        }
    }

    /// Approvals of this run are published as rows and events.
    fn published(&self, run: &str, log: &RunLog) -> Published {
        let log = log.clone();
        Published::new(self.parts.agent.home().clone(), Arc::new(OthersDecide))
            .sharing(self.parts.store.clone(), self.decisions.clone())
            .in_run(run)
            .on_change(move |change| match change {
                Change::Asked(question) => {
                    let mut choices = vec!["once", "session", "always", "deny"];
                    choices.retain(|choice| *choice != "always" || question.allow_permanent);
                    log.asked(json!({
                        "approval_id": question.id,
                        "command": question.command,
                        "description": question.description,
                        "choices": choices,
                    }));
                }
                Change::Closed { id, outcome } => {
                    let choice = match outcome {
                        Closed::Answered(answer) => answer.as_str(),
                        Closed::Expired | Closed::Cancelled => "deny",
                    };
                    log.decided(json!({
                        "approval_id": id, "choice": choice, "outcome": outcome.as_str(),
                    }));
                }
            })
    }

    fn setup(&self, say: &Say, published: Arc<Published>) -> Setup {
        let directives = self.parts.agent.in_force().directives();
        Setup {
            platform: PLATFORM.into(),
            platform_note: NOTE.into(),
            wanted: Wanted {
                model: say.model.clone().or(directives.model),
                ..Wanted::default()
            },
            withheld: vec!["clarify".into()],
            instructions: say.instructions.clone(),
            client_tools: say.client_tools.clone(),
            titles: Titles::ByHand,
            ..Setup::for_cli(self.parts.directory.clone(), Consent::Ask(published))
        }
    }

    /// Waits for connecting servers; the model is told which are unavailable.
    async fn await_servers(&self, conversation: &mut Conversation) {
        let agent = &self.parts.agent;
        let left = SERVERS_AT_START.saturating_sub(self.began.elapsed());
        let limit = left.max(agent.settings().mcp.discovery_timeout);
        let missing = agent.wait_for_servers(limit).await;
        conversation.tell_missing(&missing);
    }
}

/// Resolves when a run has to be stopped: it is idle, or exceeds the policy's time limit.
async fn overdue(
    activity: &Activity,
    patience: Option<Duration>,
    longest: Option<Duration>,
) -> Outcome {
    tokio::select! {
        () = activity.silence(patience) => {
            let seconds = patience.unwrap_or_default().as_secs();
            let message = format!("it was idle for {seconds} s and was stopped");
            Outcome::failed("inactive", message)
        }
        failure = too_long(longest) => failure,
    }
}

/// Resolves when a run exceeds the policy's time limit.
pub(super) async fn too_long(longest: Option<Duration>) -> Outcome {
    let Some(longest) = longest else {
        return std::future::pending().await;
    };
    tokio::time::sleep(longest).await;
    let minutes = longest.as_secs_f64() / 60.0;
    let message = format!("it exceeded the limit of {minutes} minutes in the operator's policy and was stopped");
    Outcome::failed("too_long", message)
}

/// Adds the results of the client's calls to their session, or to the history of a new one.
async fn take_in_results(agent: &Agent, say: &mut Say) -> Result<(), ConversationError> {
    let results = std::mem::take(&mut say.results);
    if results.is_empty() {
        return Ok(());
    }
    if agent.store().session(&say.session).await?.is_some() {
        return Conversation::store_results(agent, &say.session, &results).await;
    }
    say.history.extend(results.into_iter().map(Message::Tool));
    Ok(())
}

/// The conversation of a session, new or stored.
async fn open(agent: &Agent, say: &Say, setup: Setup) -> Result<Conversation, ConversationError> {
    let id = say.session.clone();
    if agent.store().session(&id).await?.is_some() {
        let which = Which::Named(id.to_string());
        return Conversation::resume(agent.clone(), &which, setup).await;
    }
    let row = NewSession::new(id, PLATFORM);
    Ok(Conversation::begin(agent.clone(), row, setup).with_history(say.history.clone()))
}
