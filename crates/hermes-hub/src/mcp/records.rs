//! MCP sessions of the `initialize` era in the database: a session belongs to its token, outlives this process, and can
//! be continued by another node.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use hermes_mcp::serve::{
    Principal,
    http::OpenSessions,
    records::{Admission, SessionDigest, SessionRecords, SessionUse},
};
use serde_json::Value;

use crate::{
    Hub, TokenId,
    settings::Mcp,
    shapes::Time,
    state::{McpUse, Opened, State, StateError},
};

/// How often streams check that their session still exists: it may have been ended on another node.
const CHECK: Duration = Duration::from_secs(2);

/// Open streams are written to the database every so many checks.
const CHECKS_PER_NOTE: u32 = 10;

/// How long a stream counts as open after it was written.
const STREAM: Duration = Duration::from_mins(1);

pub(super) struct Records {
    state: Arc<dyn State>,
    idle: Duration,
    most: usize,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

impl Records {
    pub(super) fn new(state: Arc<dyn State>, settings: &Mcp) -> Self {
        Self {
            state,
            idle: Duration::from_secs(settings.session_idle_seconds),
            most: settings.sessions_per_token,
        }
    }
}

fn token(owner: &Principal) -> io::Result<TokenId> {
    TokenId::parse(owner.name()).map_err(io::Error::other)
}

fn used(session: &SessionUse) -> McpUse {
    McpUse {
        hash: session.digest,
        used_at: Time::now().before(session.idle),
        stream_until: session.is_streaming.then(|| Time::now().after(STREAM)),
    }
}

#[async_trait]
impl SessionRecords for Records {
    async fn open(
        &self,
        session: &SessionDigest,
        owner: &Principal,
        agreed: Value,
        own: &[SessionUse],
    ) -> io::Result<Admission> {
        if own.len() >= self.most {
            // If one has to be replaced, its real last use counts.
            let uses: Vec<McpUse> = own.iter().map(used).collect();
            let noted = self.state.note_mcp_uses(&uses).await;
            noted.map_err(io::Error::other)?;
        }
        let most = u32::try_from(self.most).unwrap_or(u32::MAX);
        let token = token(owner)?;
        let opened = self
            .state
            .open_mcp_session(session, &token, &agreed, most)
            .await
            .map_err(io::Error::other)?;
        Ok(match opened {
            Opened::Yes => Admission::Yes,
            Opened::InsteadOf(old) => Admission::InsteadOf(old),
            Opened::No => Admission::No,
        })
    }

    async fn find(&self, session: &SessionDigest, owner: &Principal) -> io::Result<Option<Value>> {
        let idle_since = Time::now().before(self.idle);
        let found = self
            .state
            .use_mcp_session(session, &token(owner)?, idle_since)
            .await
            .map_err(io::Error::other)?;
        Ok(found.map(|found| found.agreed))
    }

    async fn end(&self, session: &SessionDigest, owner: &Principal) -> io::Result<()> {
        let ended = self.state.end_mcp_session(session, &token(owner)?).await;
        ended.map(drop).map_err(io::Error::other)
    }
}

/// Keeps streams and records in sync until the Hub stops.
pub(super) async fn follow_streams(hub: Hub, sessions: OpenSessions) {
    let mut count: u32 = 0;
    loop {
        tokio::select! {
            () = hub.stop().cancelled() => return,
            () = tokio::time::sleep(CHECK) => {}
        }
        count = count.wrapping_add(1);
        let in_use = sessions.in_use();
        if in_use.is_empty() {
            continue;
        }
        let is_noted = count.is_multiple_of(CHECKS_PER_NOTE);
        match present(hub.state(), &in_use, is_noted).await {
            Ok(present) => {
                let gone = in_use.into_iter().filter(|one| !present.contains(one));
                let gone: HashSet<SessionDigest> = gone.collect();
                if !gone.is_empty() {
                    sessions.end_gone(&gone).await;
                }
            }
            Err(error) => tracing::warn!(%error, "failed to read MCP sessions"),
        }
    }
}

async fn present(
    state: &dyn State,
    in_use: &[SessionDigest],
    is_noted: bool,
) -> Result<HashSet<SessionDigest>, StateError> {
    let present = if is_noted {
        let uses: Vec<McpUse> = in_use
            .iter()
            .map(|digest| McpUse {
                hash: *digest,
                used_at: Time::now(),
                stream_until: Some(Time::now().after(STREAM)),
            })
            .collect();
        state.note_mcp_uses(&uses).await?
    } else {
        state.present_mcp_sessions(in_use).await?
    };
    Ok(present.into_iter().collect())
}
