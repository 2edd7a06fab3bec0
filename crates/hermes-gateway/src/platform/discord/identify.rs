//! Beginning sessions: our own rules decide when, so twilight's queue lets each through at once.

use reqwest::Client;
use tokio::sync::oneshot;
use twilight_gateway::queue::Queue;

/// Lets a session begin at once: it was counted before the connection was made, and there is one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImmediateQueue;

impl Queue for ImmediateQueue {
    fn enqueue(&self, _shard: u32) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        // Only a receiver that is gone would fail it.
        let _ = sender.send(());
        receiver
    }
}

/// Checks that the system has certificates. Twilight loads them for every connection and panics where there are none.
///
/// A client for `https` has loaded them already; one for a plain address on this machine has not.
pub(super) fn check_certificates(socket_url: &str) -> Result<(), String> {
    if socket_url.starts_with("wss:") {
        return Ok(());
    }
    match Client::builder().no_proxy().build() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "the certificates of this system cannot be loaded: {}",
            crate::send::root_cause(&error)
        )),
    }
}
