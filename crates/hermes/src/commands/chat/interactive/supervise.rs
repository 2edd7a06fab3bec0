//! Supervises long work: redraws its lines on the screen, and cancels it at Ctrl-C, other signals or `/stop`.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

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

/// What they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatSignal {
    /// Ctrl-C, where the line editor does not read it as a key.
    Interrupt,
    /// The process is to end.
    End,
}

/// The signals that mean something to a chat.
pub(super) struct ChatSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Once ended, every further call says so.
    is_over: bool,
}

impl ChatSignals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            is_over: false,
        })
    }

    /// The next of them.
    pub(super) async fn next(&mut self) -> ChatSignal {
        if self.is_over {
            return ChatSignal::End;
        }
        tokio::select! {
            _ = self.interrupt.recv() => return ChatSignal::Interrupt,
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
        self.is_over = true;
        ChatSignal::End
    }
}
