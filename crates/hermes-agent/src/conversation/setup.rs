//! The setup of a conversation: approver, tools, working directory; and the approvals that follow from it: the caller's
//! approver, a model for clear cases, and the permanent allow list.

use std::{path::PathBuf, sync::Arc};

use hermes_config::{AuxiliaryTask, ConfigFile, ConfigFileError, Home, Redactor, Settings};
use hermes_store::SessionId;
use serde_json::{Value, json};

use super::{Agent, state::ModelCell};
use crate::{
    approval::{ApprovalMode, ApprovalSettings, Approvals, Approver, DenyAllApprover, ModelJudge},
    conversation::state::LazyAuxiliaryModel,
    model::ModelOverrides,
    tools::clarify::Questioner,
    turn::ClientTools,
};

/// The setup of a conversation. It stays when the user switches to another session.
#[derive(Clone)]
pub struct ConversationSetup {
    /// The key under `platform_toolsets`, such as `cli` or `telegram`.
    pub platform: String,
    /// What the model is told about where its answers are shown.
    pub platform_note: String,
    /// The working directory.
    pub cwd: PathBuf,
    /// Whether a resumed session goes back to its own directory.
    pub cwd_on_resume: CwdOnResume,
    pub model_overrides: ModelOverrides,
    /// Only these toolsets; `None` leaves it to the configuration.
    pub toolsets: Option<Vec<String>>,
    /// Toolsets that are never offered here.
    pub excluded_toolsets: Vec<String>,
    /// Added after the prompt, in this run only.
    pub instructions: Option<String>,
    /// Tools that the client runs itself.
    pub client_tools: Option<Arc<ClientTools>>,
    /// Skills whose instructions are part of the prompt.
    pub skills: Vec<String>,
    /// Model calls in one turn; `None` leaves it to the configuration.
    pub max_model_calls: Option<u32>,
    pub consent: Consent,
    pub questioner: Option<Arc<dyn Questioner>>,
    /// Whether the user's own instructions are read.
    pub user_instructions: UserInstructions,
    /// Whether the rules of the project in the working directory are read.
    pub project_rules: ProjectRules,
    /// Whether the model is told the id of the session.
    pub session_id: SessionIdInPrompt,
    pub titles: TitleSource,
    /// The chat that cron jobs created here deliver to, in the job file's format.
    pub cron_origin: Option<Value>,
    /// The platform's id of the user message of this run.
    pub platform_message_id: Option<String>,
    /// Told to the model before the user message of this run, and not shown to people.
    pub user_note: Option<String>,
}

impl ConversationSetup {
    /// A conversation on the command line, in this directory.
    pub fn for_cli(cwd: PathBuf, consent: Consent) -> Self {
        Self {
            platform: "cli".into(),
            platform_note: "The user reads your answers in a terminal. Markdown is rendered; keep it simple, and keep \
                            tables narrow."
                .into(),
            cwd,
            cwd_on_resume: CwdOnResume::Restore,
            model_overrides: ModelOverrides::default(),
            toolsets: None,
            excluded_toolsets: Vec::new(),
            instructions: None,
            client_tools: None,
            skills: Vec::new(),
            max_model_calls: None,
            consent,
            questioner: None,
            user_instructions: UserInstructions::Read,
            project_rules: ProjectRules::Ignored,
            session_id: SessionIdInPrompt::Omit,
            titles: TitleSource::Generated,
            cron_origin: None,
            platform_message_id: None,
            user_note: None,
        }
    }
}

#[derive(Clone)]
pub enum Consent {
    Ask(Arc<dyn Approver>),
    /// Nobody is asked: only blocked commands are refused.
    AllowAll,
}

/// Whether a resumed session goes back to its own directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CwdOnResume {
    Restore,
    /// The session continues in the directory of this run.
    Keep,
}

/// Whether `SOUL.md`, the memories and the skills become part of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserInstructions {
    Read,
    Ignored,
}

/// Whether `AGENTS.md` and the like become part of the prompt. Runs without a chosen directory have no project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectRules {
    Read,
    Ignored,
}

/// Whether the model is told the id of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionIdInPrompt {
    Include,
    Omit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleSource {
    /// A model writes one after the first exchange.
    Generated,
    /// Only the user gives one.
    Manual,
}

/// The approvals of a conversation, by its settings and setup.
pub(super) fn build_approvals(
    agent: &Agent,
    setup: &ConversationSetup,
    session: &SessionId,
    model: &ModelCell,
) -> Approvals {
    let task = AuxiliaryTask::Approval;
    let timeout = agent.settings().auxiliary.task(task).timeout;
    let judge = LazyAuxiliaryModel {
        agent: agent.clone(),
        main: model.clone(),
        task,
    };
    home_approvals(agent.home(), &agent.settings(), &setup.consent)
        .for_session(session.clone())
        .with_policy(agent.policy_handle().clone())
        .with_redactor(agent.redactor())
        .with_judge(Arc::new(ModelJudge::new(Arc::new(judge), timeout)))
}

/// The approvals of a home, without a session and without a model for clear cases.
pub(super) fn home_approvals(home: &Home, settings: &Settings, consent: &Consent) -> Approvals {
    let mut rules = ApprovalSettings::from_document(&settings.document);
    let approver = match consent {
        Consent::Ask(approver) => approver.clone(),
        Consent::AllowAll => {
            rules.mode = ApprovalMode::Off;
            Arc::new(DenyAllApprover)
        }
    };
    let home = home.clone();
    Approvals::new(rules, approver)
        .with_redactor(Redactor::for_variables(&settings.variables))
        .on_always(move |rules| {
            if let Err(error) = add_to_allowlist(&home, rules) {
                tracing::warn!(%error, "failed to write an always-allowed command to the configuration");
            }
        })
}

/// Adds rules to `command_allowlist`.
fn add_to_allowlist(home: &Home, rules: &[String]) -> Result<(), ConfigFileError> {
    let mut file = ConfigFile::open(home)?;
    let mut list: Vec<String> = file
        .get(&["command_allowlist"])
        .and_then(|list| serde_json::from_value(list.clone()).ok())
        .unwrap_or_default();
    for rule in rules {
        if !list.contains(rule) {
            list.push(rule.clone());
        }
    }
    file.set(&["command_allowlist"], json!(list));
    file.save()
}

/// The current configuration, limited by the setup of the conversation.
pub(super) fn approval_settings(agent: &Agent, setup: &ConversationSetup) -> ApprovalSettings {
    let mut settings = ApprovalSettings::from_document(&agent.settings().document);
    if matches!(setup.consent, Consent::AllowAll) {
        settings.mode = ApprovalMode::Off;
    }
    settings
}
