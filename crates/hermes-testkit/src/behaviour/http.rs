//! What is particular to HTTP: sessions, kinds of reply, and faults in single responses.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Behaviour over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own and they combine freely"
)]
pub struct HttpBehaviour {
    /// The transport: one endpoint, or the older pair.
    pub transport: HttpTransport,
    /// The form of replies to requests.
    pub reply: ReplyFormat,
    /// Gives legacy clients a session id and insists on it.
    pub sessions: bool,
    /// Serves the legacy GET stream; otherwise GET is 405.
    pub get_stream: bool,
    /// Insists on the headers of the stateless era.
    pub check_headers: bool,
    /// Answers 404 in the first session after this many of its requests.
    pub forget_session_after: Option<u32>,
    /// The status with which an unknown session is refused.
    pub unknown_session: u16,
    /// Lets `forget_session_after` hold for every session, not just the first.
    pub forget_every_session: bool,
    /// The `retry` field of the GET stream.
    pub retry_ms: Option<u64>,
    /// The bearer token without which every request is 401.
    pub bearer: Option<String>,
    /// Faults; the first that fits a request takes it.
    pub faults: Vec<Fault>,
    pub tls: Option<Tls>,
}

impl Default for HttpBehaviour {
    fn default() -> Self {
        Self {
            transport: HttpTransport::default(),
            reply: ReplyFormat::default(),
            sessions: true,
            get_stream: true,
            check_headers: true,
            forget_session_after: None,
            unknown_session: 404,
            forget_every_session: false,
            retry_ms: None,
            bearer: None,
            faults: Vec::new(),
            tls: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpTransport {
    /// Streamable HTTP at `/mcp`.
    #[default]
    Streamable,
    /// HTTP+SSE of 2024-11-05: GET `/sse`, POST `/message`.
    Sse,
}

/// The form of a reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyFormat {
    /// An event stream.
    #[default]
    Sse,
    /// A JSON body; a stream only where something precedes the answer.
    Json,
}

/// Trouble for some requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// An HTTP method, a JSON-RPC method or the name of a called tool; absent: any request.
    #[serde(default)]
    pub on: Option<String>,
    /// How many fitting requests pass first.
    #[serde(default)]
    pub skip: u32,
    /// How many are hit after that; absent: all.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens to them.
    pub trouble: FaultKind,
}

impl Fault {
    pub fn always(trouble: FaultKind) -> Self {
        Self {
            on: None,
            skip: 0,
            times: None,
            trouble,
        }
    }

    /// Trouble for requests with this HTTP method, JSON-RPC method or tool.
    pub fn on(target: &str, trouble: FaultKind) -> Self {
        Self {
            on: Some(target.to_owned()),
            ..Self::always(trouble)
        }
    }

    /// Lets some requests pass first.
    #[must_use]
    pub fn after(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Limits how often it strikes.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }
}

/// What goes wrong with a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// A bare status, for instance 500, 503 or 405.
    Status(u16),
    /// 401 with this `WWW-Authenticate`.
    Unauthorized(String),
    /// 403 that asks for a scope.
    InsufficientScope(String),
    /// A web page instead of MCP.
    Html,
    /// 307 to this address; a path such as `/mcp` stays on the same origin.
    Redirect(String),
    /// The reply's stream breaks off in the middle of its first event.
    Cut,
    /// The reply is one event (or one JSON body) of this many bytes.
    Oversized(u64),
    /// The reply starts after this many milliseconds.
    Delay(u64),
    /// The reply arrives in pieces of so many bytes, with so many milliseconds between them.
    Trickle(usize, u64),
    /// A legacy reply's stream ends after an event with an id and this `retry`; the answer waits for a GET
    /// with that `Last-Event-ID`.
    Postpone(u64),
    /// The connection closes without a response.
    Hangup,
}

/// TLS with a certificate of its own authority.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Refuses clients without a certificate of the same authority.
    pub require_client_certificate: bool,
    /// Writes `ca.pem`, `client.pem` and `client.key` here.
    pub directory: Option<PathBuf>,
}
