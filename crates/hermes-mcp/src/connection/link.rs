//! A server's present state, as everybody outside its connection task sees it.

use std::{sync::Arc, time::SystemTime};

use hermes_config::{ServerName, Variables};
use serde::{Deserialize, Serialize};

use crate::{connection::session::McpSession, tools::catalog::Catalog};

/// The nine states of a server; the same words in every output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkStatus {
    /// Known from the manifest cache, or recycled; no process.
    Lazy,
    /// The first attempt is running.
    Connecting,
    /// A session is live.
    Ready,
    /// Lost or failed, retrying.
    Reconnecting,
    /// Retries are used up; a probe now and then.
    Parked,
    /// Only the user can help: a login.
    NeedsAuth,
    /// `enabled: false`.
    Disabled,
    /// The entry cannot be used as it is.
    Invalid,
    /// Shut down on purpose.
    Stopped,
}

impl LinkStatus {
    /// The word used in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lazy => "lazy",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Reconnecting => "reconnecting",
            Self::Parked => "parked",
            Self::NeedsAuth => "needs_auth",
            Self::Disabled => "disabled",
            Self::Invalid => "invalid",
            Self::Stopped => "stopped",
        }
    }

    /// Whether tools that were published once are still offered.
    pub fn offers_tools(self) -> bool {
        // A lazy server that is being started is connecting, too.
        matches!(
            self,
            Self::Lazy | Self::Connecting | Self::Ready | Self::Reconnecting
        )
    }
}

impl std::fmt::Display for LinkStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The last thing that went wrong, already redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkError {
    pub text: String,
    /// What can be done about it, where more helps than to wait.
    pub advice: Option<LoginAdvice>,
    pub at: SystemTime,
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// What a person can do about a server that needs a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginAdvice {
    LogIn(ServerName),
    /// Log in, which makes the server one with logins, or give a token by hand.
    LogInOrSetHeaders(ServerName),
    /// Correct the token given by hand, or log in instead.
    CorrectHeadersOrLogIn(ServerName),
    /// Log in over the Hub, or give a token by hand: nobody has a terminal where a Hub hosts the agent, but it has an
    /// operator.
    SetVariable {
        /// Whose agent it is.
        tenant: String,
        server: ServerName,
    },
}

/// The variable by which a Hub tells an agent whose it is.
const TENANT: &str = "HERMES_TENANT_ID";

/// The tenant whose agent this is, if a Hub hosts it.
pub fn hosted_tenant(variables: &Variables) -> Option<&str> {
    variables.get(TENANT).filter(|tenant| !tenant.is_empty())
}

impl LoginAdvice {
    /// To log in, or what comes in its place where a Hub hosts the agent.
    pub fn log_in(server: ServerName, tenant: Option<&str>) -> Self {
        Self::LogIn(server).for_tenant(tenant)
    }

    /// The same advice, or what comes in its place where a Hub hosts the agent.
    #[must_use]
    pub fn for_tenant(self, tenant: Option<&str>) -> Self {
        match (self, tenant) {
            (
                Self::LogIn(server)
                | Self::LogInOrSetHeaders(server)
                | Self::CorrectHeadersOrLogIn(server),
                Some(tenant),
            ) => Self::SetVariable {
                tenant: tenant.to_owned(),
                server,
            },
            (advice, _) => advice,
        }
    }
}

impl std::fmt::Display for LoginAdvice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LogIn(server) => write!(f, "run `hermes mcp login {server}`"),
            Self::LogInOrSetHeaders(server) => write!(
                f,
                "run `hermes mcp login {server}`, which adds `auth: oauth`, or set its `headers`"
            ),
            Self::CorrectHeadersOrLogIn(server) => write!(
                f,
                "correct it, or run `hermes mcp login {server}`, which adds `auth: oauth`"
            ),
            Self::SetVariable { tenant, server } => write!(
                f,
                "its operator logs in with `hermes tenant mcp {tenant} login {server}`, or gives it a token: `hermes tenant \
                 env set {tenant} NAME` keeps one, and `headers: {{Authorization: \"Bearer ${{NAME}}\"}}` of `{server}` \
                 sends it"
            ),
        }
    }
}

/// A server's present state.
#[derive(Debug, Clone)]
pub struct Link {
    /// Which of the nine.
    pub status: LinkStatus,
    pub since: SystemTime,
    /// The last error; kept until the next success.
    pub error: Option<LinkError>,
    /// The live session, in `ready` only.
    pub session: Option<Arc<McpSession>>,
    /// What the server offered when it was last asked.
    pub catalog: Option<Arc<Catalog>>,
    /// Failed attempts since the last stable session.
    pub attempt: u32,
    pub next_attempt_at: Option<SystemTime>,
    /// How often a process or session was started after the first.
    pub restarts: u32,
    /// Attempts that ended, well or not: lets a waiter see that one is over.
    pub attempts_ended: u64,
}

impl Link {
    pub(crate) fn new(status: LinkStatus) -> Self {
        Self {
            status,
            since: SystemTime::now(),
            error: None,
            session: None,
            catalog: None,
            attempt: 0,
            next_attempt_at: None,
            restarts: 0,
            attempts_ended: 0,
        }
    }

    /// Whether it is being connected for the first time, or again without having failed before.
    pub fn is_first_attempt(&self) -> bool {
        self.status == LinkStatus::Connecting && self.attempts_ended == 0
    }

    /// The catalog as far as its tools are offered now.
    pub fn offered_catalog(&self) -> Option<&Arc<Catalog>> {
        self.catalog.as_ref().filter(|_| self.status.offers_tools())
    }
}
