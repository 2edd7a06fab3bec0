//! Titles of sessions, and deleting sessions.

use hermes_protocol::{AgentReply, RefusalReason, RequestRefusal};
use hermes_store::{SessionId, StoreError};

use super::refuse;
use crate::{gateway::Gateway, runs::SessionDeletion};

pub(super) async fn rename(
    gateway: &Gateway,
    session: &str,
    title: &str,
) -> Result<AgentReply, RequestRefusal> {
    let id = parse_id(session)?;
    let renamed = gateway.agent().store().set_title(&id, title).await;
    match renamed {
        Ok(title) => Ok(AgentReply::SessionRenamed { title }),
        Err(error) => Err(refuse_change(&error)),
    }
}

pub(super) async fn delete(gateway: &Gateway, session: &str) -> Result<AgentReply, RequestRefusal> {
    let id = parse_id(session)?;
    match gateway.runs().delete_session(&id).await {
        Ok(SessionDeletion::Deleted) => Ok(AgentReply::SessionDeleted),
        Ok(SessionDeletion::Absent) => Err(refuse_change(&StoreError::NoSuchSession { id })),
        Ok(SessionDeletion::InUse) => Err(refuse(
            RefusalReason::Busy,
            format!("a turn goes on in `{id}`; stop its run first, or wait until it ends"),
        )),
        Err(error) => Err(refuse_change(&error)),
    }
}

fn parse_id(session: &str) -> Result<SessionId, RequestRefusal> {
    let id = SessionId::parse(session);
    id.map_err(|_| {
        let message = "that is not the id of a conversation";
        refuse(RefusalReason::Arguments, message)
    })
}

fn refuse_change(error: &StoreError) -> RequestRefusal {
    match error {
        StoreError::NoSuchSession { id } => refuse(
            RefusalReason::NotFound,
            format!("there is no conversation `{id}`"),
        ),
        StoreError::TitleTooLong { .. } => refuse(RefusalReason::Arguments, error.to_string()),
        StoreError::TitleTaken { .. } => refuse(RefusalReason::Taken, error.to_string()),
        _ => {
            tracing::warn!(%error, "failed to change a session");
            refuse(
                RefusalReason::Busy,
                "the conversations could not be written; the agent's log has the reason",
            )
        }
    }
}
