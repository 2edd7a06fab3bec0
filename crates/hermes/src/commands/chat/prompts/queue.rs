//! The queue of prompts to the person: one at a time, each with the screen to itself.
//!
//! Approvals, the model's questions, forms of servers and the chat's own confirmations all come through here. While a
//! question is open nothing else is written; what happens meanwhile appears afterwards.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    commands::chat::screen::{Screen, ScreenLock},
    failure::{Failure, FailureKind},
    output::terminal,
    question::{self, Questions},
};

/// The queue of prompts. Clones share it.
#[derive(Clone)]
pub(crate) struct PromptQueue {
    screen: Screen,
    /// Held while a prompt is open. Others wait in order.
    prompt_lock: Arc<Mutex<()>>,
    /// What Ctrl-C at a prompt cancels.
    cancelled_by_interrupt: Arc<hermes_config::sync::Mutex<CancellationToken>>,
    presence: TerminalPresence,
}

/// Whether a person is at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalPresence {
    Person,
    Nobody,
}

/// An open prompt.
pub(crate) struct OpenPrompt<'a> {
    screen: &'a ScreenLock,
    questions: Questions,
}

impl OpenPrompt<'_> {
    /// Writes a line of the question.
    pub(crate) fn say(&self, text: &str) {
        self.screen.say(text);
    }

    /// Reads one line.
    pub(crate) fn read_line(&self, prompt: &str) -> Result<String, Failure> {
        self.questions.text(prompt, None, "")
    }
}

impl PromptQueue {
    pub(crate) fn new(screen: Screen, presence: TerminalPresence) -> Self {
        Self {
            screen,
            prompt_lock: Arc::default(),
            cancelled_by_interrupt: Arc::default(),
            presence,
        }
    }

    /// Whether somebody can be asked.
    pub(crate) fn has_person(&self) -> bool {
        self.presence == TerminalPresence::Person
    }

    /// Whether a line is being typed, which no question may interrupt.
    pub(crate) fn is_editing(&self) -> bool {
        self.screen.is_editing()
    }

    /// Sets what Ctrl-C at a prompt cancels.
    pub(crate) fn cancel_on_interrupt(&self, work: CancellationToken) {
        *self.cancelled_by_interrupt.lock() = work;
    }

    /// Runs `act` while no prompt can open; `None` if one is open.
    pub(crate) fn run_unless_prompting<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let _turn = self.prompt_lock.try_lock().ok()?;
        Some(act())
    }

    /// Waits until no prompt is open.
    pub(crate) async fn wait_until_idle(&self) {
        drop(self.prompt_lock.lock().await);
    }

    /// Opens a prompt when it is its turn. `None`: no answer, because nobody is there, the person pressed Ctrl-C, or
    /// this future was dropped.
    pub(crate) async fn prompt<T: Send + 'static>(
        &self,
        question: impl FnOnce(&OpenPrompt<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Option<T> {
        if self.presence == TerminalPresence::Nobody {
            return None;
        }
        let turn = self.prompt_lock.clone().lock_owned().await;
        let stop = CancellationToken::new();
        // Dropped with this future, it ends the question; the thread gives the screen back by itself.
        let _stopper = stop.clone().drop_guard();
        let screen = self.screen.clone();
        let prompting = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let lock = screen.lock_output();
            terminal::discard_typed_input();
            let prompt = OpenPrompt {
                screen: &lock,
                questions: Questions::new(false),
            };
            let answer = question::with_cancellation(stop.clone(), || question(&prompt));
            if stop.is_cancelled() {
                lock.say("(no answer is needed any more)");
            }
            answer
        });
        match prompting.await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(failure)) => {
                if failure.kind == FailureKind::Interrupted {
                    let work = self.cancelled_by_interrupt.lock();
                    work.cancel();
                }
                None
            }
            Err(_) => None,
        }
    }
}
