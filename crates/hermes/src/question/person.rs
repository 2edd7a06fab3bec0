//! The person at the terminal, asked by MCP servers while a call runs.

use std::{io, thread::JoinHandle};

use futures::future::BoxFuture;
use hermes_agent::elicitation::{Answer, FormRequest, LinkRequest, NotAsked, Person};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{form, visit};

/// Keeps everything else off the screen until it is dropped.
pub(crate) type Hold = Box<dyn Fn() -> Box<dyn Send> + Send + Sync>;

/// The person at the terminal of this process.
pub(crate) struct TerminalPerson {
    hold: Hold,
}

impl TerminalPerson {
    /// `hold` is called before each question; what it returns is dropped after it.
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// Asks in a thread of its own, since reading keys blocks. Dropped, the question is taken back.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, NotAsked> {
        let _held = (self.hold)();
        let (sender, answer) = oneshot::channel();
        let _asking = Asking::begin(move || {
            // Whoever asked may have stopped waiting.
            let _ = sender.send(question());
        })
        .map_err(|error| not_asked(&error))?;
        match answer.await {
            Ok(answer) => answer.map_err(|error| not_asked(&error)),
            Err(_) => Err(NotAsked("the question was interrupted".into())),
        }
    }
}

impl Person for TerminalPerson {
    fn fill_in(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<Answer<Map<String, Value>>, NotAsked>> {
        Box::pin(self.ask(move || form::ask(&request)))
    }

    fn visit(&self, request: LinkRequest) -> BoxFuture<'_, Result<Answer<()>, NotAsked>> {
        Box::pin(self.ask(move || visit::ask(&request)))
    }
}

fn not_asked(error: &io::Error) -> NotAsked {
    NotAsked(format!("the terminal cannot be used: {error}"))
}

/// A thread that asks. Dropping this ends the question and waits until the terminal is as it was.
struct Asking {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    fn begin(question: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("question".into())
            .spawn(move || super::until(stopped, question))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported already.
            let _ = thread.join();
        }
    }
}
