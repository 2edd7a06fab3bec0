//! Signals during an interactive chat.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
