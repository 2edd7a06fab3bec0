//! How long a client of Discord waits for what.

use std::time::Duration;

/// How long things take on the gateway.
#[derive(Debug, Clone, Copy)]
pub struct DiscordTiming {
    /// A request to the REST API.
    pub request: Duration,
    /// From the first byte to a session that works.
    pub session: Duration,
    /// The pause after a first failure to connect. It is doubled up to the longest.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// Between a session that Discord refused and the next one; Discord wants 1 to 5 s.
    pub invalid_session_pause: Duration,
    /// Saying goodbye.
    pub closing: Duration,
}

impl Default for DiscordTiming {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            session: Duration::from_mins(1),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
            invalid_session_pause: Duration::from_millis(1_500),
            closing: Duration::from_secs(3),
        }
    }
}
