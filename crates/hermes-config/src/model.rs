//! What `config.yaml` says about models: `model`, `providers`, `fallback_providers`, `auxiliary`, `agent` and
//! `compression`. Which model that means in the end is decided by whoever asks one.

mod parse;

use std::time::Duration;

use serde_json::{Map, Value};

use crate::reference::ReferenceTemplate;

pub(crate) use parse::{
    parse_agent, parse_auxiliary, parse_compression, parse_fallback_providers, parse_model,
    parse_providers,
};

/// `model`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSettings {
    /// The model and how it is reached.
    pub choice: ModelChoice,
    /// Whether local servers are looked for when nothing is configured.
    pub autodetect: bool,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            choice: ModelChoice::default(),
            autodetect: true,
        }
    }
}

/// A model and how it is reached, as far as that is written. Every part may be missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelChoice {
    /// `default` or `model`: its name.
    pub name: Option<String>,
    /// A built-in or configured provider; `auto` counts as none.
    pub provider: Option<String>,
    /// Another endpoint.
    pub base_url: Option<String>,
    /// The variable that holds the key; it wins over `api_key`.
    pub key_env: Option<String>,
    /// The key, often a reference.
    pub api_key: Option<ReferenceTemplate>,
    /// The protocol, where the provider does not imply it.
    pub api_mode: Option<ApiMode>,
    /// How many tokens fit into one request with its reply.
    pub context_length: Option<u32>,
    /// Whether the model can see; `None` where nobody says.
    pub vision: Option<bool>,
    /// Members added to each request's body.
    pub extra_body: Map<String, Value>,
}

/// `api_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiMode {
    ChatCompletions,
    AnthropicMessages,
}

/// An entry under `providers` or `custom_providers`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProviderSettings {
    /// What `provider` calls it.
    pub name: String,
    /// How it is reached; its `name` is the model used when none is named.
    pub choice: ModelChoice,
}

/// `auxiliary`: models for work beside the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct AuxiliarySettings {
    /// Summaries of long conversations.
    pub compression: AuxiliaryModel,
    /// Deciding clear approvals.
    pub approval: AuxiliaryModel,
    /// Answering sampling requests of MCP servers.
    pub mcp: AuxiliaryModel,
    /// Titles of sessions.
    pub title_generation: AuxiliaryModel,
    /// Describing images.
    pub vision: AuxiliaryModel,
    /// Attempts after the first, for failures that pass.
    pub transient_retries: u32,
}

impl Default for AuxiliarySettings {
    fn default() -> Self {
        let model = |task: AuxiliaryTask| AuxiliaryModel {
            timeout: task.default_timeout(),
            ..AuxiliaryModel::default()
        };
        Self {
            compression: model(AuxiliaryTask::Compression),
            approval: model(AuxiliaryTask::Approval),
            mcp: model(AuxiliaryTask::Mcp),
            title_generation: model(AuxiliaryTask::TitleGeneration),
            vision: model(AuxiliaryTask::Vision),
            transient_retries: 2,
        }
    }
}

impl AuxiliarySettings {
    pub fn task(&self, task: AuxiliaryTask) -> &AuxiliaryModel {
        match task {
            AuxiliaryTask::Compression => &self.compression,
            AuxiliaryTask::Approval => &self.approval,
            AuxiliaryTask::Mcp => &self.mcp,
            AuxiliaryTask::TitleGeneration => &self.title_generation,
            AuxiliaryTask::Vision => &self.vision,
        }
    }
}

/// The tasks that have a model of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuxiliaryTask {
    /// Summaries of long conversations.
    Compression,
    /// Deciding clear approvals.
    Approval,
    /// Answering sampling requests of MCP servers.
    Mcp,
    /// Titles of sessions.
    TitleGeneration,
    /// Describing images.
    Vision,
}

impl AuxiliaryTask {
    /// Its key under `auxiliary`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Compression => "compression",
            Self::Approval => "approval",
            Self::Mcp => "mcp",
            Self::TitleGeneration => "title_generation",
            Self::Vision => "vision",
        }
    }

    fn default_timeout(self) -> Duration {
        Duration::from_secs(match self {
            Self::Compression | Self::Vision => 120,
            Self::Approval | Self::Mcp | Self::TitleGeneration => 30,
        })
    }
}

/// `auxiliary.<task>.*`.
#[derive(Debug, Clone, PartialEq)]
pub struct AuxiliaryModel {
    /// `auto` is the agent's own provider.
    pub provider: String,
    /// The model; `None` is the provider's default.
    pub model: Option<String>,
    /// Another endpoint.
    pub base_url: Option<String>,
    /// Its key, often a reference.
    pub api_key: Option<ReferenceTemplate>,
    /// One model call.
    pub timeout: Duration,
    /// Members added to the request body.
    pub extra_body: Map<String, Value>,
    /// Passed on as it is.
    pub reasoning_effort: Option<String>,
}

impl Default for AuxiliaryModel {
    fn default() -> Self {
        Self {
            provider: "auto".into(),
            model: None,
            base_url: None,
            api_key: None,
            timeout: Duration::from_secs(30),
            extra_body: Map::new(),
            reasoning_effort: None,
        }
    }
}

/// `agent.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// Most model calls for one message of the user.
    pub max_turns: u32,
    /// Attempts after the first, for failures that pass.
    pub api_max_retries: u32,
    /// What happens when the model goes round in circles.
    pub loop_guard: LoopGuard,
    /// How long the model should think, in the provider's words.
    pub reasoning_effort: Option<String>,
    /// A gateway's turn ends after so long without activity.
    pub gateway_timeout: Option<Duration>,
    /// Before that the user is warned.
    pub gateway_timeout_warning: Option<Duration>,
    /// How long a restart waits for turns in progress.
    pub restart_drain_timeout: Duration,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            max_turns: 90,
            api_max_retries: 3,
            loop_guard: LoopGuard::default(),
            reasoning_effort: None,
            gateway_timeout: Some(Duration::from_mins(30)),
            gateway_timeout_warning: Some(Duration::from_mins(15)),
            restart_drain_timeout: Duration::ZERO,
        }
    }
}

/// `agent.loop_guard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoopGuard {
    /// The model is told.
    #[default]
    Note,
    /// The turn ends.
    Stop,
}

/// `compression.*`.
#[derive(Debug, Clone, PartialEq)]
pub struct CompressionSettings {
    /// Whether long conversations are shortened by themselves.
    pub enabled: bool,
    /// The share of the context at which that begins.
    pub threshold: f64,
    /// The share of it that the summary may take.
    pub target_ratio: f64,
    /// Messages at the beginning that stay.
    pub protect_first_n: u32,
    /// Messages at the end that stay.
    pub protect_last_n: u32,
}

impl Default for CompressionSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: 0.5,
            target_ratio: 0.2,
            protect_first_n: 3,
            protect_last_n: 20,
        }
    }
}

#[cfg(test)]
mod tests;
