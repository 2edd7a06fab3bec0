//! What `config.yaml` says: the servers in file order and the settings around them.
//!
//! Reading is lenient. A value that makes no sense is a warning and its default applies, so that one mistake does not
//! disable everything; only a text that is not YAML is an error. Sections of other parts are kept in `document`.

use std::{cell::RefCell, collections::HashSet, fs, io, path::PathBuf, time::Duration};

use serde_json::Value;

mod sections;

use crate::{
    GatewaySettings, Home, Variables, Warning,
    bridge::{self, BridgeSettings},
    fields::Fields,
    gateway,
    model::{
        self, AgentSettings, AuxiliaryModel, AuxiliarySettings, CompressionSettings, ModelChoice,
        ModelSettings, ProviderSettings,
    },
    server::{ServerEntry, ServerName},
    speech::{self, SpeechSettings},
    yaml::{self, YamlError},
};

/// Everything a home's `config.yaml` sets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The entries under `mcp_servers`, in file order.
    pub servers: Vec<ServerEntry>,
    /// How MCP servers are used as a whole.
    pub mcp: McpSettings,
    /// Which toolsets are offered where.
    pub toolsets: ToolsetSettings,
    /// `tools.tool_search.*`.
    pub tool_search: ToolSearchSettings,
    /// `model`: the model of conversations.
    pub model: ModelSettings,
    /// `providers` and `custom_providers`.
    pub providers: Vec<ProviderSettings>,
    /// `fallback_providers`: what to use when the model does not answer, in order.
    pub fallback_providers: Vec<ModelChoice>,
    /// `auxiliary.*`: models for work beside the conversation.
    pub auxiliary: AuxiliarySettings,
    /// `auxiliary.mcp.*` once more: the model that answers sampling requests.
    pub sampling_model: AuxiliaryModel,
    pub agent: AgentSettings,
    pub compression: CompressionSettings,
    /// `bridge.*`: the MCP server over the conversations.
    pub bridge: BridgeSettings,
    pub gateway: GatewaySettings,
    /// `stt.*`: what turns voice messages into text.
    pub speech: SpeechSettings,
    /// What was ignored or replaced by a default, and why.
    pub warnings: Vec<Warning>,
    /// The variables references are filled from.
    pub variables: Variables,
    /// The whole document as written, references unresolved.
    pub document: Value,
}

/// `mcp.*` and the single keys that concern all servers.
#[derive(Debug, Clone, PartialEq)]
pub struct McpSettings {
    /// `mcp.tool_naming`.
    pub naming: ToolNaming,
    /// `mcp.auto_reload_on_config_change`.
    pub auto_reload: bool,
    /// `mcp_discovery_timeout`: the wait at an interactive first turn.
    pub discovery_timeout: Duration,
    /// The same for a single question, where it is set; each server has its `connect_timeout` otherwise.
    pub one_shot_timeout: Option<Duration>,
    /// `approvals.mcp_reload_confirm`.
    pub reload_confirm: bool,
    /// `delegation.inherit_mcp_toolsets`.
    pub inherit_toolsets: bool,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            naming: ToolNaming::default(),
            auto_reload: true,
            discovery_timeout: Duration::from_millis(1500),
            one_shot_timeout: None,
            reload_confirm: true,
            inherit_toolsets: true,
        }
    }
}

/// How registered names are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNaming {
    /// `mcp_server_tool`.
    #[default]
    Single,
    /// `mcp__server__tool`.
    Double,
}

/// `platform_toolsets` and `agent.disabled_toolsets`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolsetSettings {
    /// The toolsets of each platform that names any, in file order.
    pub platforms: Vec<(String, Vec<String>)>,
    /// Taken away last, everywhere.
    pub disabled: Vec<String>,
}

/// `tools.tool_search.*`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSearchSettings {
    /// When tools are searched for instead of listed.
    pub mode: ToolSearchMode,
    /// Share of the context, in percent, at which `auto` switches over.
    pub threshold_pct: f64,
    /// Matches returned when the model asks for no number.
    pub search_default_limit: u32,
    /// Most matches returned.
    pub max_search_limit: u32,
}

impl Default for ToolSearchSettings {
    fn default() -> Self {
        Self {
            mode: ToolSearchMode::Auto,
            threshold_pct: 10.0,
            search_default_limit: 5,
            max_search_limit: 20,
        }
    }
}

/// `tools.tool_search.enabled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolSearchMode {
    /// From the threshold on.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Why a configuration could not be read at all. A running process keeps its last good one.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file is there but cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The text is not YAML, or has a key twice.
    #[error(
        "{}line {line}, column {column}: {reason}; correct that line; the file is not used until then",
        path.as_ref().map(|path| format!("`{}` ", path.display())).unwrap_or_default()
    )]
    Malformed {
        /// The file, if it came from one.
        path: Option<PathBuf>,
        /// Counted from 1.
        line: u64,
        /// Counted from 1.
        column: u64,
        reason: String,
    },
}

impl From<YamlError> for SettingsError {
    fn from(error: YamlError) -> Self {
        Self::Malformed {
            path: None,
            line: error.line,
            column: error.column,
            reason: error.reason,
        }
    }
}

impl Settings {
    /// Reads a home's `config.yaml` and `.env`. A missing file means defaults.
    pub fn load(home: &Home) -> Result<Self, SettingsError> {
        let (variables, variable_warnings) = Variables::load(home, None);
        Self::load_with(home, variables, variable_warnings)
    }

    /// As [`Settings::load`], with variables that were read before, such as with a project's `.env`.
    pub fn load_with(
        home: &Home,
        variables: Variables,
        variable_warnings: Vec<Warning>,
    ) -> Result<Self, SettingsError> {
        let path = home.config_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(SettingsError::Unreadable { path, source }),
        };
        let (older, older_warning) = read_gateway_file(home);
        let mut settings = Self::parse_with(&text, older.as_ref(), variables)
            .map_err(|error| error.in_file(path))?;
        settings.warnings.extend(older_warning);
        settings.warnings.extend(variable_warnings);
        settings
            .warnings
            .extend(sections::find_misplaced_file(home));
        Ok(settings)
    }

    /// Reads a configuration from text.
    pub fn parse(text: &str, variables: Variables) -> Result<Self, SettingsError> {
        Self::parse_with(text, None, variables)
    }

    /// As [`Settings::parse`], with the text of a `gateway.json` that was read by other means.
    pub fn parse_files(
        text: &str,
        gateway_json: Option<&str>,
        variables: Variables,
    ) -> Result<Self, SettingsError> {
        let older = gateway_json.and_then(|text| serde_json::from_str(text).ok());
        Self::parse_with(text, older.as_ref(), variables)
    }

    /// As [`Settings::parse`], with the content of a `gateway.json`.
    fn parse_with(
        text: &str,
        gateway_json: Option<&Value>,
        variables: Variables,
    ) -> Result<Self, SettingsError> {
        let document = yaml::parse(text)?;
        let warnings = RefCell::new(Vec::new());
        let root = Fields::root(&document, &variables, &warnings);
        sections::warn_misplaced(&root);
        let servers = sections::parse_servers(&root);
        let mcp = sections::parse_mcp(&root);
        let toolsets = sections::parse_toolsets(&root);
        let tool_search = sections::parse_tool_search(&root);
        let model_settings = model::parse_model(&root);
        let providers = model::parse_providers(&root);
        let fallback_providers = model::parse_fallback_providers(&root);
        let auxiliary = model::parse_auxiliary(&root);
        let agent = model::parse_agent(&root);
        let compression = model::parse_compression(&root);
        let bridge = bridge::parse_bridge(&root);
        let older = gateway_json.map(|document| Fields::root(document, &variables, &warnings));
        let documents: Vec<&Fields> = [&root].into_iter().chain(&older).collect();
        let gateway = gateway::parse_gateway(&documents, &variables);
        let speech = speech::parse_speech(&root);
        Ok(Self {
            servers,
            mcp,
            toolsets,
            tool_search,
            model: model_settings,
            providers,
            fallback_providers,
            sampling_model: auxiliary.mcp.clone(),
            auxiliary,
            agent,
            compression,
            bridge,
            gateway,
            speech,
            warnings: warnings.into_inner(),
            variables,
            document,
        })
    }

    /// The entry of that name, usable or not.
    pub fn server(&self, name: &str) -> Option<&ServerEntry> {
        self.servers
            .iter()
            .find(|entry| entry.name.as_str() == name)
    }

    /// The names of all servers that are written down, in file order, and then of those that are not saved yet. Whoever
    /// uses a few of them names files by all, so that every process means the same file.
    pub fn server_names(&self) -> Vec<ServerName> {
        let written = self.document["mcp_servers"].as_object().into_iter();
        let mut names: Vec<ServerName> = written
            .flat_map(|servers| servers.keys())
            .map(ServerName::new)
            .collect();
        let known: HashSet<&ServerName> = names.iter().collect();
        let entries = self.servers.iter().map(|entry| &entry.name);
        let unsaved: Vec<ServerName> = entries
            .filter(|name| !known.contains(name))
            .cloned()
            .collect();
        names.extend(unsaved);
        names
    }
}

/// What older versions wrote beside `config.yaml`. One that cannot be read is a warning.
fn read_gateway_file(home: &Home) -> (Option<Value>, Option<Warning>) {
    let path = home.path().join("gateway.json");
    let reason = match fs::read_to_string(&path) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(document) => return (Some(document), None),
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (None, None),
        Err(error) => error.to_string(),
    };
    let message = format!("`{}` is ignored: {reason}", path.display());
    (None, Some(Warning { key: None, message }))
}

impl SettingsError {
    pub(crate) fn in_file(mut self, file: PathBuf) -> Self {
        if let Self::Malformed { path, .. } = &mut self {
            *path = Some(file);
        }
        self
    }
}

#[cfg(test)]
mod tests;
