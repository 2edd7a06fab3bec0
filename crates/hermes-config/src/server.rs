//! One entry under `mcp_servers`: its keys, their defaults, and what is wrong with it.
//!
//! String values are kept as the user wrote them (`${…}` unresolved); [`Server::resolve`] fills them in at each connect.

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

mod oauth;
pub(crate) mod parse;
mod resolve;
mod suspicion;

pub use resolve::{Fingerprint, ResolvedServer, ServerResolveError};
pub use suspicion::SuspiciousEntry;

pub use oauth::{Auth, DpopUse, EnterpriseSettings, OAuthGrant, OAuthSettings};

/// The name of a server as the user wrote it: a key under `mcp_servers`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerName(String);

impl ServerName {
    /// Takes any string: names are not restricted, only their registered forms are.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One key under `mcp_servers`, usable or not.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    pub name: ServerName,
    /// What it says, or why it cannot be used. One bad entry never hides the others.
    pub server: Result<Server, ServerEntryError>,
    /// The entry as written, references unresolved.
    pub template: serde_json::Value,
}

/// Why an entry cannot be used; the server's state is then `invalid`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerEntryError {
    /// Both `command` and `url` are there.
    #[error("both `command` and `url` are set; keep one of them")]
    BothTransports,
    /// Neither `command` nor `url` is there.
    #[error(
        "neither `command` nor `url` is set; add `command` for a local server or `url` for a remote one"
    )]
    NoTransport,
    /// The URL is not an http(s) URL with a host.
    #[error("`url` is not usable: {reason}")]
    BadUrl { reason: String },
    /// It looks like an attack.
    #[error(transparent)]
    Suspicious(SuspiciousEntry),
    /// A key has a value that no default can stand in for.
    #[error("`{key}`: {reason}")]
    BadValue {
        /// The key, dotted.
        key: String,
        /// What is wrong with it, and what is expected.
        reason: String,
    },
}

/// A usable entry under `mcp_servers`.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// The key under `mcp_servers`.
    pub name: ServerName,
    pub transport: TransportSettings,
    /// `enabled: false` keeps the entry and connects nothing.
    pub enabled: bool,
    /// Limit of one tool call.
    pub timeout: Duration,
    /// Limit of start, handshake and first listing.
    pub connect_timeout: Duration,
    /// Whether `connect_timeout` was written by the user (`mcp test` has its own default).
    pub connect_timeout_is_set: bool,
    /// `supports_parallel_tool_calls`.
    pub calls: CallOrder,
    /// Filters and utility tools.
    pub tools: ToolPolicy,
    /// Which protocol era to speak.
    pub protocol: ProtocolChoice,
    /// `auth: oauth`.
    pub auth: Option<Auth>,
    pub oauth: OAuthSettings,
    pub sampling: SamplingPolicy,
    pub elicitation: ElicitationPolicy,
    pub roots: RootsPolicy,
    /// Time between keepalive pings; `None` is off.
    pub keepalive: Option<Duration>,
    /// `idle_timeout_seconds`: stop a stdio child after this much idleness.
    pub idle_timeout: Option<Duration>,
    /// `max_lifetime_seconds`: stop a stdio child at this age.
    pub max_lifetime: Option<Duration>,
    /// Known from the manifest cache, started by the first call.
    pub lazy: bool,
    /// What a changed tool definition causes.
    pub pin_tools: PinTools,
    pub sandbox: SandboxSettings,
}

/// How a server is reached, references unresolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "transport", rename_all = "lowercase")]
pub enum TransportSettings {
    /// A child process speaking over its stdin and stdout.
    Stdio(StdioSettings),
    /// Streamable HTTP.
    Http(HttpSettings),
    /// The legacy HTTP+SSE pair.
    Sse(HttpSettings),
}

impl TransportSettings {
    /// `stdio`, `http` or `sse`: the word used in every output.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Sse(_) => "sse",
        }
    }
}

/// A local server.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct StdioSettings {
    /// The executable, trimmed.
    pub command: String,
    pub args: Vec<String>,
    /// Laid over the filtered environment, in file order.
    pub env: Vec<(String, String)>,
    /// Working directory (`cwd`, alias `workdir`).
    pub cwd: Option<String>,
}

/// A remote server.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct HttpSettings {
    pub url: String,
    /// Sent on every request to that origin, in file order.
    pub headers: Vec<(String, String)>,
    /// `ssl_verify`.
    pub verify: TlsVerification,
    /// `client_cert`, `client_key`.
    pub client_certificate: Option<ClientCertificate>,
    pub skip_preflight: bool,
}

/// `ssl_verify`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsVerification {
    /// Against the usual roots.
    #[default]
    Roots,
    /// Against a CA bundle at this path, besides the usual roots.
    CaFile(String),
    /// Not at all.
    Off,
}

/// mTLS: `client_cert` and `client_key`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientCertificate {
    /// PEM certificate chain; may hold the key as well.
    pub certificate: String,
    /// PEM private key, if in a file of its own.
    pub key: Option<String>,
    /// Pass phrase of the key.
    pub passphrase: Option<String>,
}

/// Whether calls of one server may be in flight together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum CallOrder {
    /// One after the other, in order (the default).
    #[default]
    OneByOne,
    /// `supports_parallel_tool_calls: true`.
    Parallel,
}

/// `tools.*`: which of a server's tools are offered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPolicy {
    /// Only these; an empty list means none. `None`: no such filter.
    pub include: Option<Vec<String>>,
    /// All but these, where `include` is not set.
    pub exclude: Option<Vec<String>>,
    /// Offer `list_resources` and `read_resource`.
    pub resources: bool,
    /// Offer `list_prompts` and `get_prompt`.
    pub prompts: bool,
    /// Ask before calling these.
    pub approve: Vec<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            include: None,
            exclude: None,
            resources: true,
            prompts: true,
            approve: Vec::new(),
        }
    }
}

/// `protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolChoice {
    /// Find out, and remember.
    #[default]
    Auto,
    /// Revision 2026-07-28.
    Stateless,
    /// The revisions that begin with `initialize`.
    Legacy,
}

/// `sampling.*`: what a server may ask of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SamplingPolicy {
    /// Off: every request is refused and no capability is declared.
    pub enabled: bool,
    /// Overrides every other choice of model.
    pub model: Option<String>,
    /// Ceiling for `maxTokens`.
    pub max_tokens_cap: u32,
    /// One model call.
    pub timeout: Duration,
    /// Requests in any 60 s.
    pub max_rpm: u32,
    /// Empty: all.
    pub allowed_models: Vec<String>,
    /// Consecutive tool-use replies; 0: none.
    pub max_tool_rounds: u32,
    /// Level of the audit line.
    pub log_level: AuditLevel,
}

impl Default for SamplingPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            model: None,
            max_tokens_cap: 4096,
            timeout: Duration::from_secs(30),
            max_rpm: 10,
            allowed_models: Vec::new(),
            max_tool_rounds: 5,
            log_level: AuditLevel::Info,
        }
    }
}

/// `sampling.log_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuditLevel {
    /// Texts too.
    Debug,
    /// One line each.
    Info,
    /// One line each, as a warning.
    Warning,
}

/// `elicitation.*`: whether a server may ask the user.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ElicitationPolicy {
    /// Off: declined, no capability declared.
    pub enabled: bool,
    /// How long a person is waited for.
    pub timeout: Duration,
}

impl Default for ElicitationPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            timeout: Duration::from_mins(5),
        }
    }
}

/// `roots`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub enum RootsPolicy {
    /// The working directory of an interactive command line, else none.
    #[default]
    Auto,
    /// These directories.
    Directories(Vec<String>),
}

/// `pin_tools`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PinTools {
    /// Nothing is compared.
    Off,
    /// A changed definition is logged and pinned again.
    #[default]
    Warn,
    /// A changed tool is withheld until approved.
    Block,
}

/// `sandbox.*`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own and they combine freely"
)]
pub struct SandboxSettings {
    /// Whether the child is confined at all.
    pub enabled: bool,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// `network: deny`.
    pub network_denied: bool,
    /// `unix_sockets: deny`.
    pub unix_sockets_denied: bool,
    /// Without kernel support: `invalid` instead of a warning.
    pub required: bool,
}
