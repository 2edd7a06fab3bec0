use hermes_agent::approval::Decision;
use hermes_config::{Platform, ServerName, sync::Mutex};
use hermes_mcp::{LinkStatus, ReloadReport, ServerStatus};
use hermes_store::SessionUsage;

use crate::{
    chat_commands::{
        BackgroundLine, ChatCommandContext, CommandCaller, CommandError, CommandFuture,
        CompressOutcome, ModelFacts, ModelRequest, ModelScope, PlatformLine, QueueOutcome,
        SessionLine, SkillLine, StatusFacts, StopOutcome, UndoOutcome, UsageFacts, WaitingApproval,
    },
    platform::{Account, ChatAddress, ChatKind, Sender},
};

/// A gateway that remembers what was asked of it.
pub(super) struct FakeGateway {
    pub(super) caller: CommandCaller,
    pub(super) done: Mutex<Vec<String>>,
    pub(super) waiting: Mutex<Vec<WaitingApproval>>,
    pub(super) allowed: Option<&'static [&'static str]>,
    pub(super) asks_reload: bool,
    pub(super) is_busy: bool,
    pub(super) fails: bool,
    pub(super) background: Mutex<Vec<BackgroundLine>>,
}

impl Default for FakeGateway {
    fn default() -> Self {
        Self {
            caller: CommandCaller {
                account: Account::first(Platform::Telegram),
                chat: ChatAddress::new("42", ChatKind::Dm),
                sender: Sender {
                    id: "42".into(),
                    name: Some("Ann".into()),
                    ..Sender::default()
                },
                is_admin: true,
                access_reason: "you were paired",
            },
            done: Mutex::new(Vec::new()),
            waiting: Mutex::new(Vec::new()),
            allowed: None,
            asks_reload: true,
            is_busy: false,
            fails: false,
            background: Mutex::default(),
        }
    }
}

impl FakeGateway {
    fn record(&self, what: impl Into<String>) {
        self.done.lock().push(what.into());
    }

    /// Records an operation and returns what it gives.
    fn finish<'a, T: Send + 'a>(&self, what: impl Into<String>, value: T) -> CommandFuture<'a, T> {
        self.record(what);
        let fails = self.fails;
        Box::pin(async move {
            if fails {
                return Err(CommandError::new("The store cannot be reached."));
            }
            Ok(value)
        })
    }

    pub(super) fn done(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock())
    }

    pub(super) fn with_waiting(subjects: &[&str]) -> Self {
        let waiting = subjects
            .iter()
            .enumerate()
            .map(|(index, subject)| WaitingApproval {
                id: format!("ap_{index}"),
                subject: (*subject).to_owned(),
                can_allow_always: !subject.starts_with("secret"),
                needs_answers: subject.starts_with("form"),
            });
        Self {
            waiting: Mutex::new(waiting.collect()),
            ..Self::default()
        }
    }
}

fn server(name: &str, status: LinkStatus, tools: usize) -> ServerStatus {
    let error = (status != LinkStatus::Ready).then(|| "connection refused\nmore".to_owned());
    ServerStatus {
        tools,
        error,
        ..ServerStatus::unconnected(&ServerName::new(name), "stdio", status)
    }
}

impl ChatCommandContext for FakeGateway {
    fn caller(&self) -> &CommandCaller {
        &self.caller
    }

    fn may_use(&self, command: &str) -> bool {
        self.allowed
            .is_none_or(|allowed| allowed.contains(&command))
    }

    fn new_session<'a>(&'a self, title: Option<&'a str>) -> CommandFuture<'a, String> {
        self.finish(
            format!("new {title:?}"),
            "20260505_120000_ab12cd34".to_owned(),
        )
    }

    fn stop_turn(&self) -> CommandFuture<'_, StopOutcome> {
        let outcome = StopOutcome {
            was_running: self.is_busy,
            dropped: if self.is_busy { 2 } else { 0 },
        };
        self.finish("stop", outcome)
    }

    fn waiting_approvals(&self) -> CommandFuture<'_, Vec<WaitingApproval>> {
        let waiting = self.waiting.lock().clone();
        Box::pin(async { Ok(waiting) })
    }

    fn decide<'a>(&'a self, approval_id: &'a str, decision: Decision) -> CommandFuture<'a, bool> {
        let mut waiting = self.waiting.lock();
        let before = waiting.len();
        waiting.retain(|one| one.id != approval_id);
        let was_there = waiting.len() < before;
        drop(waiting);
        self.finish(format!("{approval_id} {decision:?}"), was_there)
    }

    fn status(&self) -> CommandFuture<'_, StatusFacts> {
        let line = |account: &str, state: &str| PlatformLine {
            account: account.into(),
            state: state.into(),
        };
        self.finish(
            "status",
            StatusFacts {
                session_id: Some("20260505_120000_ab12cd34".into()),
                title: Some("Plans".into()),
                messages: 3,
                model: Some(ModelFacts {
                    model: "sonnet".into(),
                    provider: "anthropic".into(),
                    scope: ModelScope::Session,
                }),
                usage: SessionUsage {
                    input_tokens: 1200,
                    cache_read_tokens: 200,
                    output_tokens: 30,
                    ..SessionUsage::default()
                },
                servers: vec![
                    server("time", LinkStatus::Ready, 2),
                    server("files", LinkStatus::Parked, 0),
                ],
                platforms: vec![line("telegram", "connected"), line("slack", "deaf")],
                is_busy: true,
                queued: 1,
                waiting_approvals: 1,
                background: Vec::new(),
            },
        )
    }

    fn model(&self) -> CommandFuture<'_, Option<ModelFacts>> {
        self.finish("model", None)
    }

    fn set_model<'a>(&'a self, request: &'a ModelRequest) -> CommandFuture<'a, ModelFacts> {
        let facts = ModelFacts {
            model: request.model.clone(),
            provider: request.provider.clone().unwrap_or("openai".into()),
            scope: request.scope,
        };
        self.finish(format!("model {request:?}"), facts)
    }

    fn list_sessions(&self) -> CommandFuture<'_, Vec<SessionLine>> {
        let line = |id: &str, title: Option<&str>, is_current| SessionLine {
            id: id.into(),
            title: title.map(str::to_owned),
            preview: Some("what is the plan?".into()),
            messages: 4,
            last_active: "2 h ago".into(),
            is_current,
        };
        self.finish(
            "sessions",
            vec![line("s2", None, true), line("s1", Some("Plans"), false)],
        )
    }

    fn switch_session<'a>(&'a self, session: &'a str) -> CommandFuture<'a, SessionLine> {
        let line = SessionLine {
            id: "s1".into(),
            title: Some("Plans".into()),
            preview: None,
            messages: 1,
            last_active: "yesterday".into(),
            is_current: true,
        };
        self.finish(format!("resume {session}"), line)
    }

    fn undo(&self, turns: u32) -> CommandFuture<'_, UndoOutcome> {
        let text = "delete it\nplease".to_owned();
        self.finish(format!("undo {turns}"), UndoOutcome { turns, text })
    }

    fn retry(&self) -> CommandFuture<'_, ()> {
        self.finish("retry", ())
    }

    fn title(&self) -> CommandFuture<'_, Option<String>> {
        self.finish("title", None)
    }

    fn set_title<'a>(&'a self, title: &'a str) -> CommandFuture<'a, String> {
        self.finish(format!("title {title}"), title.to_owned())
    }

    fn usage(&self) -> CommandFuture<'_, Option<UsageFacts>> {
        let total = SessionUsage {
            api_calls: 1,
            input_tokens: 10,
            output_tokens: 5,
            estimated_cost_usd: Some(0.0123),
            ..SessionUsage::default()
        };
        self.finish(
            "usage",
            Some(UsageFacts {
                total,
                models: Vec::new(),
            }),
        )
    }

    fn set_home(&self) -> CommandFuture<'_, ()> {
        self.finish("sethome", ())
    }

    fn plan_mcp_reload(&self) -> CommandFuture<'_, (ReloadReport, bool)> {
        let report = ReloadReport {
            added: vec!["time".into()],
            unchanged: vec!["files".into()],
            ..ReloadReport::default()
        };
        self.finish("plan", (report, self.asks_reload))
    }

    fn reload_mcp(&self, is_remembered: bool) -> CommandFuture<'_, ReloadReport> {
        let report = ReloadReport {
            added: vec!["time".into()],
            ..ReloadReport::default()
        };
        self.finish(format!("reload {is_remembered}"), report)
    }

    fn mcp_servers(&self) -> CommandFuture<'_, Vec<ServerStatus>> {
        let servers = vec![
            server("time", LinkStatus::Ready, 2),
            server("files", LinkStatus::Parked, 0),
        ];
        self.finish("servers", servers)
    }

    fn compress(&self) -> CommandFuture<'_, CompressOutcome> {
        let outcome = CompressOutcome {
            messages_before: 40,
            messages_after: 6,
        };
        self.finish("compress", outcome)
    }

    fn queue<'a>(&'a self, text: &'a str) -> CommandFuture<'a, QueueOutcome> {
        let outcome = if self.is_busy {
            QueueOutcome::Queued { place: 2 }
        } else {
            QueueOutcome::Started
        };
        self.finish(format!("queue {text}"), outcome)
    }

    fn run_in_background<'a>(&'a self, text: &'a str) -> CommandFuture<'a, String> {
        self.finish(format!("background {text}"), "bg1".to_owned())
    }

    fn background(&self) -> CommandFuture<'_, Vec<BackgroundLine>> {
        let work = self.background.lock().clone();
        Box::pin(async { Ok(work) })
    }

    fn stop_background<'a>(
        &'a self,
        name: Option<&'a str>,
    ) -> CommandFuture<'a, Vec<BackgroundLine>> {
        let mut work = self.background.lock();
        let is_meant = |line: &mut BackgroundLine| name.is_none_or(|name| line.name == name);
        let ended: Vec<BackgroundLine> = work.extract_if(.., is_meant).collect();
        drop(work);
        Box::pin(async { Ok(ended) })
    }

    fn skills(&self) -> CommandFuture<'_, Vec<SkillLine>> {
        let skill = SkillLine {
            name: "haiku".into(),
            description: "Writes haiku\nwell".into(),
        };
        self.finish("skills", vec![skill])
    }

    fn reload_skills(&self) -> CommandFuture<'_, usize> {
        self.finish("reload skills", 3)
    }

    fn use_skill<'a>(&'a self, name: &'a str, text: &'a str) -> CommandFuture<'a, bool> {
        self.finish(format!("skill {name} {text}"), name == "haiku")
    }
}
