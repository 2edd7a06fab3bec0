//! A runtime whose agents do what the input of a run says, one word after the other, and keep a journal of it:
//!
//! | word | what happens |
//! |---|---|
//! | `say=N` | N pieces of text |
//! | `tool` | a tool is called |
//! | `ask=COMMAND` | a tool wants an approval for this command |
//! | `form=FIELD` | a server wants a form with this field to be filled in, or one with defaults for `form=` |
//! | `page=URL` | a server wants this page to be opened |
//! | `leak=TEXT` | a tool is called with this text |
//! | `spell=TEXT` | this text, slowly and in pieces of one letter |
//! | `wait` | nothing, until the test releases it |
//! | `die` | the agent's process ends, the first time |
//! | `garble` | an event that the Hub cannot read |
//!
//! A process that ends takes its runs along: the next one finds them in the journal and calls them interrupted.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use super::{
    journal::{Journal, is_over},
    scripted_events::{
        after_using, approval_request, approval_responded, completed, form_request, page_request,
        tool_completed, tool_started,
    },
    server_replies,
};
use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use hermes_hub::{
    RunId, TenantId,
    api_types::ids::AgentRunId,
    tenants::runtime::{
        AgentEvent, AgentExit, AgentLaunch, Confinement, ExitCause, ProcessStatus, RunInput,
        Runtime, RuntimeError,
    },
};
use hermes_protocol::{
    AgentReply, AgentRequest, ApprovalDecision, Directives, RunEvent, RunFailure,
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) struct ScriptedRuntime {
    /// For the tasks of runs, which outlive the call that started them.
    this: Weak<Self>,
    state: Mutex<ScriptedState>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct ScriptedState {
    awake: HashMap<TenantId, CancellationToken>,
    ended: HashSet<TenantId>,
    starts: HashMap<TenantId, u32>,
    /// When processes are killed, as it was said last.
    deadlines: HashMap<TenantId, Instant>,
    failing_starts: u32,
    /// Number of further starts that find the previous process dead.
    unnoticed_deaths: u32,
    start_delay: Duration,
    stop_delay: Duration,
    runs: HashMap<String, Journal>,
    /// Scripts whose runs no longer wait.
    released: watch::Sender<HashSet<String>>,
    asked: HashMap<String, watch::Sender<Option<ApprovalDecision>>>,
    has_died: HashSet<String>,
    /// Streams end after that many events, if any.
    breaks_after: Option<usize>,
    directives: HashMap<TenantId, Directives>,
    /// Tenants whose agents hang when directives are applied.
    hanging: HashSet<TenantId>,
    apply_delay: Duration,
    /// What runs began with.
    directives_at_runs: Vec<(TenantId, Directives)>,
    /// Requests about models and MCP servers.
    requests: Vec<(TenantId, AgentRequest)>,
    /// Replies to the next of them, instead of the usual ones.
    replies: VecDeque<AgentReply>,
}

impl ScriptedRuntime {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            state: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ScriptedState> {
        self.state.lock().unwrap()
    }

    /// When the processes of a tenant are killed, if that was said.
    pub(crate) fn deadline(&self, tenant: &TenantId) -> Option<Instant> {
        self.lock().deadlines.get(tenant).copied()
    }

    /// How often a tenant's agent was started.
    pub(crate) fn starts(&self, tenant: &TenantId) -> u32 {
        self.lock().starts.get(tenant).copied().unwrap_or(0)
    }

    /// How often a run was started, by the Hub's id.
    pub(crate) fn begun(&self, run: &RunId) -> usize {
        let held = self.lock();
        held.runs
            .keys()
            .filter(|key| key.starts_with(run.as_str()))
            .count()
    }

    /// Whether the agent has finished a run.
    pub(crate) fn has_ended(&self, run: &RunId) -> bool {
        let held = self.lock();
        held.runs
            .iter()
            .filter(|(key, _)| key.starts_with(run.as_str()))
            .all(|(_, journal)| is_over(&journal.events.borrow()))
    }

    pub(crate) fn all_begun(&self) -> usize {
        self.lock().runs.len()
    }

    pub(crate) fn fail_starts(&self, count: u32) {
        self.lock().failing_starts = count;
    }

    /// Makes the next starts find the previous process dead.
    pub(crate) fn die_unnoticed(&self, count: u32) {
        self.lock().unnoticed_deaths = count;
    }

    pub(crate) fn slow_starts(&self, delay: Duration) {
        self.lock().start_delay = delay;
    }

    pub(crate) fn slow_stops(&self, delay: Duration) {
        self.lock().stop_delay = delay;
    }

    /// The directives of the last start or update.
    pub(crate) fn directives(&self, tenant: &TenantId) -> Option<Directives> {
        self.lock().directives.get(tenant).cloned()
    }

    pub(crate) fn hang_on_apply(&self, tenant: &TenantId) {
        self.lock().hanging.insert(tenant.clone());
    }

    pub(crate) fn delay_applying(&self, delay: Duration) {
        self.lock().apply_delay = delay;
    }

    /// The directives that a tenant's runs began with.
    pub(crate) fn directives_at_runs(&self, tenant: &TenantId) -> Vec<Directives> {
        let held = self.lock();
        let began = held.directives_at_runs.iter();
        began
            .filter(|(of, _)| of == tenant)
            .map(|(_, directives)| directives.clone())
            .collect()
    }

    pub(crate) fn break_connections(&self, after: Option<usize>) {
        self.lock().breaks_after = after;
    }

    /// The requests about models and MCP servers so far.
    pub(crate) fn requests(&self) -> Vec<(TenantId, AgentRequest)> {
        self.lock().requests.clone()
    }

    /// Replies so to the next request about models and MCP servers.
    pub(crate) fn reply_with(&self, reply: AgentReply) {
        self.lock().replies.push_back(reply);
    }

    /// Releases waiting runs with this script.
    pub(crate) fn release(&self, script: &str) {
        let released = self.lock().released.clone();
        released.send_modify(|scripts| {
            scripts.insert(script.to_owned());
        });
    }

    /// `kill -9` of a tenant's process.
    pub(crate) fn kill(&self, tenant: &TenantId) {
        let mut held = self.lock();
        if let Some(process) = held.awake.remove(tenant) {
            process.cancel();
            held.ended.insert(tenant.clone());
        }
        // No approvals are left to be answered.
        let ScriptedState { runs, asked, .. } = &mut *held;
        let of_tenant = |id: &str| {
            let mut runs = runs.iter();
            runs.any(|(key, run)| run.tenant == *tenant && id.starts_with(key.as_str()))
        };
        asked.retain(|id, _| !of_tenant(id));
    }

    pub(crate) fn kill_all(&self) {
        let awake: Vec<TenantId> = self.lock().awake.keys().cloned().collect();
        for tenant in awake {
            self.kill(&tenant);
        }
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one branch for each thing that an agent can be told to do"
    )]
    async fn run_script(self_: Weak<Self>, key: String, process: CancellationToken) {
        let get = || {
            let this = self_.upgrade()?;
            let held = this.lock();
            let journal = held.runs.get(&key)?;
            Some((
                journal.script.clone(),
                journal.stop.clone(),
                journal.tenant.clone(),
            ))
        };
        let add_any = |event: Option<RunEvent>| {
            if let Some(this) = self_.upgrade()
                && let Some(journal) = this.lock().runs.get(&key)
                && !process.is_cancelled()
            {
                journal.add(event);
            }
        };
        let add = |event: RunEvent| add_any(Some(event));
        let Some((script, stop, tenant)) = get() else {
            return;
        };
        add(RunEvent::Started { session_id: None });
        let mut said = String::new();
        for word in script.split_whitespace() {
            if stop.is_cancelled() || process.is_cancelled() {
                break;
            }
            match word.split_once('=').unwrap_or((word, "")) {
                (way @ ("say" | "spell"), text) => {
                    for piece in pieces(way, text) {
                        said.push_str(&piece);
                        add(RunEvent::delta(piece));
                        if way == "say" {
                            tokio::task::yield_now().await;
                        } else {
                            // One event each: the Hub has stored one before the next comes.
                            tokio::time::sleep(Duration::from_millis(40)).await;
                        }
                    }
                }
                ("tool", _) => {
                    add(tool_started("ls"));
                    add(tool_completed());
                }
                ("leak", text) => add(tool_started(text)),
                (way @ ("ask" | "form" | "page"), command) => {
                    add(tool_started(command));
                    let id = format!("{key}-{command}");
                    let sender = watch::Sender::new(None);
                    let mut decided = sender.subscribe();
                    if let Some(this) = self_.upgrade() {
                        this.lock().asked.insert(id.clone(), sender);
                    }
                    add(match way {
                        "ask" => approval_request(&id, command),
                        "page" => page_request(&id, command),
                        _ => form_request(&id, command),
                    });
                    tokio::select! {
                        Ok(decision) = decided.wait_for(Option::is_some) => {
                            let decision = decision.clone().unwrap();
                            said.push_str(&decision_text(&decision));
                            add(approval_responded(id, decision.choice));
                        }
                        () = stop.cancelled() => {}
                        () = process.cancelled() => {}
                    }
                }
                ("wait", _) => {
                    let Some(mut released) =
                        self_.upgrade().map(|this| this.lock().released.subscribe())
                    else {
                        return;
                    };
                    tokio::select! {
                        _ = released.wait_for(|scripts| scripts.contains(&script)) => {}
                        () = stop.cancelled() => {}
                        () = process.cancelled() => {}
                    }
                }
                ("die", _) => {
                    if let Some(this) = self_.upgrade()
                        && this.lock().has_died.insert(script.clone())
                    {
                        this.kill(&tenant);
                    }
                }
                ("fail", _) => {
                    let failure = RunFailure {
                        code: "model_error".to_owned(),
                        message: "its model failed".to_owned(),
                    };
                    add(after_using(RunEvent::failed(failure)));
                    return;
                }
                ("garble", _) => add_any(None),
                (other, _) => panic!("the script says `{other}`"),
            }
        }
        if stop.is_cancelled() {
            add(after_using(RunEvent::cancelled()));
        } else {
            add(completed(said.trim()));
        }
    }
}

/// What a script says about a decision.
fn decision_text(decision: &ApprovalDecision) -> String {
    let mut text = decision.choice.as_str().to_owned();
    if let Some(content) = &decision.content {
        text.push_str(&serde_json::to_string(content).unwrap());
    }
    if decision.cancel {
        text.push_str(" cancelled");
    }
    text
}

/// The text deltas: numbers, or the letters of a text.
fn pieces(way: &str, text: &str) -> Vec<String> {
    if way == "spell" {
        return text.chars().map(String::from).collect();
    }
    let count = text.parse().unwrap_or(1);
    (0..count).map(|number| format!("{number} ")).collect()
}

/// Where a stream is that has ended with an error.
const ENDED: usize = usize::MAX;

fn garbled() -> RuntimeError {
    RuntimeError::UnreadableEvent("`tool.stared`: it is not known".into())
}

fn not_running() -> RuntimeError {
    RuntimeError::Unreachable("it is not running".into())
}

#[async_trait]
impl Runtime for ScriptedRuntime {
    fn set_deadline(&self, tenant: &TenantId, deadline: Instant) {
        self.lock().deadlines.insert(tenant.clone(), deadline);
    }

    async fn start(&self, launch: AgentLaunch) -> Result<Vec<Confinement>, RuntimeError> {
        let delay = self.lock().start_delay;
        tokio::time::sleep(delay).await;
        let mut held = self.lock();
        if held.awake.contains_key(&launch.tenant) {
            return Ok(Vec::new());
        }
        *held.starts.entry(launch.tenant.clone()).or_default() += 1;
        if held.unnoticed_deaths > 0 {
            held.unnoticed_deaths -= 1;
            let death = AgentExit::from_cause(ExitCause::Signal(9));
            return Err(RuntimeError::Exited(death));
        }
        if held.failing_starts > 0 {
            held.failing_starts -= 1;
            return Err(RuntimeError::StartFailed("it was told to fail".into()));
        }
        for journal in held.runs.values() {
            if journal.tenant == launch.tenant {
                let failure = RunFailure {
                    code: "interrupted".to_owned(),
                    message: "its process ended".to_owned(),
                };
                journal.add(Some(after_using(RunEvent::failed(failure))));
            }
        }
        held.ended.remove(&launch.tenant);
        held.directives
            .insert(launch.tenant.clone(), launch.directives);
        held.awake.insert(launch.tenant, CancellationToken::new());
        Ok(vec![Confinement {
            means: "Sandboxed",
            in_force: true,
            reason: "scripted".into(),
        }])
    }

    async fn send_request(
        &self,
        tenant: &TenantId,
        request: &AgentRequest,
        _: Duration,
    ) -> Result<AgentReply, RuntimeError> {
        let mut held = self.lock();
        if !held.awake.contains_key(tenant) {
            return Err(not_running());
        }
        // A reader of the list is not what tests look at.
        if *request == AgentRequest::ListServers {
            let is_listed = matches!(held.replies.front(), Some(AgentReply::Servers(_)));
            let listed = is_listed.then(|| held.replies.pop_front()).flatten();
            return Ok(listed.unwrap_or_else(|| AgentReply::Servers(Vec::new())));
        }
        held.requests.push((tenant.clone(), request.clone()));
        let next = held.replies.pop_front();
        Ok(next.unwrap_or_else(|| server_replies::usual_reply(request)))
    }

    async fn stop(&self, tenant: &TenantId, _: Duration) {
        let delay = self.lock().stop_delay;
        tokio::time::sleep(delay).await;
        self.kill(tenant);
        self.lock().ended.remove(tenant);
    }

    async fn status(&self, tenant: &TenantId) -> ProcessStatus {
        let held = self.lock();
        if held.awake.contains_key(tenant) {
            ProcessStatus::Running { pid: Some(1) }
        } else if held.ended.contains(tenant) {
            ProcessStatus::Exited(AgentExit::from_cause(ExitCause::Signal(9)))
        } else {
            ProcessStatus::Stopped
        }
    }

    async fn apply(&self, tenant: &TenantId, directives: &Directives) -> Result<(), RuntimeError> {
        if self.lock().hanging.contains(tenant) {
            std::future::pending::<()>().await;
        }
        let delay = self.lock().apply_delay;
        tokio::time::sleep(delay).await;
        let mut held = self.lock();
        held.directives.insert(tenant.clone(), directives.clone());
        Ok(())
    }

    async fn run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        attempt: u32,
        run_input: &RunInput,
    ) -> Result<AgentRunId, RuntimeError> {
        let key = format!("{run}-{attempt}");
        let script = match run_input {
            RunInput::Prompt(prompt) => prompt.input.as_str().unwrap_or_default().to_owned(),
            RunInput::Job(_) => "say=1".to_owned(),
        };
        let process = {
            let mut held = self.lock();
            let process = held.awake.get(tenant).cloned().ok_or_else(not_running)?;
            if held.runs.contains_key(&key) {
                return Ok(AgentRunId(key));
            }
            if let Some(directives) = held.directives.get(tenant).cloned() {
                held.directives_at_runs.push((tenant.clone(), directives));
            }
            held.runs.insert(
                key.clone(),
                Journal {
                    tenant: tenant.clone(),
                    script,
                    events: watch::Sender::new(Vec::new()),
                    stop: CancellationToken::new(),
                },
            );
            process
        };
        self.tasks
            .spawn(Self::run_script(self.this.clone(), key.clone(), process));
        Ok(AgentRunId(key))
    }

    async fn events(
        &self,
        tenant: &TenantId,
        run: &AgentRunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<AgentEvent, RuntimeError>>, RuntimeError> {
        let held = self.lock();
        let process = held.awake.get(tenant).cloned().ok_or_else(not_running)?;
        let journal = held.runs.get(&run.0);
        let events = journal
            .ok_or_else(|| RuntimeError::Unknown("no such run".into()))?
            .events
            .subscribe();
        let most = held.breaks_after.unwrap_or(usize::MAX);
        let begin = (events, usize::try_from(after).unwrap(), process);
        let stream = futures::stream::unfold(begin, |(mut events, at, process)| async move {
            loop {
                if at == ENDED {
                    return None;
                }
                let (next, is_over) = {
                    let known = events.borrow_and_update();
                    (known.get(at).cloned(), is_over(&known))
                };
                if let Some(event) = next {
                    let sequence = at as u64 + 1;
                    return Some(match event {
                        Some(event) => (
                            Ok(AgentEvent { sequence, event }),
                            (events, at + 1, process),
                        ),
                        None => (Err(garbled()), (events, ENDED, process)),
                    });
                }
                if is_over {
                    return None;
                }
                tokio::select! {
                    changed = events.changed() => changed.ok()?,
                    () = process.cancelled() => return Some((Err(not_running()), (events, at, process))),
                }
            }
        });
        Ok(stream.take(most).boxed())
    }

    async fn decide(
        &self,
        tenant: &TenantId,
        _: &AgentRunId,
        decision: &ApprovalDecision,
    ) -> Result<(), RuntimeError> {
        let held = self.lock();
        if !held.awake.contains_key(tenant) {
            return Err(not_running());
        }
        let asked = held
            .asked
            .get(decision.approval_id.as_deref().unwrap_or_default());
        let asked = asked.ok_or_else(|| RuntimeError::Unknown("nothing was asked".into()))?;
        asked.send_replace(Some(decision.clone()));
        Ok(())
    }

    async fn stop_run(&self, tenant: &TenantId, run: &AgentRunId) -> Result<(), RuntimeError> {
        let held = self.lock();
        if !held.awake.contains_key(tenant) {
            return Err(not_running());
        }
        if let Some(journal) = held.runs.get(&run.0) {
            journal.stop.cancel();
        }
        Ok(())
    }
}
