//! One run of a job: the script, the prompt, and the conversation with a model.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hermes_config::{Home, Settings};
use hermes_mcp::{process::GuardHandle, tools::toolset};
use hermes_store::{
    EndReason, NewSession, SessionId,
    cron::{Job, last_output},
};
use jiff::Zoned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    RunObserver, SERVER_TIMEOUT, script,
    script::{ScriptError, ScriptOutput},
    string_list,
};
use crate::{
    approval::DenyAllApprover,
    conversation::{
        self, Agent, Consent, Conversation, ConversationSetup, ProjectRules, TitleSource,
    },
    cron::report::{RunReport, extract_message},
    model::ModelOverrides,
    tools::terminal::{TerminalSettings, child_environment},
    turn::{Activity, TurnEnd, TurnEvent},
};

/// How long a run may be idle without `HERMES_CRON_TIMEOUT`.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_mins(10);

const PLATFORM: &str = "cron";
/// Among a job's toolsets: no MCP servers.
const NO_MCP: &str = "no_mcp";

const PLATFORM_NOTE: &str = "You run a cron job. Nobody is present and nobody can answer you: decide what is unclear \
    yourself. Your last message is the result and is delivered as it is. If there is nothing to report, answer with \
    exactly [SILENT].";

/// Toolsets that need a person, or would let jobs create jobs.
const EXCLUDED_TOOLSETS: [&str; 3] = ["cronjob", "messaging", "clarify"];

pub(super) struct JobRun<'a> {
    pub(super) job: &'a Job,
    pub(super) home: &'a Home,
    /// The working directory if the job names none.
    pub(super) default_directory: Option<&'a Path>,
    pub(super) settings: &'a Settings,
    pub(super) guard: Option<&'a Arc<GuardHandle>>,
    /// Or why there is none.
    pub(super) agent: Result<&'a Agent, &'a str>,
    pub(super) started_at: &'a Zoned,
    pub(super) observe: &'a RunObserver<'a>,
}

impl JobRun<'_> {
    pub(super) async fn run(&self, cancel: &CancellationToken) -> RunReport {
        let directory = self.directory();
        if !directory.is_dir() {
            let shown = directory.display();
            return RunReport::failed(format!("its working directory `{shown}` does not exist"));
        }
        let stopped = || RunReport::failed("it was interrupted");
        let script = match self.job_text("script") {
            None => None,
            Some(name) => tokio::select! {
                outcome = self.run_script(name) => Some((name, outcome)),
                () = cancel.cancelled() => return stopped(),
            },
        };
        match (self.job.get("no_agent").and_then(Value::as_bool), script) {
            (Some(true), None) => RunReport::failed("it has neither an agent nor a script"),
            (Some(true), Some((name, outcome))) => script_report(name, outcome),
            (_, Some((_, Err(error)))) => RunReport::failed(error.to_string()),
            (_, Some((name, Ok(outcome)))) => self.run_agent(Some((name, outcome)), cancel).await,
            (_, None) => self.run_agent(None, cancel).await,
        }
    }

    async fn run_script(&self, name: &str) -> Result<ScriptOutput, ScriptError> {
        let settings = match self.agent {
            Ok(agent) => agent.terminal_settings(self.settings, agent.environment()),
            Err(_) => TerminalSettings::from_document(&self.settings.document, std::env::vars_os()),
        };
        let environment = script::ScriptEnvironment {
            environment: child_environment(&settings, self.home.path()),
            confinement: settings.confinement,
            guard: settings.guard.or_else(|| self.guard.cloned()),
        };
        let timeout = idle_timeout(self.settings);
        script::run_script(self.home, name, &self.directory(), environment, timeout).await
    }

    async fn run_agent(
        &self,
        script: Option<(&str, ScriptOutput)>,
        cancel: &CancellationToken,
    ) -> RunReport {
        let prompt = self.prompt(script);
        let agent = match self.agent {
            Ok(agent) => agent,
            Err(reason) => return RunReport::failed(reason),
        };
        let id = match SessionId::for_cron(self.job.id(), self.started_at) {
            Ok(id) => id,
            Err(error) => return RunReport::failed(error.to_string()),
        };
        let row = NewSession::new(id.clone(), PLATFORM);
        let mut conversation = Conversation::new(agent.clone(), row, self.setup());
        let is_needed = |name: &str| needs_server(self.job, self.settings, name);
        let missing = agent.wait_for_some_servers(SERVER_TIMEOUT, is_needed);
        conversation.set_missing_servers(&missing.await);
        let mut report = self.run_turn(&mut conversation, &prompt, cancel).await;
        report.session = conversation.is_stored().then(|| id.to_string());
        report.prompt = prompt;
        if let Err(error) = conversation.close(EndReason::CronComplete).await {
            tracing::warn!(%error, "failed to close the session of a cron job");
        }
        report
    }

    /// Sends the prompt and waits for the answer, until the run is idle for too long.
    async fn run_turn(
        &self,
        conversation: &mut Conversation,
        prompt: &str,
        cancel: &CancellationToken,
    ) -> RunReport {
        let stop = cancel.child_token();
        let activity = Activity::default();
        let mut display = {
            let activity = activity.clone();
            let observe = self.observe;
            move |event: TurnEvent| {
                activity.touch();
                observe(event);
            }
        };
        let timeout = idle_timeout(self.settings);
        let mut is_silent = false;
        let ended = {
            let mut turn = conversation.send_user_message(prompt, &mut display, stop.clone());
            loop {
                tokio::select! {
                    ended = &mut turn => break ended,
                    () = activity.wait_for_idle(timeout), if !is_silent => {
                        is_silent = true;
                        stop.cancel();
                    }
                }
            }
        };
        let failed = |error: String| RunReport {
            usage: conversation.last_usage().cloned(),
            ..RunReport::failed(error)
        };
        let silent = || {
            let seconds = timeout.unwrap_or_default().as_secs();
            format!("it was idle for {seconds} s and was stopped")
        };
        match ended {
            _ if is_silent => failed(silent()),
            Err(error) => failed(error.advise(conversation::hosting_tenant(self.settings))),
            Ok(answer) => RunReport {
                error: match answer.end {
                    TurnEnd::Interrupted => Some("it was interrupted".to_owned()),
                    _ => None,
                },
                text: answer.text,
                usage: Some(answer.usage),
                ..RunReport::default()
            },
        }
    }

    fn setup(&self) -> ConversationSetup {
        let approves = self.settings.document["approvals"]["cron_mode"] == "approve";
        let consent = if approves {
            Consent::AllowAll
        } else {
            Consent::Ask(Arc::new(DenyAllApprover))
        };
        let text = |key| self.job_text(key).map(str::to_owned);
        let skills = match string_list(self.job.get("skills")) {
            skills if skills.is_empty() => text("skill").into_iter().collect(),
            skills => skills,
        };
        ConversationSetup {
            platform: PLATFORM.into(),
            platform_note: PLATFORM_NOTE.into(),
            model_overrides: ModelOverrides {
                model: text("model"),
                provider: text("provider"),
                base_url: text("base_url"),
                stored: None,
            },
            toolsets: job_toolsets(self.job, self.settings),
            excluded_toolsets: EXCLUDED_TOOLSETS.map(str::to_owned).to_vec(),
            skills,
            titles: TitleSource::Manual,
            // A job that names a directory uses the project rules there.
            project_rules: match self.job_text("workdir") {
                Some(_) => ProjectRules::Read,
                None => ProjectRules::Ignored,
            },
            ..ConversationSetup::for_cli(self.directory(), consent)
        }
    }

    /// The working directory: the job's, else the default of this process, else the user's home
    /// directory.
    fn directory(&self) -> PathBuf {
        let own = || std::env::home_dir().filter(|path| path.is_dir());
        let usual = self.default_directory.map(Path::to_owned).or_else(own);
        let usual = usual.unwrap_or_else(|| self.home.path().to_owned());
        match self.job_text("workdir") {
            Some(written) => usual.join(written),
            None => usual,
        }
    }

    /// The prompt: earlier outputs, the script's output, and the job's own prompt.
    fn prompt(&self, script: Option<(&str, ScriptOutput)>) -> String {
        let mut text = String::new();
        for job in string_list(self.job.get("context_from")) {
            if let Some(output) = last_output(self.home, &job) {
                let _ = write!(
                    text,
                    "# Last output of the job `{job}`\n\n{}\n\n",
                    extract_message(&output)
                );
            }
        }
        if let Some((name, outcome)) = script {
            let _ = write!(
                text,
                "# Output of the script `{name}`\n\n{}\n\n",
                outcome.stdout
            );
            if outcome.code != Some(0) {
                let _ = write!(text, "{}\n\n", outcome.describe_failure());
            }
        }
        let prompt = match self.job.prompt().trim() {
            "" => "Do what your skills say.",
            prompt => prompt,
        };
        if !text.is_empty() {
            text.push_str("# The task\n\n");
        }
        text.push_str(prompt);
        text
    }

    fn job_text(&self, key: &str) -> Option<&str> {
        let text = self.job.get(key).and_then(Value::as_str);
        text.map(str::trim).filter(|text| !text.is_empty())
    }
}

/// The job's list limits the built-in tools. All servers are included, unless it names some or `no_mcp`.
fn job_toolsets(job: &Job, settings: &Settings) -> Option<Vec<String>> {
    let mut words = string_list(job.get("enabled_toolsets"));
    if words.is_empty() {
        return None;
    }
    let is_server = |word: &String| toolset::find_server(settings, word).is_some();
    let wants_none = words.iter().any(|word| word == NO_MCP);
    if !wants_none && !words.iter().any(is_server) {
        let servers = settings.servers.iter();
        words.extend(servers.map(|entry| entry.name.to_string()));
    }
    Some(words)
}

/// Whether a job needs a server.
pub(super) fn needs_server(job: &Job, settings: &Settings, name: &str) -> bool {
    let has_agent = job.get("no_agent").and_then(Value::as_bool) != Some(true);
    has_agent
        && job_toolsets(job, settings)
            .is_none_or(|words| conversation::needs_server(PLATFORM, &words, settings, name))
}

/// The script's output is the message; a failure becomes an alert.
fn script_report(name: &str, outcome: Result<ScriptOutput, ScriptError>) -> RunReport {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return RunReport::failed(error.to_string()),
    };
    RunReport {
        prompt: format!("`{name}`, without an agent"),
        error: (outcome.code != Some(0)).then(|| outcome.describe_failure()),
        text: outcome.stdout,
        session: None,
        usage: None,
    }
}

impl ScriptOutput {
    /// Describes the failure, with the last lines of output.
    fn describe_failure(&self) -> String {
        const MAX_LINES: usize = 20;
        let end = self
            .code
            .map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
        let lines: Vec<&str> = self.stderr.lines().collect();
        let last = lines[lines.len().saturating_sub(MAX_LINES)..].join("\n");
        format!("The script ended with {end}.\n{last}")
            .trim()
            .to_owned()
    }
}

/// `HERMES_CRON_TIMEOUT` in seconds; 0 removes the limit.
fn idle_timeout(settings: &Settings) -> Option<Duration> {
    let written = settings.variables.get("HERMES_CRON_TIMEOUT");
    match written.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(0) => None,
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => Some(DEFAULT_IDLE_TIMEOUT),
    }
}
