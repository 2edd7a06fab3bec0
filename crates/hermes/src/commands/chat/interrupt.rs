//! Ctrl-C and termination signals: the first cancels the work, the second does not wait for it.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Does the work, which ends in order once `cancel` is cancelled.
pub(super) fn cancel_on_interrupt<'a, T: 'a>(
    cancel: &'a CancellationToken,
    work: impl Future<Output = Result<T, Failure>> + 'a,
) -> impl Future<Output = Result<T, Failure>> + 'a {
    // Boxed, since a whole conversation is a large future.
    let mut work = Box::pin(work);
    async move {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            if cancel.is_cancelled() {
                return Err(Failure::interrupted());
            }
            cancel.cancel();
        }
    }
}
