//! Under `pin_tools: block`, a call goes only to the tool that was accepted: the last check before it is sent.

use std::time::Duration;

use hermes_config::server::PinTools;

use super::{CallError, Request};
use crate::{owner::Owner, session::Session};

/// How long a call waits for a tool list that is being requested.
const LISTING_LIMIT: Duration = Duration::from_secs(10);

/// Makes sure that a tool is still what was accepted. A turn may have begun before it changed, and a change that the
/// server has announced may not be listed yet.
pub(crate) async fn ensure_accepted(
    owner: &Owner,
    session: &Session,
    request: &Request,
) -> Result<(), CallError> {
    let Request::Tool(call) = request else {
        return Ok(());
    };
    if owner.server.load().pin_tools != PinTools::Block {
        return Ok(());
    }
    let listed = session.traffic.changes.tools_are_listed();
    let listed = tokio::time::timeout(LISTING_LIMIT, listed).await;
    listed.map_err(|_| CallError::Unlisted {
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
