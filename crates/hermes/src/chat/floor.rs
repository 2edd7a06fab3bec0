//! The queue of prompts to the person: one at a time, each with the screen to itself.
//!
//! Approvals, the model's questions, forms of servers and the chat's own confirmations all come through here. While a
//! question is open nothing else is written; what happens meanwhile appears afterwards.

use std::sync::{Arc, PoisonError};

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    screen::{Held, Screen},
    terminal,
};
use crate::{
    failure::{Failure, Kind},
    question::{self, Questions},
};

/// The queue of prompts. Clones share it.
#[derive(Clone)]
pub(crate) struct Floor {
    screen: Screen,
    /// Held while a prompt is open. Others wait in order.
    turn: Arc<Mutex<()>>,
    /// What Ctrl-C at a prompt cancels.
    work: Arc<std::sync::Mutex<CancellationToken>>,
    presence: Presence,
}

/// Whether a person is at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Person,
    Nobody,
}

/// An open prompt.
pub(crate) struct Asking<'a> {
    screen: &'a Held,
    questions: Questions,
}

impl Asking<'_> {
    /// Writes a line of the question.
    pub(crate) fn say(&self, text: &str) {
        self.screen.say(text);
    }

    /// Reads one line.
    pub(crate) fn line(&self, prompt: &str) -> Result<String, Failure> {
        self.questions.text(prompt, None, "")
    }
}

impl Floor {
    pub(crate) fn new(screen: Screen, presence: Presence) -> Self {
        Self {
            screen,
            turn: Arc::default(),
            work: Arc::default(),
            presence,
        }
    }

    /// Whether somebody can be asked.
    pub(crate) fn has_person(&self) -> bool {
        self.presence == Presence::Person
    }

    /// Whether a line is being typed, which no question may interrupt.
    pub(crate) fn is_editing(&self) -> bool {
        self.screen.is_editing()
    }

    /// Sets what Ctrl-C at a prompt cancels.
    pub(crate) fn serve(&self, work: CancellationToken) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = work;
    }

    /// Runs `act` while no prompt can open; `None` if one is open.
    pub(crate) fn unless_asking<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let _turn = self.turn.try_lock().ok()?;
        Some(act())
    }

    /// Waits until no prompt is open.
    pub(crate) async fn free(&self) {
        drop(self.turn.lock().await);
    }

    /// Opens a prompt when it is its turn. `None`: no answer, because nobody is there, the person pressed Ctrl-C, or
    /// this future was dropped.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Asking<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Option<T> {
        if self.presence == Presence::Nobody {
            return None;
        }
        let turn = self.turn.clone().lock_owned().await;
        let stop = CancellationToken::new();
        // Dropped with this future, it ends the question; the thread gives the screen back by itself.
        let _stopper = stop.clone().drop_guard();
        let screen = self.screen.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let held = screen.hold();
            terminal::forget_typed();
            let asking = Asking {
                screen: &held,
                questions: Questions::new(false),
            };
            let answer = question::until(stop.clone(), || question(&asking));
            if stop.is_cancelled() {
                held.say("(no answer is needed any more)");
            }
            answer
        });
        match asked.await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(failure)) => {
                if failure.kind == Kind::Interrupted {
                    let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
                    work.cancel();
                }
                None
            }
            Err(_) => None,
        }
    }
}
