//! What a Hub asks of an agent besides runs: about its model, its MCP servers and its sessions. Only the agent's own process
//! can answer, since it has their connections, their keys and their sandbox, and knows which sessions are in use.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One request. Servers are named as in the home's configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentRequest {
    /// Asks the model one word.
    TestModel,
    /// The state of all servers.
    ListServers,
    /// Connects to a server, if it is not connected, and says what it offers.
    TestServer { server: String },
    /// The tools of a server.
    ListTools { server: String },
    /// Accepts tools of a server as they are now, so that they are not withheld.
    AcceptTools { server: String, tools: Vec<String> },
    CallTool {
        server: String,
        /// By the server's own name for it, or the registered one.
        tool: String,
        arguments: Map<String, Value>,
        timeout_seconds: u64,
    },
    /// Begins a login that a browser ends at another address.
    BeginLogin {
        server: String,
        redirect_uri: String,
        /// Comes back with the browser.
        state: String,
    },
    /// Ends a login with the address that the browser was sent to.
    FinishLogin { server: String, address: String },
    /// Deletes what is kept of a server: its login, its pins.
    ForgetServer { server: String },
    /// Gives a session a title; an empty one takes it away.
    RenameSession { session: String, title: String },
    /// Deletes a session with its messages, unless a turn goes on in it.
    DeleteSession { session: String },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentReply {
    ModelTested(ModelTestReport),
    Servers(Vec<ServerState>),
    ServerTested(Box<ServerTestReport>),
    Tools(ServerToolList),
    Called(ToolCallReport),
    LoginBegun(LoginAddress),
    LoggedIn(LoginReport),
    Forgotten,
    /// The title as it is stored.
    SessionRenamed {
        title: Option<String>,
    },
    SessionDeleted,
    Refused(RequestRefusal),
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRefusal {
    pub reason: RefusalReason,
    /// For the operator.
    pub message: String,
}

/// The kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// No such server, tool or session.
    NotFound,
    /// The policy forbids it.
    Policy,
    /// The arguments do not fit.
    Arguments,
    /// The server cannot be used in its present state.
    Unusable,
    /// A person has to log in to the server first.
    LoginNeeded,
    /// The login was not finished.
    LoginFailed,
    /// It took too long.
    TimedOut,
    /// The name belongs to another one.
    Taken,
    /// It is in use.
    Busy,
}

/// What the model said when it was asked one word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelTestReport {
    /// Whether it answered.
    pub ok: bool,
    /// The model that was asked.
    pub model: Option<String>,
    pub provider: Option<String>,
    /// What it said.
    pub reply: Option<String>,
    /// Why it did not answer.
    pub error: Option<String>,
    pub elapsed_ms: u64,
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerState {
    pub name: String,
    /// `ready`, `connecting`, `needs_auth` and so on.
    pub status: String,
    pub error: Option<String>,
    /// How many tools it offers.
    pub tools: u64,
    /// `stateless` or `legacy`, while it is connected.
    pub era: Option<String>,
    /// The process of a local server.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
    /// Since when it is in this state, in seconds since 1970.
    pub since: u64,
    /// When its login ends, in seconds since 1970, if that is soon and only a person can renew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_ends_at: Option<u64>,
}

/// What a connection to a server showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerTestReport {
    /// The server's name.
    pub server: String,
    /// Whether it answers.
    pub ok: bool,
    /// Its state: `ready`, `parked`, `needs_auth` and so on.
    pub status: String,
    /// Why it does not answer.
    pub error: Option<String>,
    /// `stdio`, `http` or `sse`.
    pub transport: String,
    /// `stateless` or `legacy`.
    pub era: Option<String>,
    pub protocol_version: Option<String>,
    /// What the server calls itself.
    pub server_name: Option<String>,
    pub server_version: Option<String>,
    /// Its instructions for models.
    pub instructions: Option<String>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// How many resources and templates it has.
    pub resources: u64,
    pub prompts: u64,
    pub elapsed_ms: u64,
    /// What is odd about it.
    pub warnings: Vec<String>,
}

/// The tools of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerToolList {
    /// The server's name.
    pub server: String,
    /// In the server's order.
    pub tools: Vec<ServerTool>,
    /// What it has to read, as far as it was listed.
    pub resources: Vec<ServerResource>,
    /// Its prompts, as far as they were listed.
    pub prompts: Vec<ServerPrompt>,
    /// What is odd about the list.
    pub warnings: Vec<String>,
}

/// A resource of a server, or a template of some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerResource {
    /// Its address; with `{name}` in it, that of a template.
    pub uri: String,
    pub name: String,
    pub description: Option<String>,
    pub mime_type: Option<String>,
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerPrompt {
    pub name: String,
    pub description: Option<String>,
    /// The names of its arguments.
    pub arguments: Vec<String>,
}

/// A member of a tool that is not what was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolChange {
    /// Where it is: `inputSchema.properties.path`.
    pub place: String,
    /// What was accepted; absent if it is new.
    pub before: Option<Value>,
    /// What it is now; absent if it is gone.
    pub after: Option<Value>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerTool {
    /// The server's own name for it.
    pub name: String,
    /// The name that the model uses; absent if it is not offered.
    pub registered_name: Option<String>,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    /// What the server says about its effects.
    pub annotations: Option<Value>,
    /// How it compares with what was accepted: `new`, `pinned`, `changed`, or `off` without pins.
    pub pin: String,
    /// Whether it is withheld because it has changed.
    pub withheld: bool,
    /// What has changed since it was accepted.
    pub changes: Vec<ToolChange>,
    /// What the policy says: `allow`, `require_approval` or `deny`.
    pub policy: String,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallReport {
    /// The server's name.
    pub server: String,
    /// The tool's name.
    pub tool: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// The result as text, without secrets of the tenant.
    pub text: String,
    /// The result as the server structured it; absent if it is too large.
    pub structured_content: Option<Value>,
    /// Pictures and sounds of the result, as far as they are small enough.
    pub media: Vec<ResultMedia>,
    /// Whether a part of the result is missing because of its size.
    pub truncated: bool,
    pub elapsed_ms: u64,
}

/// A picture or sound of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultMedia {
    /// Such as `image/png`.
    pub mime_type: String,
    /// In base64.
    pub data: String,
}

/// Where a person logs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginAddress {
    pub url: String,
}

/// A login that was finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginReport {
    /// Who issued the tokens.
    pub issuer: String,
    pub scope: Option<String>,
    /// When the access token ends, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// Whether it is renewed without a person.
    pub is_renewable: bool,
}
