//! What servers print on stderr: always read, the last lines kept in memory, all of it logged to one file per home.
//!
//! Reading never waits for the disk. Batches of lines go to one writer thread over a bounded channel; what does not
//! fit is counted and dropped. That thread also takes out the secrets which a server tells.

use std::{
    borrow::Cow,
    collections::VecDeque,
    io::BufRead,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    task::Poll,
    time::{Duration, SystemTime},
};

use hermes_config::{LogFile, Redactor, ServerName, clock, sync::Mutex};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::unix::pipe::Receiver,
    task::JoinSet,
    time::timeout,
};

/// How much is read at once. Short lines grow by their prefix, so this also bounds a batch.
const READ_CHUNK: usize = 16 * 1024;

/// Batches on their way to the writer: a few megabytes at the very worst.
const QUEUE_CAPACITY: usize = 16;

/// How long the separator of a silent server waits: many servers start at once, and the log is not what is waited for.
const HEADER_DELAY: Duration = Duration::from_secs(1);

/// How long the last lines of a server that has ended may take to arrive.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How long to wait for the disk when the log is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a line is cut.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// How many lines are kept for error messages.
const TAIL_LINES: usize = 20;

/// Stands at the end of a line that was cut.
const CUT: &str = " … (cut)";

/// The stderr log of a home, `logs/mcp-stderr.log`, shared by all servers of a host.
#[derive(Debug)]
pub struct StderrLog {
    file: PathBuf,
    writer: OnceLock<Option<SyncSender<LogMessage>>>,
}

enum LogMessage {
    Lines(String, Arc<Redactor>),
    Close(SyncSender<()>),
}

impl StderrLog {
    /// The log of this home. Nothing is opened before the first server is drained.
    pub fn new(home: &Path) -> Self {
        Self::at(home.join("logs").join("mcp-stderr.log"))
    }

    /// A log in another place.
    pub fn at(file: PathBuf) -> Self {
        Self {
            file,
            writer: OnceLock::new(),
        }
    }

    /// Reads a server's stderr to its end, in a task that the result owns.
    ///
    /// `command` stands in the separator line. The file does not get what the redactor knows.
    pub fn drain(
        &self,
        server: &ServerName,
        pid: u32,
        command: &str,
        redactor: Arc<Redactor>,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> ServerStderr {
        let tail = Arc::new(Mutex::new(LineTail::default()));
        let name = one_line(server.as_str());
        let now = clock::timestamp(SystemTime::now());
        let drain = StderrReader {
            batch: format!(
                "---- {now} [{name}] pid {pid}: {} ----\n",
                one_line(command)
            ),
            name,
            lost: 0,
            tail: Arc::clone(&tail),
            redactor,
            writer: self.writer(),
        };
        let mut reader = JoinSet::new();
        reader.spawn(drain.run(stderr));
        ServerStderr { tail, reader }
    }

    /// The same for the pipe of a process, so that [`ServerStderr::clear`] knows what is still in it.
    pub(super) fn drain_pipe(
        &self,
        server: &ServerName,
        pid: u32,
        command: &str,
        redactor: Arc<Redactor>,
        stderr: Receiver,
    ) -> ServerStderr {
        let pipe = stderr.as_fd().try_clone_to_owned().ok();
        let drained = self.drain(server, pid, command, redactor, stderr);
        drained.tail.lock().pipe = pipe;
        drained
    }

    /// `None` where no thread can be started; draining goes on without a log then.
    fn writer(&self) -> Option<SyncSender<LogMessage>> {
        let start = || {
            let (sender, receiver) = sync_channel(QUEUE_CAPACITY);
            let file = LogFile::in_existing_home(self.file.clone());
            std::thread::Builder::new()
                .name("mcp-stderr-log".into())
                .spawn(move || run_writer(file, &receiver))
                .ok()
                .map(|_| sender)
        };
        self.writer.get_or_init(start).clone()
    }
}

impl Drop for StderrLog {
    /// Waits until what was read is written, but not for a disk that hangs.
    fn drop(&mut self) {
        if let Some(Some(writer)) = self.writer.get() {
            let (done, written) = sync_channel(1);
            if writer.try_send(LogMessage::Close(done)).is_ok() {
                let _ = written.recv_timeout(CLOSE_TIMEOUT);
            }
        }
    }
}

/// The writer thread.
fn run_writer(mut file: LogFile, messages: &std::sync::mpsc::Receiver<LogMessage>) {
    for message in messages {
        match message {
            LogMessage::Lines(lines, redactor) => file.append(redactor.redact(&lines).as_bytes()),
            LogMessage::Close(done) => {
                let _ = done.send(());
                return;
            }
        }
    }
}

/// One server's stderr. Dropping it ends the reading, so keep it as long as the process.
#[derive(Debug)]
pub struct ServerStderr {
    tail: Arc<Mutex<LineTail>>,
    reader: JoinSet<()>,
}

impl ServerStderr {
    /// The last lines so far, oldest first. Redact them before showing them.
    pub fn tail(&self) -> Vec<String> {
        self.tail.lock().lines()
    }

    /// Forgets what was printed so far, and what of it was not read yet.
    pub fn clear(&self) {
        let mut tail = self.tail.lock();
        let pipe = tail.pipe.take();
        let waiting = pipe.and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        let waiting = usize::try_from(waiting.unwrap_or(0)).unwrap_or(usize::MAX);
        let unprocessed = tail.unprocessed;
        *tail = LineTail {
            unprocessed,
            skipped: unprocessed.saturating_add(waiting),
            ..LineTail::default()
        };
    }

    /// Waits for the last output of a server that has ended; a descendant that keeps stderr open is not waited for.
    pub async fn wait_for_end(&mut self) {
        let _ = timeout(DRAIN_TIMEOUT, self.reader.join_next()).await;
    }
}

/// The reading side of one server.
struct StderrReader {
    name: String,
    batch: String,
    /// Lines dropped since the writer last had room.
    lost: usize,
    tail: Arc<Mutex<LineTail>>,
    redactor: Arc<Redactor>,
    writer: Option<SyncSender<LogMessage>>,
}

impl StderrReader {
    async fn run(mut self, mut stderr: impl AsyncRead + Unpin) {
        let mut splitter = LineSplitter::default();
        let mut chunk = Vec::with_capacity(READ_CHUNK);
        let first = timeout(HEADER_DELAY, self.read(&mut stderr, &mut chunk)).await;
        let mut read = if let Ok(read) = first {
            read
        } else {
            self.flush_batch(0);
            self.read(&mut stderr, &mut chunk).await
        };
        while let Ok(1..) = read {
            let lines = self.append_lines(&mut splitter, &chunk);
            self.flush_batch(lines);
            chunk.clear();
            read = self.read(&mut stderr, &mut chunk).await;
        }
        let last = splitter.unfinished();
        if !last.is_empty() {
            self.append(&self.prefix(), &last);
        }
        self.flush_batch(usize::from(!last.is_empty()));
    }

    /// Reads what there is. The lock tells [`ServerStderr::clear`] whether a byte is still in the pipe.
    async fn read(
        &self,
        stderr: &mut (impl AsyncRead + Unpin),
        chunk: &mut Vec<u8>,
    ) -> std::io::Result<usize> {
        let mut reading = std::pin::pin!(stderr.read_buf(chunk));
        std::future::poll_fn(|context| {
            let mut tail = self.tail.lock();
            let read = reading.as_mut().poll(context);
            if let Poll::Ready(Ok(count)) = read {
                tail.unprocessed += count;
            }
            read
        })
        .await
    }

    /// Adds the lines that `chunk` completes to the tail and the batch; returns how many they are.
    fn append_lines(&mut self, splitter: &mut LineSplitter, chunk: &[u8]) -> usize {
        let prefix = self.prefix();
        let tail = Arc::clone(&self.tail);
        let mut tail = tail.lock();
        tail.unprocessed -= chunk.len();
        let (skipped, told) = chunk.split_at(tail.skipped.min(chunk.len()));
        tail.skipped -= skipped.len();
        let mut lines = 0;
        splitter.feed(skipped, |line| {
            lines += 1;
            self.append(&prefix, line);
        });
        splitter.feed(told, |line| {
            lines += 1;
            tail.push(line);
            self.append(&prefix, line);
        });
        if !told.is_empty() {
            tail.set_unfinished(&splitter.unfinished());
        }
        lines
    }

    fn prefix(&self) -> String {
        format!("{} [{}] ", clock::timestamp(SystemTime::now()), self.name)
    }

    fn append(&mut self, prefix: &str, line: &str) {
        self.batch.push_str(prefix);
        self.batch.push_str(line);
        self.batch.push('\n');
    }

    /// Gives the batch to the writer if it has room, and forgets it otherwise.
    fn flush_batch(&mut self, lines: usize) {
        let mut batch = std::mem::take(&mut self.batch);
        let Some(writer) = self.writer.as_ref().filter(|_| !batch.is_empty()) else {
            return;
        };
        if self.lost > 0 {
            let note = format!(
                "{}({} lines lost: the disk is slow)\n",
                self.prefix(),
                self.lost
            );
            batch.insert_str(0, &note);
        }
        match writer.try_send(LogMessage::Lines(batch, Arc::clone(&self.redactor))) {
            Ok(()) => self.lost = 0,
            Err(TrySendError::Full(_)) => self.lost += lines,
            Err(TrySendError::Disconnected(_)) => self.writer = None,
        }
    }
}

/// A name or command must not be able to fake a log line.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests;

/// Makes lines of chunks.
#[derive(Debug, Default)]
struct LineSplitter {
    line: Vec<u8>,
    is_cut: bool,
}

impl LineSplitter {
    /// Calls `each` with every line that `chunk` completes.
    fn feed(&mut self, chunk: &[u8], mut each: impl FnMut(&str)) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let from = rest;
            // Reading a slice does not fail.
            let count = rest.skip_until(b'\n').unwrap_or(from.len());
            let piece = &from[..count];
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.extend(end);
                    each(&self.unfinished());
                    self.line.clear();
                    self.is_cut = false;
                }
                None => self.extend(piece),
            }
        }
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = MAX_LINE_BYTES - self.line.len();
        self.line.extend_from_slice(&piece[..room.min(piece.len())]);
        self.is_cut |= piece.len() > room;
    }

    /// The line as far as it has come.
    fn unfinished(&self) -> Cow<'_, str> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let line = String::from_utf8_lossy(line);
        if self.is_cut {
            Cow::Owned(line.into_owned() + CUT)
        } else {
            line
        }
    }
}

/// The last lines of a server.
#[derive(Debug, Default)]
struct LineTail {
    lines: VecDeque<String>,
    /// A prompt has no line end, but says why a server hangs.
    unfinished: String,
    /// Bytes that were read and are not among the lines yet.
    unprocessed: usize,
    /// Bytes that will come and are not told.
    skipped: usize,
    /// Tells how much was not read yet. Until the lines are cleared for the first time.
    pipe: Option<OwnedFd>,
}

impl LineTail {
    fn push(&mut self, line: &str) {
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    fn set_unfinished(&mut self, line: &str) {
        line.clone_into(&mut self.unfinished);
    }

    /// Oldest first.
    fn lines(&self) -> Vec<String> {
        let unfinished = Some(&self.unfinished).filter(|line| !line.is_empty());
        self.lines.iter().chain(unfinished).cloned().collect()
    }
}
