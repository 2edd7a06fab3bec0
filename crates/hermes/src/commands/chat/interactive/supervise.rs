//! Supervises long work: redraws its lines on the screen, and cancels it at Ctrl-C or `/stop`.

use tokio_util::sync::CancellationToken;

use super::signals::Signals;
use crate::chat::{ahead::Ahead, calls::SPIN, floor::Floor, screen::Screen};

pub(super) struct Watch<'a> {
    pub(super) signals: &'a mut Signals,
    pub(super) screen: &'a Screen,
    pub(super) floor: &'a Floor,
    /// What is typed meanwhile.
    pub(super) ahead: &'a mut Ahead,
    /// Asks the work to end.
    pub(super) cancel: &'a CancellationToken,
}

impl Watch<'_> {
    /// Runs the work. The first Ctrl-C cancels it, the second does not wait for it: `None`.
    pub(super) async fn over<T>(self, work: impl Future<Output = T>) -> Option<T> {
        self.floor.serve(self.cancel.clone());
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval(SPIN);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                _ = ticks.tick() => {
                    self.screen.tick();
                    let ahead = &mut *self.ahead;
                    if self.floor.unless_asking(|| ahead.listen()) == Some(true) {
                        self.cancel.cancel();
                    }
                    continue;
                }
                _ = self.signals.next() => {}
            }
            if self.cancel.is_cancelled() {
                return None;
            }
            self.cancel.cancel();
        }
    }
}
