//! What the process at the other end of a control connection may ask.
//!
//! Commands of an agent, and what they start, are the user's processes as any other. They are known by the mark of
//! descendants, and may only ask for states and lists: what changes or calls something, a person does.

use tokio::net::UnixStream;

use super::{ControlRequest, ControlResponse};
use crate::process::descendants::is_descendant;

/// What a peer may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerRights {
    Everything,
    /// States and lists.
    Listing,
}

impl PeerRights {
    /// What the kernel knows of a peer decides.
    pub(super) fn of(stream: &UnixStream) -> Self {
        let peer = stream.peer_cred().ok();
        let pid = peer.and_then(|peer| u32::try_from(peer.pid()?).ok());
        let is_ours = pid.is_none_or(is_descendant) && cfg!(target_os = "linux");
        if is_ours {
            Self::Listing
        } else {
            Self::Everything
        }
    }

    /// The answer to what it may not ask.
    pub(super) fn refusal(self, question: &ControlRequest) -> Option<ControlResponse> {
        let is_listing = match question {
            ControlRequest::Status => true,
            ControlRequest::Request(forwarded) => forwarded.request.is_listing(),
            ControlRequest::Reload
            | ControlRequest::Wake { .. }
            | ControlRequest::Elicited { .. } => false,
        };
        if self == Self::Everything || is_listing {
            return None;
        }
        tracing::warn!("refused a request of a command of the agent at the control socket");
        Some(ControlResponse::Refused {
            reason: "commands of an agent may only ask for states and lists".to_owned(),
        })
    }
}
