//! What commands do to the conversation of their chat.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use hermes_agent::{
    approval::{Decision, SubmitOutcome, SubmittedDecision},
    message::Content,
};
use hermes_config::{ConfigFile, Settings, to_hex};
use hermes_mcp::{Host, ReloadReport, ServerStatus};
use hermes_store::{Session, SessionId, runtime::ApprovalAnswer};
use jiff::Zoned;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    access::{AccessDecision, is_admin, may_use_command},
    chat_commands::{
        BackgroundLine, ChatCommandContext, CommandCaller, CommandError, CompressOutcome,
        ModelFacts, ModelRequest, PlatformLine, QueueOutcome, SessionLine, SkillLine, StatusFacts,
        StopOutcome, UndoOutcome, UsageFacts, WaitingApproval, write_home_channel,
    },
    inbound::{
        InboundCore,
        approvals::deciding::decided_by,
        session_worker::WorkerInput,
        session_worker::{
            turn_handle::TurnHandle,
            waiting_turns::{MergePolicy, WaitingTurn, WorkerState},
        },
    },
    platform::{InboundKind, InboundMessage},
};

/// A command while it is executed.
pub(in crate::inbound) struct CommandRun {
    pub(in crate::inbound) core: Arc<InboundCore>,
    pub(in crate::inbound) input: WorkerInput,
    state: Arc<WorkerState>,
    caller: CommandCaller,
    /// Whether a turn takes over what the command began, and its update with it.
    is_taken_over: AtomicBool,
}

type Outcome<'a, T> = BoxFuture<'a, Result<T, CommandError>>;

pub(in crate::inbound) fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::new(format!("That did not work: {error}"))
}

impl CommandRun {
    pub(in crate::inbound) fn new(
        core: Arc<InboundCore>,
        mut input: WorkerInput,
        state: Arc<WorkerState>,
    ) -> Self {
        // A command that becomes a turn is begun twice by each process: as a command, and as a turn.
        input.attempts -= input.attempts / 2;
        let settings = core.gateway.agent().settings();
        let chat = &input.chat;
        let sender = input.event.sender.clone().unwrap_or_default();
        let granted = core.authorize_event(&chat.account, &input.event, &settings.gateway);
        let caller = CommandCaller {
            account: chat.account.account.clone(),
            chat: chat.address.clone(),
            is_admin: is_admin(&chat.account.settings.access, &chat.address, &sender.id),
            access_reason: match granted {
                AccessDecision::Allowed(grant) => grant.reason(),
                _ => "",
            },
            sender,
        };
        Self {
            core,
            input,
            state,
            caller,
            is_taken_over: AtomicBool::new(false),
        }
    }

    pub(in crate::inbound) fn is_taken_over(&self) -> bool {
        self.is_taken_over.load(Ordering::Relaxed)
    }

    /// Goes on with the turn that a command began before the last process ended. Returns whether there was one.
    pub(in crate::inbound) async fn resume_turn(&self) -> bool {
        let (Ok(session), Some(message)) = (self.session_id().await, self.input.message()) else {
            return false;
        };
        let store = self.core.gateway.agent().store();
        let turn = store.platform_turn(&session, &message.id).await;
        let is_begun = matches!(turn, Ok(Some(_)));
        if is_begun {
            self.push_turn(WaitingTurn::new(self.input.clone()));
        }
        is_begun
    }

    pub(in crate::inbound) async fn session_id(&self) -> Result<SessionId, CommandError> {
        let chat = &self.input.chat;
        let session = self.core.routing.session(&chat.key, &chat.origin).await;
        Ok(session.map_err(failed)?.id)
    }

    /// The stored session of the chat; none before the first message.
    pub(in crate::inbound) async fn stored_session(&self) -> Result<Option<Session>, CommandError> {
        let id = self.session_id().await?;
        let store = self.core.gateway.agent().store();
        store.session(&id).await.map_err(failed)
    }

    /// Refuses while a turn goes on, which would be changed under its hands.
    pub(in crate::inbound) fn check_idle(&self) -> Result<(), CommandError> {
        if self.state.is_busy() {
            return Err(CommandError::new(
                "An answer is under way. `/stop` ends it.",
            ));
        }
        Ok(())
    }

    /// The session of work in the background: the same for the same command, so that the next process goes on with it.
    fn background_session(&self) -> SessionId {
        let key = crate::inbound::dedupe_key("background", &self.input.key);
        let digest = Sha256::digest(key.as_bytes());
        let id = SessionId::parse(&format!("background_{}", to_hex(&digest[..12])));
        id.unwrap_or_else(|_| SessionId::for_gateway(&Zoned::now()))
    }

    /// A turn that says this, in the place of the command.
    pub(in crate::inbound) fn turn_with(&self, content: impl Into<Content>) -> WaitingTurn {
        WaitingTurn {
            content: Some(content.into()),
            ..WaitingTurn::new(self.input.clone())
        }
    }

    pub(in crate::inbound) fn push_turn(&self, turn: WaitingTurn) -> QueueOutcome {
        self.is_taken_over.store(true, Ordering::Relaxed);
        let is_busy = self.state.is_busy();
        match self.state.push(turn) {
            1 if !is_busy => QueueOutcome::Started,
            place => QueueOutcome::Queued { place },
        }
    }

    pub(in crate::inbound) fn load_settings(&self) -> Result<Settings, CommandError> {
        self.core.gateway.load_settings().map_err(failed)
    }
}

impl ChatCommandContext for CommandRun {
    fn caller(&self) -> &CommandCaller {
        &self.caller
    }

    fn may_use(&self, command: &str) -> bool {
        let chat = &self.input.chat;
        let access = &chat.account.settings.access;
        may_use_command(access, &chat.address, &self.caller.sender.id, command)
    }

    fn stop_turn(&self) -> Outcome<'_, StopOutcome> {
        Box::pin(async move {
            let dropped = self.state.take_waiting();
            for input in dropped.iter().flat_map(|turn| &turn.inputs) {
                self.core.finish(&input.key).await;
            }
            let key = &self.input.chat.key;
            let deferred = self.core.drop_deferred(key, &self.state).await;
            Ok(StopOutcome {
                was_running: self.state.stop_turn(&self.core),
                dropped: dropped.len() + deferred,
            })
        })
    }

    fn waiting_approvals(&self) -> Outcome<'_, Vec<WaitingApproval>> {
        Box::pin(async move {
            let store = self.core.gateway.store();
            let mut waiting = Vec::new();
            for id in self.core.cards.of_session(&self.input.chat.key) {
                if let Some(approval) = store.approval(&id).await.map_err(failed)? {
                    waiting.push(WaitingApproval {
                        needs_answers: self.core.cards.needs_answers(&id),
                        id,
                        subject: approval.command,
                        can_allow_always: approval.allow_permanent,
                    });
                }
            }
            Ok(waiting)
        })
    }

    fn decide<'a>(&'a self, approval_id: &'a str, decision: Decision) -> Outcome<'a, bool> {
        Box::pin(async move {
            let (answer, reason) = match decision {
                Decision::Once => (ApprovalAnswer::Once, None),
                Decision::Session => (ApprovalAnswer::Session, None),
                Decision::Always => (ApprovalAnswer::Always, None),
                Decision::Denied { reason } => (ApprovalAnswer::Deny, reason),
            };
            let by = decided_by(self.input.event.sender.as_ref(), &self.input.chat);
            let decision = SubmittedDecision {
                reason,
                ..SubmittedDecision::new(answer, by)
            };
            let outcome = self
                .core
                .gateway
                .runs()
                .decide_approval(approval_id, decision);
            Ok(outcome == SubmitOutcome::Accepted)
        })
    }

    fn status(&self) -> Outcome<'_, StatusFacts> {
        Box::pin(async move {
            let gateway = &self.core.gateway;
            let session = self.stored_session().await?;
            let platforms = gateway.instance().state().platforms.into_iter();
            let count = |count: i64| usize::try_from(count).unwrap_or_default();
            Ok(StatusFacts {
                session_id: Some(self.session_id().await?.to_string()),
                title: session.as_ref().and_then(|session| session.title.clone()),
                messages: session
                    .as_ref()
                    .map_or(0, |session| count(session.message_count)),
                usage: session.map(|session| session.usage).unwrap_or_default(),
                model: self.model_facts().await?,
                servers: gateway.agent().host().map(Host::status).unwrap_or_default(),
                platforms: platforms
                    .map(|(account, state)| PlatformLine {
                        account,
                        state: state.state,
                    })
                    .collect(),
                is_busy: self.state.is_busy(),
                queued: self.state.queue_length(),
                waiting_approvals: self.core.cards.of_session(&self.input.chat.key).len(),
                background: self.core.background_work(&self.input.chat.key),
            })
        })
    }

    fn model(&self) -> Outcome<'_, Option<ModelFacts>> {
        Box::pin(self.model_facts())
    }

    fn title(&self) -> Outcome<'_, Option<String>> {
        Box::pin(async move {
            let session = self.stored_session().await?;
            Ok(session.and_then(|session| session.title))
        })
    }

    fn usage(&self) -> Outcome<'_, Option<UsageFacts>> {
        Box::pin(async move {
            let Some(session) = self.stored_session().await? else {
                return Ok(None);
            };
            let store = self.core.gateway.agent().store();
            let models = store.model_usage(&session.id).await.map_err(failed)?;
            Ok(Some(UsageFacts {
                total: session.usage,
                models,
            }))
        })
    }

    fn set_home(&self) -> Outcome<'_, ()> {
        Box::pin(async move {
            let chat = &self.input.chat;
            let mut address = chat.address.clone();
            // The thread that begins with this command is where it is answered, and nobody's home.
            let own = self.input.message().map(|message| message.id.as_str());
            address.thread_id = address
                .thread_id
                .filter(|thread| Some(thread.as_str()) != own);
            write_home_channel(self.core.gateway.home(), &chat.account.account, &address)
                .map_err(failed)?;
            self.core.gateway.reload(self.load_settings()?).await;
            Ok(())
        })
    }

    fn plan_mcp_reload(&self) -> Outcome<'_, (ReloadReport, bool)> {
        Box::pin(async move {
            let settings = self.load_settings()?;
            let is_asked = settings.mcp.reload_confirm;
            let plan = match self.core.gateway.agent().host() {
                Some(host) => host.plan_reload(&settings).await,
                None => ReloadReport::default(),
            };
            Ok((plan, is_asked))
        })
    }

    fn reload_mcp(&self, is_remembered: bool) -> Outcome<'_, ReloadReport> {
        Box::pin(async move {
            if is_remembered {
                let mut file = ConfigFile::open(self.core.gateway.home()).map_err(failed)?;
                file.set(&["approvals", "mcp_reload_confirm"], json!(false));
                file.save().map_err(failed)?;
            }
            let settings = self.load_settings()?;
            let report = self.core.gateway.reload(settings).await;
            Ok(report.unwrap_or_default())
        })
    }

    fn mcp_servers(&self) -> Outcome<'_, Vec<ServerStatus>> {
        Box::pin(async move {
            let host = self.core.gateway.agent().host();
            Ok(host.map(Host::status).unwrap_or_default())
        })
    }

    fn queue<'a>(&'a self, text: &'a str) -> Outcome<'a, QueueOutcome> {
        Box::pin(async move {
            let mut input = self.input.clone();
            let id = input.message().map(|message| message.id.clone());
            input.event.kind = InboundKind::Message(Box::new(InboundMessage {
                id: id.unwrap_or_default(),
                text: text.to_owned(),
                ..InboundMessage::default()
            }));
            Ok(self.push_turn(WaitingTurn {
                joining: MergePolicy::Never,
                ..WaitingTurn::new(input)
            }))
        })
    }

    fn background(&self) -> Outcome<'_, Vec<BackgroundLine>> {
        let work = self.core.background_work(&self.input.chat.key);
        Box::pin(std::future::ready(Ok(work)))
    }

    fn stop_background<'a>(&'a self, name: Option<&'a str>) -> Outcome<'a, Vec<BackgroundLine>> {
        Box::pin(async move {
            let key = &self.input.chat.key;
            Ok(self.core.stop_background(key, name).await)
        })
    }

    fn run_in_background<'a>(&'a self, text: &'a str) -> Outcome<'a, String> {
        Box::pin(async move {
            self.is_taken_over.store(true, Ordering::Relaxed);
            let turn = WaitingTurn {
                session: Some(self.background_session()),
                ..self.turn_with(text)
            };
            // It is tracked by the gateway, and belongs to no worker.
            let handle = Arc::new(TurnHandle::default());
            let running = self.core.spawn_turn(turn, handle.clone(), None);
            let ended = async move {
                // It catches its own panics.
                let _ = running.await;
            };
            let key = &self.input.chat.key;
            Ok(self.core.follow_background_turn(key, text, handle, ended))
        })
    }

    fn skills(&self) -> Outcome<'_, Vec<SkillLine>> {
        Box::pin(async move {
            let skills = self.core.gateway.agent().skills().list();
            Ok(skills
                .into_iter()
                .map(|skill| SkillLine {
                    name: skill.name,
                    description: skill.description,
                })
                .collect())
        })
    }

    fn reload_skills(&self) -> Outcome<'_, usize> {
        // They are read from their directories whenever they are used.
        Box::pin(async move { Ok(self.core.gateway.agent().skills().list().len()) })
    }

    fn new_session<'a>(&'a self, title: Option<&'a str>) -> Outcome<'a, String> {
        Box::pin(self.begin_session(title))
    }

    fn set_model<'a>(&'a self, request: &'a ModelRequest) -> Outcome<'a, ModelFacts> {
        Box::pin(self.choose_model(request))
    }

    fn list_sessions(&self) -> Outcome<'_, Vec<SessionLine>> {
        Box::pin(self.session_lines())
    }

    fn switch_session<'a>(&'a self, session: &'a str) -> Outcome<'a, SessionLine> {
        Box::pin(self.resume_session(session))
    }

    fn undo(&self, turns: u32) -> Outcome<'_, UndoOutcome> {
        Box::pin(self.undo_turns(turns))
    }

    fn retry(&self) -> Outcome<'_, ()> {
        Box::pin(self.retry_turn())
    }

    fn set_title<'a>(&'a self, title: &'a str) -> Outcome<'a, String> {
        Box::pin(self.rename_session(title))
    }

    fn compress(&self) -> Outcome<'_, CompressOutcome> {
        Box::pin(self.compress_session())
    }

    fn use_skill<'a>(&'a self, name: &'a str, text: &'a str) -> Outcome<'a, bool> {
        Box::pin(std::future::ready(Ok(self.begin_skill_turn(name, text))))
    }
}
