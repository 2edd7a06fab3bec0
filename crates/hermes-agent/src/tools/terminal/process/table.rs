//! The background processes of one session, and their recent output.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::{
    random::random_digits,
    sync::{Mutex, MutexGuard},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::tools::terminal::{
    capture::{OutputCapture, strip_control_sequences},
    child::{CommandChild, CommandStart, InputMode, InputWriter, OutputReader, StartedCommand},
};

const MAX_RUNNING: usize = 32;
/// Ended processes that can still be queried.
const MAX_ENDED: usize = 64;
/// A pattern that matches often must not flood the conversation.
const MAX_MATCHES: usize = 10;
/// How long to wait for output after the process has ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(250);
/// How long closing a session waits for its processes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A notice about a background process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessNotice {
    Ended {
        session_id: String,
        command: String,
        exit_code: Option<i32>,
        output: String,
    },
    /// A line contains one of the watched texts.
    Matched {
        session_id: String,
        pattern: String,
        line: String,
    },
}

/// Which notices the conversation gets about a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessWatch {
    pub notify_exit: bool,
    pub patterns: Vec<String>,
}

type NoticeListener = Arc<dyn Fn(ProcessNotice) + Send + Sync>;

/// The background processes of a session. They are killed when it is dropped or closed.
#[derive(Default)]
pub struct ProcessTable {
    entries: Mutex<BTreeMap<String, Arc<ProcessEntry>>>,
    listener: Option<NoticeListener>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ProcessTable {
    /// A table without processes.
    pub fn new() -> Self {
        Self::default()
    }

    /// A table whose notices go to a listener, which must not block.
    pub fn with_listener(listener: impl Fn(ProcessNotice) + Send + Sync + 'static) -> Self {
        let mut table = Self::default();
        table.listener = Some(Arc::new(listener));
        table
    }

    /// Ends all processes and waits until they are gone.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.tasks.wait()).await;
    }

    /// Starts a process and returns its id and state.
    pub(in crate::tools) fn start(
        &self,
        start: &CommandStart<'_>,
        watch: ProcessWatch,
    ) -> Result<Value, String> {
        let mut entries = self.entries();
        let running = entries.values().filter(|entry| entry.is_running()).count();
        if running >= MAX_RUNNING {
            return Err(format!(
                "{running} processes are running already; end some of them first"
            ));
        }
        let started = StartedCommand::new(start, InputMode::Open)
            .map_err(|error| format!("the command could not be started: {error}"))?;
        let (publish, state) = watch::channel(ProcessState::Running);
        let entry = Arc::new(ProcessEntry {
            id: generate_process_id(),
            command: start.command.to_owned(),
            pid: started.child.id(),
            started: Instant::now(),
            log: Mutex::default(),
            input: tokio::sync::Mutex::new(started.input),
            state,
            stop: self.stop.child_token(),
        });
        let pump = OutputPump {
            entry: entry.clone(),
            watch,
            listener: self.listener.clone(),
            publish,
            matches: 0,
        };
        self.tasks.spawn(pump.run(started.child, started.output));
        let answer = json!({"session_id": entry.id, "pid": entry.pid, "status": "running"});
        entries.insert(entry.id.clone(), entry);
        drop_oldest_ended(&mut entries);
        Ok(answer)
    }

    /// Whether one of them runs.
    pub fn has_running(&self) -> bool {
        self.entries().values().any(|entry| entry.is_running())
    }

    /// Ids and command lines of those that run, in the order in which they were begun.
    pub fn running(&self) -> Vec<(String, String)> {
        let mut running: Vec<Arc<ProcessEntry>> = self.entries().values().cloned().collect();
        running.retain(|entry| entry.is_running());
        running.sort_by_key(|entry| entry.started);
        let commands = running
            .iter()
            .map(|entry| (entry.id.clone(), entry.command.clone()));
        commands.collect()
    }

    /// Ends one and waits until it is gone. Returns whether it ran.
    pub async fn end(&self, id: &str) -> bool {
        let Some(entry) = self.find(id).filter(|entry| entry.is_running()) else {
            return false;
        };
        entry.kill();
        entry.wait_until_ended().await;
        true
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<ProcessEntry>> {
        self.entries().get(id).cloned()
    }

    pub(super) fn list(&self) -> Vec<Value> {
        let mut entries: Vec<Arc<ProcessEntry>> = self.entries().values().cloned().collect();
        entries.sort_by_key(|entry| entry.started);
        entries.iter().map(|entry| entry.state()).collect()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ProcessEntry>>> {
        self.entries.lock()
    }
}

impl Drop for ProcessTable {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn drop_oldest_ended(entries: &mut BTreeMap<String, Arc<ProcessEntry>>) {
    let mut ended: Vec<Arc<ProcessEntry>> = entries
        .values()
        .filter(|entry| !entry.is_running())
        .cloned()
        .collect();
    ended.sort_by_key(|entry| entry.started);
    let excess = ended.len().saturating_sub(MAX_ENDED);
    for entry in &ended[..excess] {
        entries.remove(&entry.id);
    }
}

/// An id that is unique in this program.
fn generate_process_id() -> String {
    format!("proc_{}", random_digits(12))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    Running,
    Ended(Option<i32>),
}

pub(super) struct ProcessEntry {
    id: String,
    command: String,
    pid: i32,
    started: Instant,
    log: Mutex<OutputLog>,
    /// Held during a write, which may wait for the process.
    input: tokio::sync::Mutex<Option<InputWriter>>,
    state: watch::Receiver<ProcessState>,
    stop: CancellationToken,
}

impl ProcessEntry {
    fn is_running(&self) -> bool {
        *self.state.borrow() == ProcessState::Running
    }

    pub(super) fn state(&self) -> Value {
        let mut state = json!({
            "session_id": self.id,
            "command": self.command,
            "pid": self.pid,
            "seconds_since_start": self.started.elapsed().as_secs(),
        });
        match *self.state.borrow() {
            ProcessState::Running => state["status"] = "running".into(),
            ProcessState::Ended(code) => {
                state["status"] = "exited".into();
                state["exit_code"] = code.into();
            }
        }
        state
    }

    pub(super) fn new_output(&self) -> String {
        self.lock_log().take_new_text()
    }

    pub(super) fn all_output(&self) -> String {
        self.lock_log().all()
    }

    pub(super) fn kill(&self) {
        self.stop.cancel();
    }

    /// Waits until it has ended.
    pub(super) async fn wait_until_ended(&self) {
        let mut state = self.state.clone();
        // The sender lives until the process has ended.
        let _ = state
            .wait_for(|state| *state != ProcessState::Running)
            .await;
    }

    pub(super) async fn write(&self, bytes: &[u8]) -> Result<(), String> {
        let mut input = self.input.lock().await;
        match input.as_mut() {
            Some(input) if self.is_running() => input
                .write_all(bytes)
                .await
                .map_err(|error| error.to_string()),
            Some(_) => Err("the process has ended".into()),
            None => Err("the input of the process is closed".into()),
        }
    }

    /// Closes its input. On a terminal it sends the end-of-transmission character.
    pub(super) async fn close_input(&self) -> Result<(), String> {
        if let Some(input) = self.input.lock().await.take() {
            let _ = input.finish().await;
        }
        Ok(())
    }

    fn lock_log(&self) -> MutexGuard<'_, OutputLog> {
        self.log.lock()
    }
}

/// Copies the output of a process to its log until it ends.
struct OutputPump {
    entry: Arc<ProcessEntry>,
    watch: ProcessWatch,
    listener: Option<NoticeListener>,
    publish: watch::Sender<ProcessState>,
    matches: usize,
}

impl OutputPump {
    async fn run(mut self, mut child: CommandChild, mut output: OutputReader) {
        let mut buffer = vec![0; 8192];
        let mut is_open = true;
        let mut code = None;
        let mut until = None;
        let stop = self.entry.stop.clone();
        loop {
            let last_words = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                read = output.read(&mut buffer), if is_open => match read {
                    Ok(length) if length > 0 => self.append_output(&buffer[..length]),
                    _ => is_open = false,
                },
                exited = child.wait(), if code.is_none() => {
                    code = Some(exited);
                    until = Some(tokio::time::Instant::now() + OUTPUT_GRACE);
                }
                () = stop.cancelled() => {
                    code = Some(child.terminate().await);
                    break;
                }
                () = last_words => break,
            }
            if code.is_some() && !is_open {
                break;
            }
        }
        child.kill_group();
        let last_line = self.entry.lock_log().take_line();
        if let Some(line) = last_line {
            self.match_line(&line);
        }
        let code = code.flatten();
        let _ = self.publish.send(ProcessState::Ended(code));
        if self.watch.notify_exit && !stop.is_cancelled() {
            let output = self.entry.all_output();
            let start = output
                .char_indices()
                .rev()
                .nth(1999)
                .map_or(0, |(at, _)| at);
            self.notify(ProcessNotice::Ended {
                session_id: self.entry.id.clone(),
                command: self.entry.command.clone(),
                exit_code: code,
                output: output[start..].to_owned(),
            });
        }
    }

    fn append_output(&mut self, bytes: &[u8]) {
        let lines = self.entry.lock_log().push(bytes);
        for line in lines {
            self.match_line(&line);
        }
    }

    fn match_line(&mut self, line: &str) {
        let pattern = self
            .watch
            .patterns
            .iter()
            .find(|pattern| line.contains(pattern.as_str()));
        if let Some(pattern) = pattern.cloned().filter(|_| self.matches < MAX_MATCHES) {
            self.matches += 1;
            let session_id = self.entry.id.clone();
            self.notify(ProcessNotice::Matched {
                session_id,
                pattern,
                line: line.to_owned(),
            });
        }
    }

    fn notify(&self, notice: ProcessNotice) {
        if let Some(listener) = &self.listener {
            listener(notice);
        }
    }
}

/// Older output is dropped.
const MAX_LOG_BYTES: usize = 400_000;
/// Longer lines are matched in parts.
const MAX_LINE_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct OutputLog {
    bytes: VecDeque<u8>,
    /// Bytes that were dropped.
    forgotten: usize,
    /// The end of the output that was already returned.
    seen: usize,
    /// An incomplete line.
    line: Vec<u8>,
}

impl OutputLog {
    /// Adds output and returns the completed lines.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(MAX_LOG_BYTES);
        self.bytes.drain(..excess);
        self.forgotten += excess;
        let mut lines = Vec::new();
        for &byte in bytes {
            self.line.push(byte);
            if byte == b'\n' || self.line.len() > MAX_LINE_BYTES {
                lines.extend(self.take_line());
            }
        }
        lines
    }

    /// The line that was never completed.
    pub(super) fn take_line(&mut self) -> Option<String> {
        let line = strip_control_sequences(&std::mem::take(&mut self.line));
        let line = line.trim_end();
        (!line.is_empty()).then(|| line.to_owned())
    }

    pub(super) fn all(&self) -> String {
        let (first, second) = self.bytes.as_slices();
        strip_control_sequences(&[first, second].concat())
    }

    /// The output since the last call.
    pub(super) fn take_new_text(&mut self) -> String {
        let from = self
            .seen
            .saturating_sub(self.forgotten)
            .min(self.bytes.len());
        let mut capture = OutputCapture::default();
        capture.push(&self.bytes.range(from..).copied().collect::<Vec<u8>>());
        self.seen = self.forgotten + self.bytes.len();
        capture.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_handed_out_when_they_are_complete() {
        let mut log = OutputLog::default();
        assert_eq!(log.push(b"one\ntw"), ["one"]);
        assert_eq!(log.push(b"o\n\nthree"), ["two"]);
        assert_eq!(log.take_line().as_deref(), Some("three"));
        assert_eq!(log.all(), "one\ntwo\n\nthree");
    }

    #[test]
    fn new_text_is_shown_once_even_when_old_text_is_forgotten() {
        let mut log = OutputLog::default();
        log.push(b"one ");
        assert_eq!(log.take_new_text(), "one ");
        assert_eq!(log.take_new_text(), "");
        for _ in 0..5 {
            log.push(&vec![b'x'; 100_000]);
        }
        log.push(b"end");
        assert!(log.take_new_text().ends_with("xend"));
        assert!(log.all().len() <= MAX_LOG_BYTES);
    }
}
