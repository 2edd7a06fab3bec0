//! What a surface settles before a conversation begins: who is asked, which tools there are, where the work is done.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value;

use crate::{approval::Approver, model::Wanted, tools::clarify::Questioner, turn::ClientTools};

/// The terms of a conversation. They stay when the user goes on to another session.
#[derive(Clone)]
pub struct Setup {
    /// The key under `platform_toolsets` that counts, such as `cli` or `telegram`.
    pub platform: String,
    /// What the model is told about the place its answers appear in.
    pub platform_note: String,
    /// Where commands run and relative paths begin.
    pub cwd: PathBuf,
    /// Whether a resumed session goes back to its own directory.
    pub cwd_on_resume: CwdOnResume,
    /// The model this run asks for.
    pub wanted: Wanted,
    /// Only these toolsets; `None` leaves it to the configuration.
    pub toolsets: Option<Vec<String>>,
    /// Toolsets that are never offered here.
    pub withheld: Vec<String>,
    /// Told to the model after its prompt, in this run only.
    pub instructions: Option<String>,
    /// Tools that whoever asks runs itself.
    pub client_tools: Option<Arc<ClientTools>>,
    /// Skills whose instructions are part of the prompt.
    pub skills: Vec<String>,
    /// Calls of the model in one turn; `None` leaves it to the configuration.
    pub max_model_calls: Option<u32>,
    /// Who decides about risky work.
    pub consent: Consent,
    /// Who answers the model's questions.
    pub questioner: Option<Arc<dyn Questioner>>,
    /// Whether the user's own instructions are read.
    pub rules: Rules,
    /// Whether the rules of the project in the working directory are read.
    pub project_rules: ProjectRules,
    /// Whether the model is told the id of the session.
    pub session_id: SessionIdInPrompt,
    /// Where titles come from.
    pub titles: Titles,
    /// The chat that cron jobs made here answer to, as the job file writes it.
    pub cron_origin: Option<Value>,
}

impl Setup {
    /// A conversation on the command line, in this directory.
    pub fn for_cli(cwd: PathBuf, consent: Consent) -> Self {
        Self {
            platform: "cli".into(),
            platform_note: "The user reads your answers in a terminal. Markdown is rendered; keep it simple, and keep \
                            tables narrow."
                .into(),
            cwd,
            cwd_on_resume: CwdOnResume::Restore,
            wanted: Wanted::default(),
            toolsets: None,
            withheld: Vec::new(),
            instructions: None,
            client_tools: None,
            skills: Vec::new(),
            max_model_calls: None,
            consent,
            questioner: None,
            rules: Rules::Read,
            project_rules: ProjectRules::Ignored,
            session_id: SessionIdInPrompt::Untold,
            titles: Titles::Generated,
            cron_origin: None,
        }
    }
}

/// Who decides about risky work.
#[derive(Clone)]
pub enum Consent {
    /// Somebody is asked.
    Ask(Arc<dyn Approver>),
    /// Nobody: only what never runs is refused.
    Given,
}

/// Whether a resumed session goes back to its own directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CwdOnResume {
    /// If that is still there.
    Restore,
    /// The session goes on in the directory of this run.
    Keep,
}

/// Whether `SOUL.md`, the memories and the skills become part of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// They do.
    Read,
    /// They are left out.
    Ignored,
}

/// Whether `AGENTS.md` and its like become part of the prompt. Work that nobody began in a directory has no project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectRules {
    /// They do.
    Read,
    /// They are left out.
    Ignored,
}

/// Whether the model is told the id of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionIdInPrompt {
    /// It is.
    Told,
    /// It is not.
    Untold,
}

/// Where titles come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Titles {
    /// A model writes one after the first exchange.
    Generated,
    /// Only the user gives one.
    ByHand,
}
