//! MCP sessions of the `initialize` era in the database: a session belongs to its token, outlives this process, and can
//! be continued by another node.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use hermes_serve::{
    Principal,
    http::OpenSessions,
    records::{SessionAdmission, SessionDigest, SessionRecords, SessionUse},
};
use serde_json::Value;

use crate::{
    Hub, TokenId,
    api_types::Time,
    settings::McpSettings,
    storage::state::{McpSessionAdmission, McpSessionUse, State, StateError},
};

/// How often streams check that their session still exists: it may have been ended on another node.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Open streams are written to the database every so many checks.
const CHECKS_PER_WRITE: u32 = 10;

/// How long a stream counts as open after it was written.
const STREAM_TTL: Duration = Duration::from_mins(1);

pub(super) struct StoredSessions {
    state: Arc<dyn State>,
    idle_timeout: Duration,
    max_per_token: usize,
}

impl std::fmt::Debug for StoredSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

impl StoredSessions {
    pub(super) fn new(state: Arc<dyn State>, settings: &McpSettings) -> Self {
        Self {
            state,
            idle_timeout: Duration::from_secs(settings.session_idle_seconds),
            max_per_token: settings.sessions_per_token,
        }
    }
}

fn owner_token(owner: &Principal) -> io::Result<TokenId> {
    TokenId::parse(owner.name()).map_err(io::Error::other)
}

fn session_use(session: &SessionUse) -> McpSessionUse {
    McpSessionUse {
        hash: session.digest,
        used_at: Time::now().before(session.idle),
        stream_until: session.is_streaming.then(|| Time::now().after(STREAM_TTL)),
    }
}

#[async_trait]
impl SessionRecords for StoredSessions {
    async fn open(
        &self,
        session: &SessionDigest,
        owner: &Principal,
        agreed: Value,
        own: &[SessionUse],
    ) -> io::Result<SessionAdmission> {
        if own.len() >= self.max_per_token {
            // If one has to be replaced, its real last use counts.
            let uses: Vec<McpSessionUse> = own.iter().map(session_use).collect();
            let noted = self.state.record_mcp_session_uses(&uses).await;
            noted.map_err(io::Error::other)?;
        }
        let most = u32::try_from(self.max_per_token).unwrap_or(u32::MAX);
        let token = owner_token(owner)?;
        let opened = self
            .state
            .open_mcp_session(session, &token, &agreed, most)
            .await
            .map_err(io::Error::other)?;
        Ok(match opened {
            McpSessionAdmission::Opened => SessionAdmission::Admitted,
            McpSessionAdmission::Replaced(old) => SessionAdmission::Replacing(old),
            McpSessionAdmission::LimitReached => SessionAdmission::Refused,
        })
    }

    async fn find(&self, session: &SessionDigest, owner: &Principal) -> io::Result<Option<Value>> {
        let idle_since = Time::now().before(self.idle_timeout);
        let session = self
            .state
            .use_mcp_session(session, &owner_token(owner)?, idle_since)
            .await
            .map_err(io::Error::other)?;
        Ok(session.map(|session| session.agreed))
    }

    async fn end(&self, session: &SessionDigest, owner: &Principal) -> io::Result<()> {
        let ended = self
            .state
            .end_mcp_session(session, &owner_token(owner)?)
            .await;
        ended.map(drop).map_err(io::Error::other)
    }
}

/// Keeps streams and records in sync until the Hub stops.
pub(super) async fn sync_streams(hub: Hub, sessions: OpenSessions) {
    let mut count: u32 = 0;
    loop {
        tokio::select! {
            () = hub.shutdown().cancelled() => return,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        count = count.wrapping_add(1);
        let in_use = sessions.in_use();
        if in_use.is_empty() {
            continue;
        }
        let is_noted = count.is_multiple_of(CHECKS_PER_WRITE);
        match existing_sessions(hub.state(), &in_use, is_noted).await {
            Ok(present) => {
                let gone = in_use.into_iter().filter(|one| !present.contains(one));
                let gone: HashSet<SessionDigest> = gone.collect();
                if !gone.is_empty() {
                    sessions.end_deleted(&gone).await;
                }
            }
            Err(error) => tracing::warn!(%error, "failed to read MCP sessions"),
        }
    }
}

async fn existing_sessions(
    state: &dyn State,
    in_use: &[SessionDigest],
    is_noted: bool,
) -> Result<HashSet<SessionDigest>, StateError> {
    let present = if is_noted {
        let uses: Vec<McpSessionUse> = in_use
            .iter()
            .map(|digest| McpSessionUse {
                hash: *digest,
                used_at: Time::now(),
                stream_until: Some(Time::now().after(STREAM_TTL)),
            })
            .collect();
        state.record_mcp_session_uses(&uses).await?
    } else {
        state.existing_mcp_sessions(in_use).await?
    };
    Ok(present.into_iter().collect())
}
