//! How the Hub before this one ended. A Hub writes down that it runs, and that it is being stopped; one that finds the
//! former knows that the one before never came to the latter.

use crate::{
    storage::state::{State, StateError},
    tenants::runs::PreviousEnd,
};

const RUNNING: &[u8] = b"running";
const STOPPED: &[u8] = b"stopped";

fn name(node: &str) -> String {
    format!("life:{node}")
}

/// How the Hub before ended, on this node. From now on, this one runs.
pub(super) async fn take(state: &dyn State, node: &str) -> Result<PreviousEnd, StateError> {
    let name = name(node);
    let before = state.meta(&name).await?;
    if before.as_deref() == Some(RUNNING) {
        tracing::warn!(node, "the Hub before this one was killed, or crashed");
        return Ok(PreviousEnd::Crashed);
    }
    state.set_meta(&name, RUNNING).await?;
    Ok(PreviousEnd::Stopped)
}

/// Writes down that this one is being stopped.
pub(super) async fn note_stop(state: &dyn State, node: &str) {
    if let Err(error) = state.set_meta(&name(node), STOPPED).await {
        tracing::warn!(%error, "the stop of the Hub is not written down; the next start takes it for a crash");
    }
}
