//! The processes of one attempt to connect: usually one, and two while a second one is probed beside a silent server.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::failure::ExitReport;
use crate::process::{Processes, RunningProcess};

/// How long an exit status is waited for once the connection broke.
const EXIT_GRACE: Duration = Duration::from_millis(300);

/// What was started for one attempt, in the order in which it was.
#[derive(Default)]
pub(super) struct AttemptProcesses {
    running: Vec<RunningProcess>,
    /// Those that are being stopped, whoever still waits for it.
    stopping: Vec<JoinHandle<()>>,
}

impl AttemptProcesses {
    pub(super) fn add(&mut self, running: RunningProcess) {
        self.running.push(running);
    }

    /// The process of the session, once there is one.
    pub(super) fn session_process(&self) -> Option<&RunningProcess> {
        self.running.first()
    }

    pub(super) fn into_session_process(mut self) -> Option<RunningProcess> {
        self.running.pop()
    }

    /// Stops all but one, without waiting for it: that one is the server from now on.
    pub(super) fn keep_only(&mut self, index: usize, processes: &Processes) {
        for (position, running) in std::mem::take(&mut self.running).into_iter().enumerate() {
            if position == index {
                self.running.push(running);
            } else {
                self.stopping.push(processes.stop_in_background(running));
            }
        }
    }

    /// Stops all of them. Whoever gives up waiting here finds them again in [`Self::stop`].
    pub(super) async fn stop_running(&mut self, processes: &Processes) {
        let running = std::mem::take(&mut self.running);
        self.stopping.extend(
            running
                .into_iter()
                .map(|old| processes.stop_in_background(old)),
        );
        while let Some(stopping) = self.stopping.last_mut() {
            let _ = stopping.await;
            self.stopping.pop();
        }
    }

    /// Waits until nothing of any of them is left.
    pub(super) async fn stop(self) {
        let running = futures::future::join_all(self.running.into_iter().map(RunningProcess::stop));
        let stopping = futures::future::join_all(self.stopping);
        tokio::join!(running, stopping);
    }

    /// Exit and last stderr lines: of the process that has ended, if one has.
    pub(super) async fn exit_report(&mut self) -> ExitReport {
        let mut last = ExitReport::default();
        for process in &mut self.running {
            let report = collect_exit_report(process).await;
            if report.exit.is_some() || last.confined.is_none() && last.stderr.is_empty() {
                last = report;
            }
        }
        last
    }
}

/// Exit and last stderr lines of a local server that has failed.
pub(super) async fn collect_exit_report(process: &mut RunningProcess) -> ExitReport {
    match tokio::time::timeout(EXIT_GRACE, process.exited()).await {
        Ok(exit) => ExitReport {
            exit: Some(exit.to_string()),
            stderr: process.final_stderr().await,
            confined: process.confined().cloned(),
        },
        Err(_) => ExitReport {
            exit: None,
            stderr: process.stderr_lines(),
            confined: process.confined().cloned(),
        },
    }
}
