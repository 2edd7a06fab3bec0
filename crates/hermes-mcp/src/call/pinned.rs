//! Under `pin_tools: block`, a call goes only to the tool that was accepted: the last check before it is sent.

use std::time::Duration;

use hermes_config::server::PinTools;

use super::{CallError, CallRequest};
use crate::connection::{handle::ServerHandle, session::McpSession};

/// How long a call waits for a tool list that is being requested.
const LISTING_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes sure that a tool is still what was accepted. A turn may have begun before it changed, and a change that the
/// server has announced may not be listed yet.
pub(crate) async fn check_pin(
    owner: &ServerHandle,
    session: &McpSession,
    request: &CallRequest,
) -> Result<(), CallError> {
    let CallRequest::Tool(call) = request else {
        return Ok(());
    };
    if owner.server.load().pin_tools != PinTools::Block {
        return Ok(());
    }
    let listed = session.activity.changes.wait_until_listed();
    let listed = tokio::time::timeout(LISTING_TIMEOUT, listed).await;
    listed.map_err(|_| CallError::ToolListStale {
        server: owner.name.clone(),
    })?;
    let link = owner.link.borrow();
    let mut withheld = link.catalog.iter().flat_map(|catalog| &catalog.withheld);
    match withheld.find(|name| name.as_str() == call.name) {
        None => Ok(()),
        Some(tool) => Err(CallError::Withheld {
            server: owner.name.clone(),
            tool: tool.clone(),
        }),
    }
}
