//! Supervises long work: redraws its lines on the screen, and cancels it at Ctrl-C or `/stop`.

use tokio_util::sync::CancellationToken;

use super::signals::ChatSignals;
use crate::commands::chat::{
    editor::type_ahead::TypeAhead, prompts::queue::PromptQueue, rendering::calls::SPINNER_INTERVAL,
    screen::Screen,
};

pub(super) struct WorkSupervisor<'a> {
    pub(super) signals: &'a mut ChatSignals,
    pub(super) screen: &'a Screen,
    pub(super) prompts: &'a PromptQueue,
    /// What is typed meanwhile.
    pub(super) type_ahead: &'a mut TypeAhead,
    /// Asks the work to end.
    pub(super) cancel: &'a CancellationToken,
}

impl WorkSupervisor<'_> {
    /// Runs the work. The first Ctrl-C cancels it, the second does not wait for it: `None`.
    pub(super) async fn run<T>(self, work: impl Future<Output = T>) -> Option<T> {
        self.prompts.cancel_on_interrupt(self.cancel.clone());
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval(SPINNER_INTERVAL);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                _ = ticks.tick() => {
                    self.screen.redraw();
                    let ahead = &mut *self.type_ahead;
                    if self.prompts.run_unless_prompting(|| ahead.read_pending()) == Some(true) {
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
