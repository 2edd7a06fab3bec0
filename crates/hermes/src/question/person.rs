//! The person at the terminal, asked by MCP servers while a call runs.

use std::{io, thread::JoinHandle};

use futures::future::BoxFuture;
use hermes_agent::server_requests::elicitation::{
    ElicitationAnswer, ElicitationUi, ElicitationUnavailable, FormRequest, LinkRequest,
};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::form;
use crate::question::browser;

/// Keeps everything else off the screen until it is dropped.
pub(crate) type HoldScreen = Box<dyn Fn() -> Box<dyn Send> + Send + Sync>;

/// The person at the terminal of this process.
pub(crate) struct TerminalPerson {
    hold: HoldScreen,
}

impl TerminalPerson {
    /// `hold` is called before each question; what it returns is dropped after it.
    pub(crate) fn new(hold: HoldScreen) -> Self {
        Self { hold }
    }

    /// Asks in a thread of its own, since reading keys blocks. Dropped, the question is taken back.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, ElicitationUnavailable> {
        let _held = (self.hold)();
        let (sender, answer) = oneshot::channel();
        let _asking = QuestionThread::spawn(move || {
            // Whoever asked may have stopped waiting.
            let _ = sender.send(question());
        })
        .map_err(|error| not_asked(&error))?;
        match answer.await {
            Ok(answer) => answer.map_err(|error| not_asked(&error)),
            Err(_) => Err(ElicitationUnavailable(
                "the question was interrupted".into(),
            )),
        }
    }
}

impl ElicitationUi for TerminalPerson {
    fn fill_form(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>> {
        Box::pin(self.ask(move || form::ask_form(&request)))
    }

    fn confirm_link(
        &self,
        request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        Box::pin(self.ask(move || browser::ask_link(&request)))
    }
}

fn not_asked(error: &io::Error) -> ElicitationUnavailable {
    ElicitationUnavailable(format!("the terminal cannot be used: {error}"))
}

/// A thread that asks. Dropping this ends the question and waits until the terminal is as it was.
struct QuestionThread {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl QuestionThread {
    fn spawn(question: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("question".into())
            .spawn(move || super::with_cancellation(stopped, question))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for QuestionThread {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported already.
            let _ = thread.join();
        }
    }
}
