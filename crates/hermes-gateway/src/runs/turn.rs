//! A run of one turn in a session.

use std::{sync::Arc, time::Duration};

use hermes_agent::{
    approval::{ApprovalChange, NoLocalApprover, PublishedApprover},
    conversation,
    conversation::{
        Agent, Consent, Conversation, ConversationError, ConversationSetup, SessionReference,
        TitleSource,
    },
    message::{Content, Message, ToolResult},
    model::ModelOverrides,
    server_requests::elicitation::{ApprovalElicitationUi, ElicitationRegistration},
    turn::{Activity, ClientTools, TurnEnd},
};
use hermes_mcp::server_request;
use hermes_protocol::{ApprovalChoice, RunEvent};
use hermes_store::{NewSession, SessionId};

use super::{
    ChatSurface, LiveRun, RunsInner, TurnObserver, approvals,
    display::LogDisplay,
    log::RunLog,
    outcome::{self, RunOutcome},
};

/// How long to wait for servers, counted from the start of the gateway.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(15);
/// The same for a chat, where a person waits.
const CHAT_SERVER_TIMEOUT: Duration = Duration::from_secs(3);

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
    ) -> RunOutcome {
        let slot = self.session_slots.slot(&say.session);
        let place = async {
            let slot = slot.acquire().await;
            (slot, self.turn_slots.acquire().await)
        };
        let (mut seat_taken, _turn) = tokio::select! {
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
        let presence = self.register_elicitation(&say.session, published.clone());
        let mut conversation = match conversation {
            Ok(conversation) => conversation,
            Err(error) => return self.failed_outcome(&error),
        };
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
            }
        };
        display.flush_reasoning();
        drop(presence);
        published.close().await;
        *seat_taken = Some(conversation);
        slot.touch();
        match sent {
            Err(failure) => failure,
            Ok(Ok(answer)) if answer.end == TurnEnd::Interrupted => RunOutcome::Interrupted,
            Ok(Ok(answer)) => RunOutcome::Completed {
                usage: Some(outcome::token_usage(&answer.usage)),
                output: answer.text,
                client_calls: answer.client_calls,
            },
            Ok(Err(error)) => self.failed_outcome(&error),
        }
    }

    /// Elicitation of this session goes to the approver of its runs.
    fn register_elicitation(
        &self,
        session: &SessionId,
        approver: Arc<PublishedApprover>,
    ) -> ElicitationRegistration {
        let agent = &self.parts.agent;
        let timeout = agent.approval_timeout();
        let person =
            ApprovalElicitationUi::new(approver, session.clone(), timeout, agent.redactor());
        let conversation = server_request::ConversationId(session.as_str().into());
        self.parts
            .elicitation
            .register(conversation, Arc::new(person))
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
        let approver =
            PublishedApprover::new(self.parts.agent.home().clone(), Arc::new(NoLocalApprover))
                .with_shared_store(self.parts.store.clone(), self.decisions.clone())
                .in_run(run)
                .on_change(move |change| match change {
                    ApprovalChange::Opened {
                        approval: question,
                        link,
                    } => {
                        if let Some(observer) = &observer {
                            observer.approval_opened(question, link);
                        }
                        let mut choices = ApprovalChoice::ALL.to_vec();
                        choices.retain(|choice| {
                            *choice != ApprovalChoice::Always || question.allow_permanent
                        });
                        log.record(RunEvent::ApprovalRequest {
                            approval_id: question.id.clone(),
                            command: question.command.clone(),
                            description: question.description.clone(),
                            choices,
                        });
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

    /// Waits for connecting servers; the model is told which are unavailable. Somebody in a chat waits less.
    async fn wait_for_servers(&self, conversation: &mut Conversation, is_chat: bool) {
        let agent = &self.parts.agent;
        let most = if is_chat {
            CHAT_SERVER_TIMEOUT
        } else {
            SERVER_START_TIMEOUT
        };
        let left = most.saturating_sub(self.started_at.elapsed());
        let limit = left.max(agent.settings().mcp.discovery_timeout);
        let missing = agent.wait_for_servers(limit).await;
        conversation.set_missing_servers(&missing);
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
