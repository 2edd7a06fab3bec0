//! A run of one turn in a session.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hermes_agent::{
    approval::{ApprovalChange, NoLocalApprover, PublishedApprover},
    conversation,
    conversation::{
        Agent, Consent, Conversation, ConversationError, ConversationSetup, SessionReference,
        TitleSource,
    },
    message::{Content, Message, ToolResult},
    model::ModelOverrides,
    server_requests::elicitation::{ApprovalElicitationUi, ElicitationRegistration, ElicitationUi},
    turn::{Activity, ClientTools, TurnEnd},
};
use hermes_mcp::server_request;
use hermes_protocol::RunEvent;
use hermes_store::{NewSession, SessionId};

use super::{
    ChatSurface, LiveRun, RunSource, RunsInner, TurnObserver, approvals,
    display::LogDisplay,
    elicitation::RunElicitationUi,
    log::RunLog,
    outcome::{self, RunOutcome},
    session_slots::SessionQueueEntry,
};

/// How long a program waits for servers, counted from the start of the gateway.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(15);

/// After so long the model has the request of a turn, and everything before it is stored.
const REQUEST_TIME: Duration = Duration::from_millis(20);

const PLATFORM: &str = "api_server";
const PLATFORM_NOTE: &str = "Your answers go to a program over an HTTP API; it shows them to somebody, or uses them as they are.";

/// Something to say, and where.
#[derive(Debug, Clone)]
pub struct TurnRequest {
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
    /// The chat it takes place in; `None` for the local API.
    pub surface: Option<Box<ChatSurface>>,
}

impl TurnRequest {
    fn observer(&self) -> Option<Arc<dyn TurnObserver>> {
        Some(self.surface.as_ref()?.observer.clone())
    }

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

impl RunsInner {
    /// Waits for the session and a free turn, and runs the turn.
    pub(super) async fn execute_turn(
        &self,
        live: &LiveRun,
        log: &RunLog,
        mut say: TurnRequest,
        place: SessionQueueEntry,
    ) -> RunOutcome {
        let place = async {
            let (slot, conversation) = place.acquire().await;
            (slot, conversation, self.turn_slots.acquire().await)
        };
        let (slot, mut seat_taken, _turn) = tokio::select! {
            biased;
            () = live.stop.cancelled() => return RunOutcome::Interrupted,
            place = place => place,
        };
        log.record(RunEvent::Started {
            session_id: Some(say.session.to_string()),
        });
        let observer = say.observer();
        if let Some(observer) = &observer {
            observer.turn_started(&live.id);
        }
        let published = Arc::new(self.published_approver(&live.id, log, &say));
        let setup = self.conversation_setup(&say, published.clone());
        let agent = &self.parts.agent;
        let stored = ingest_results(agent, &mut say).await;
        let conversation = match (stored, seat_taken.take()) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(mut conversation)) => {
                conversation.apply_setup(setup);
                Ok(conversation)
            }
            (Ok(()), None) => open_conversation(agent, &say, setup).await,
        };
        let presence = self.register_elicitation(&say, live.source, published.clone());
        let mut conversation = match conversation {
            Ok(conversation) => conversation,
            Err(error) => return self.failed_outcome(&error),
        };
        slot.set_commands(conversation.background_commands());
        tokio::select! {
            () = self.wait_for_servers(&mut conversation, observer.is_some()) => {}
            () = live.stop.cancelled() => {}
        }
        let activity = Activity::default();
        let mut display = LogDisplay::new(log.clone(), agent.redactor(), activity.clone())
            .with_observer(observer);
        let stop = live.stop.child_token();
        let timeout = agent.settings().agent.gateway_timeout;
        let sent = {
            let mut saying = match say.input {
                Some(input) => conversation.send_user_message(input, &mut display, stop.clone()),
                None => conversation.continue_turn(&mut display, stop.clone()),
            };
            tokio::select! {
                sent = &mut saying => Ok(sent),
                failure = wait_until_overdue(&activity, timeout, agent.policy().max_run_time()) => {
                    stop.cancel();
                    // The turn ends regularly, but its answer comes too late.
                    let _ = saying.await;
                    Err(failure)
                }
                never = self.use_model_pause() => match never {},
            }
        };
        display.flush_reasoning();
        drop(presence);
        published.close().await;
        slot.touch(conversation.message_bytes());
        live.note_use(conversation.last_usage());
        *seat_taken = Some(conversation);
        match sent {
            Err(failure) => failure,
            Ok(Ok(answer)) if answer.end == TurnEnd::Interrupted => RunOutcome::Interrupted,
            Ok(Ok(answer)) => RunOutcome::Completed {
                usage: Some(outcome::token_usage(&answer.usage)),
                model: outcome::answering_model(answer.usage),
                output: answer.text,
                client_calls: answer.client_calls,
            },
            Ok(Err(error)) => self.failed_outcome(&error),
        }
    }

    /// Elicitation of this session goes to the approver of its runs. People of a chat can fill in forms, and those who
    /// watch a run; a client that only waits for the answer sees none.
    fn register_elicitation(
        &self,
        say: &TurnRequest,
        source: RunSource,
        approver: Arc<PublishedApprover>,
    ) -> ElicitationRegistration {
        let agent = &self.parts.agent;
        let (session, redactor) = (say.session.clone(), agent.redactor());
        let conversation = server_request::ConversationId(session.as_str().into());
        let person: Arc<dyn ElicitationUi> = if source == RunSource::Chat {
            let timeout = agent.approval_timeout();
            Arc::new(ApprovalElicitationUi::new(
                approver, session, timeout, redactor,
            ))
        } else {
            Arc::new(RunElicitationUi {
                approver,
                questions: self.questions.clone(),
                session,
                redactor,
            })
        };
        self.parts.elicitation.register(conversation, person)
    }

    /// Copies the logs of the databases back while the model answers: nobody waits for a write then.
    async fn use_model_pause(&self) -> Infallible {
        tokio::time::sleep(REQUEST_TIME).await;
        self.parts.agent.store().checkpoint_in_pause().await;
        self.parts.store.checkpoint_in_pause().await;
        std::future::pending().await
    }

    fn failed_outcome(&self, error: &ConversationError) -> RunOutcome {
        let settings = self.parts.agent.settings();
        self.redact_outcome(RunOutcome::from_error(
            error,
            conversation::hosting_tenant(&settings),
        ))
    }

    /// Redacts credentials in the message of a failure.
    pub(super) fn redact_outcome(&self, outcome: RunOutcome) -> RunOutcome {
        match outcome {
            RunOutcome::Failed(mut failure) => {
                let redactor = self.parts.agent.redactor();
                failure.message = redactor.redact(&failure.message).into_owned();
                RunOutcome::Failed(failure)
            }
            other => other,
        }
    }

    /// Approvals of this run are published as rows and events.
    fn published_approver(&self, run: &str, log: &RunLog, say: &TurnRequest) -> PublishedApprover {
        let log = log.clone();
        let observer = say.observer();
        let questions = self.questions.clone();
        let redactor = self.parts.agent.redactor();
        let approver =
            PublishedApprover::new(self.parts.agent.home().clone(), Arc::new(NoLocalApprover))
                .with_shared_store(self.parts.store.clone(), self.decisions.clone())
                .in_run(run)
                .on_change(move |change| match change {
                    ApprovalChange::Opened {
                        approval,
                        needs_answers,
                    } => {
                        let question = questions.find(&approval.id);
                        if let Some(observer) = &observer {
                            observer.approval_opened(approval, question.clone());
                        }
                        log.record(approvals::request_event(
                            approval,
                            needs_answers,
                            question,
                            &redactor,
                        ));
                    }
                    ApprovalChange::Closed { id, outcome } => {
                        log.record(approvals::responded_event(id, outcome));
                        if let Some(observer) = &observer {
                            observer.approval_closed(id, outcome);
                        }
                    }
                });
        match &say.surface {
            Some(chat) => approver.in_chat(chat.session_key.clone()),
            None => approver,
        }
    }

    fn conversation_setup(
        &self,
        say: &TurnRequest,
        published: Arc<PublishedApprover>,
    ) -> ConversationSetup {
        let policy = self.parts.agent.policy();
        let model = say.model.as_deref().or(policy.model());
        let mut setup = ConversationSetup {
            platform: PLATFORM.into(),
            platform_note: PLATFORM_NOTE.into(),
            model_overrides: ModelOverrides {
                model: model.map(str::to_owned),
                ..ModelOverrides::default()
            },
            excluded_toolsets: vec!["clarify".into()],
            instructions: say.instructions.clone(),
            client_tools: say.client_tools.clone(),
            titles: TitleSource::Manual,
            ..ConversationSetup::for_cli(self.parts.directory.clone(), Consent::Ask(published))
        };
        if let Some(chat) = &say.surface {
            setup.platform.clone_from(&chat.platform);
            setup.platform_note.clone_from(&chat.platform_note);
            setup.model_overrides.provider.clone_from(&chat.provider);
            setup.titles = TitleSource::Generated;
            setup.cron_origin.clone_from(&chat.cron_origin);
            setup.platform_message_id.clone_from(&chat.message_id);
            setup.user_note.clone_from(&chat.note);
        }
        setup
    }

    /// Waits for connecting servers; the model is told which are unavailable.
    async fn wait_for_servers(&self, conversation: &mut Conversation, is_chat: bool) {
        let agent = &self.parts.agent;
        let configured = agent.settings().mcp.discovery_timeout;
        let limit = server_wait(is_chat, configured, self.started_at.elapsed());
        let missing = agent.wait_for_servers(limit).await;
        conversation.set_missing_servers(&missing);
    }
}

/// How long a turn waits for connecting servers, so long after the start of the gateway. In a chat a person waits, so
/// `mcp_discovery_timeout` counts once, from the start: later turns have what is there, and servers join between turns.
fn server_wait(is_chat: bool, configured: Duration, since_start: Duration) -> Duration {
    if is_chat {
        configured.saturating_sub(since_start)
    } else {
        let left = SERVER_START_TIMEOUT.saturating_sub(since_start);
        left.max(configured)
    }
}

/// Resolves when a run has to be stopped: it is idle, or exceeds the policy's time limit.
async fn wait_until_overdue(
    activity: &Activity,
    timeout: Option<Duration>,
    longest: Option<Duration>,
) -> RunOutcome {
    tokio::select! {
        () = activity.wait_for_idle(timeout) => {
            let seconds = timeout.unwrap_or_default().as_secs();
            let message = format!("it was idle for {seconds} s and was stopped");
            RunOutcome::failed("inactive", message)
        }
        failure = wait_for_max_run_time(longest) => failure,
    }
}

/// Resolves when a run exceeds the policy's time limit.
pub(super) async fn wait_for_max_run_time(longest: Option<Duration>) -> RunOutcome {
    let Some(longest) = longest else {
        return std::future::pending().await;
    };
    tokio::time::sleep(longest).await;
    let minutes = longest.as_secs_f64() / 60.0;
    let message = format!(
        "it exceeded the limit of {minutes} minutes in the operator's policy and was stopped"
    );
    RunOutcome::failed("too_long", message)
}

/// Adds the results of the client's calls to their session, or to the history of a new one.
async fn ingest_results(agent: &Agent, say: &mut TurnRequest) -> Result<(), ConversationError> {
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
async fn open_conversation(
    agent: &Agent,
    say: &TurnRequest,
    setup: ConversationSetup,
) -> Result<Conversation, ConversationError> {
    let id = say.session.clone();
    if agent.store().session(&id).await?.is_some() {
        let which = SessionReference::Named(id.to_string());
        return Conversation::resume(agent.clone(), &which, setup).await;
    }
    let row = match &say.surface {
        Some(chat) => chat.row.clone(),
        None => NewSession::new(id, PLATFORM),
    };
    Ok(Conversation::new(agent.clone(), row, setup).with_history(say.history.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_moments_of_a_gateway_make_a_chat_wait_for_servers() {
        let configured = Duration::from_millis(1500);
        let wait = |is_chat, since_start| {
            let since_start = Duration::from_millis(since_start);
            server_wait(is_chat, configured, since_start).as_millis()
        };
        assert_eq!(wait(true, 0), 1500);
        assert_eq!(wait(true, 1000), 500);
        assert_eq!(wait(true, 1500), 0);
        assert_eq!(wait(true, 600_000), 0);
        assert_eq!(wait(false, 0), 15_000);
        assert_eq!(wait(false, 600_000), 1500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_takes_longer_than_the_policy_allows_is_stopped_then_and_not_before() {
        let begun = tokio::time::Instant::now();
        let RunOutcome::Failed(failure) =
            wait_until_overdue(&Activity::default(), None, Some(Duration::from_mins(5))).await
        else {
            panic!("it did not fail");
        };
        assert_eq!(begun.elapsed().as_secs(), 300);
        assert_eq!(failure.code, "too_long");
        assert!(failure.message.contains("5 minutes"), "{}", failure.message);
    }
}
