//! Which of the two eras of the protocol a server speaks, and how that is found out.
//!
//! The stateless revision is asked for first (`server/discover`). Whatever else comes back, an error of any code, an
//! empty answer, the end of the process, means that the server is an older one and wants `initialize`. Silence means
//! nothing yet: a local server that is silent is asked both.

use hermes_config::server::ProtocolChoice;
pub(crate) use hermes_serve::Era;

/// One way to open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeMode {
    /// `server/discover`, and `initialize` on the same connection if an error comes back.
    Probe,
    /// `server/discover` only.
    Discover,
    /// `initialize` only.
    Initialize,
}

/// The ways to try in turn, each on a fresh connection.
pub(crate) fn handshake_modes(
    choice: ProtocolChoice,
    remembered: Option<Era>,
) -> &'static [HandshakeMode] {
    use HandshakeMode::{Discover, Initialize, Probe};
    match (choice, remembered) {
        (ProtocolChoice::Stateless, _) => &[Discover],
        (ProtocolChoice::Legacy, _) => &[Initialize],
        (ProtocolChoice::Auto, None) => &[Probe, Initialize],
        (ProtocolChoice::Auto, Some(Era::Stateless)) => &[Discover, Probe, Initialize],
        (ProtocolChoice::Auto, Some(Era::Legacy)) => &[Initialize, Probe],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_server_is_probed_and_then_started_afresh() {
        assert_eq!(
            handshake_modes(ProtocolChoice::Auto, None),
            [HandshakeMode::Probe, HandshakeMode::Initialize]
        );
    }

    #[test]
    fn a_remembered_era_is_tried_first_and_probed_again_when_it_stopped_fitting() {
        assert_eq!(
            handshake_modes(ProtocolChoice::Auto, Some(Era::Legacy))[0],
            HandshakeMode::Initialize
        );
        assert_eq!(
            handshake_modes(ProtocolChoice::Auto, Some(Era::Stateless))[..2],
            [HandshakeMode::Discover, HandshakeMode::Probe]
        );
    }

    #[test]
    fn a_fixed_protocol_allows_one_way_only() {
        for remembered in [None, Some(Era::Legacy), Some(Era::Stateless)] {
            assert_eq!(
                handshake_modes(ProtocolChoice::Legacy, remembered),
                [HandshakeMode::Initialize]
            );
            assert_eq!(
                handshake_modes(ProtocolChoice::Stateless, remembered),
                [HandshakeMode::Discover]
            );
        }
    }
}
