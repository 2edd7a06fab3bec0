//! Renaming and deleting conversations. The tenant's agent does it, because it writes there: it knows which conversations
//! are in use, and the files stay its own.

use std::time::Duration;

use hermes_protocol::{AgentReply, AgentRequest};
use hermes_store::{SessionId, clean_title};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{redact, store::read_store, tenant_redactor};
use crate::{
    Problem, TenantId,
    service::{
        agent::{ask_agent, unexpected_reply},
        call::{Call, Reply},
        run_recorded,
    },
    storage::state::FileChange,
};

/// How long the agent gets. A title that is being made is awaited.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A conversation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The conversation's id.
    session_id: String,
}

/// A conversation and its title.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameSession {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The conversation's id.
    session_id: String,
    /// The title, of at most 100 characters; none if it is empty.
    title: String,
}

/// A conversation that was renamed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenamedSession {
    session_id: String,
    /// As it is stored: on one line, without what cannot be seen.
    title: Option<String>,
}

pub(crate) async fn rename(call: Call, input: RenameSession) -> Result<Reply, Problem> {
    let session = find_session(&call, &input.session_id).await?;
    let title = clean_title(&input.title)
        .map_err(|error| Problem::invalid(error.to_string()).with_detail("title", "length"))?;
    let request = AgentRequest::RenameSession {
        session: session.clone(),
        title: title.unwrap_or_default(),
    };
    match change(&call, &request).await? {
        AgentReply::SessionRenamed { title } => {
            let redactor = tenant_redactor(&call).await?;
            Reply::json(&RenamedSession {
                session_id: session,
                title: title.map(|title| redact(&redactor, &title)),
            })
        }
        _ => Err(unexpected_reply()),
    }
}

pub(crate) async fn delete(call: Call, input: SessionRef) -> Result<Reply, Problem> {
    let session = find_session(&call, &input.session_id).await?;
    match change(&call, &AgentRequest::DeleteSession { session }).await? {
        AgentReply::SessionDeleted => Ok(Reply::empty()),
        _ => Err(unexpected_reply()),
    }
}

/// Looks for it without waking the agent: nobody is woken for a conversation that is not there.
async fn find_session(call: &Call, id: &str) -> Result<String, Problem> {
    let session = SessionId::parse(id)
        .map_err(|_| Problem::invalid("that is not the id of a conversation"))?;
    let found = read_store(call, |store| {
        let session = session.clone();
        async move { store.session(&session).await }
    });
    match found.await?.flatten() {
        Some(_) => Ok(session.to_string()),
        None => Err(Problem::not_found(format!(
            "there is no conversation `{session}`"
        ))),
    }
}

/// Has the agent do it, recorded before and after.
async fn change(call: &Call, request: &AgentRequest) -> Result<AgentReply, Problem> {
    let tenant = call.tenant_id()?;
    let intent = FileChange::Home {
        tenant: tenant.clone(),
    };
    run_recorded(call, intent, ask_agent(&call.hub, tenant, request, TIMEOUT)).await
}
