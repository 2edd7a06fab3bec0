//! The processes of one attempt to connect: usually one, and two while a second one is probed beside a silent server.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::failure::LastWords;
use crate::process::{Processes, Running};

/// How long an exit status is waited for once the connection broke.
const EXIT_GRACE: Duration = Duration::from_millis(300);

/// What was started for one attempt, in the order in which it was.
#[derive(Default)]
pub(super) struct AttemptProcesses {
    running: Vec<Running>,
    /// Those that are being stopped, whoever still waits for it.
    stopping: Vec<JoinHandle<()>>,
}

impl AttemptProcesses {
    pub(super) fn add(&mut self, running: Running) {
        self.running.push(running);
    }

    /// The process of the session, once there is one.
    pub(super) fn kept(&self) -> Option<&Running> {
        self.running.first()
    }

    pub(super) fn take_kept(mut self) -> Option<Running> {
        self.running.pop()
    }

    /// Stops all but one, without waiting for it: that one is the server from now on.
    pub(super) fn keep(&mut self, index: usize, processes: &Processes) {
        for (place, running) in std::mem::take(&mut self.running).into_iter().enumerate() {
            if place == index {
                self.running.push(running);
            } else {
                self.stopping.push(processes.stop_apart(running));
            }
        }
    }

    /// Stops all of them. Whoever gives up waiting here finds them again in [`Self::stop`].
    pub(super) async fn clear(&mut self, processes: &Processes) {
        let running = std::mem::take(&mut self.running);
        self.stopping
            .extend(running.into_iter().map(|old| processes.stop_apart(old)));
        while let Some(stopping) = self.stopping.last_mut() {
            let _ = stopping.await;
            self.stopping.pop();
        }
    }

    /// Waits until nothing of any of them is left.
    pub(super) async fn stop(self) {
        let running = futures::future::join_all(self.running.into_iter().map(Running::stop));
        let stopping = futures::future::join_all(self.stopping);
        tokio::join!(running, stopping);
    }

    /// Exit and last stderr lines: of the process that has ended, if one has.
    pub(super) async fn last_words(&mut self) -> LastWords {
        let mut last = LastWords::default();
        for process in &mut self.running {
            let words = last_words(process).await;
            if words.exit.is_some() || last.confined.is_none() && last.stderr.is_empty() {
                last = words;
            }
        }
        last
    }
}

/// Exit and last stderr lines of a local server that has failed.
pub(super) async fn last_words(process: &mut Running) -> LastWords {
    match tokio::time::timeout(EXIT_GRACE, process.exited()).await {
        Ok(exit) => LastWords {
            exit: Some(exit.to_string()),
            stderr: process.last_lines().await,
            confined: process.confined().cloned(),
        },
        Err(_) => LastWords {
            exit: None,
            stderr: process.lines(),
            confined: process.confined().cloned(),
        },
    }
}
