//! How long the first token takes from the server's write to the byte on stdout, through a pipe and on a terminal.

use std::{
    fs::File,
    io::{BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use hermes_testkit::TemporaryHome;
use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde_json::json;

use super::model_entry;
use crate::{
    baseline::read_head,
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

/// Occurs in nothing else that is printed.
const TOKEN: &str = "Xylophone";
const LIMIT: Duration = Duration::from_millis(2);
/// By then whoever asked waits for the token.
const WRITE_DELAY: Duration = Duration::from_millis(30);

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let server = TokenServer::start()?;
    let config = json!({"model": model_entry(&server.base_url())});
    let home = TemporaryHome::with_config(&config.to_string());
    let (mut bare, mut pipe, mut terminal) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 0..=effort.times(100) {
        let times = [
            server.delay(|| read_from_socket(server.port))?,
            server.delay(|| read_through_pipe(programs, home.path()))?,
            server.delay(|| read_on_terminal(programs, home.path()))?,
        ];
        if round > 0 {
            for (samples, time) in [&mut bare, &mut pipe, &mut terminal].into_iter().zip(times) {
                samples.push(time);
            }
        }
    }
    let target = Target::Below(Quantity::Time(LIMIT));
    report.add(ReportRow::times(
        "first token through a pipe",
        &pipe,
        &bare,
        target,
    ));
    report.add(ReportRow::times(
        "first token on a terminal",
        &terminal,
        &bare,
        target,
    ));
    Ok(())
}

/// A model that says when it wrote its token.
struct TokenServer {
    port: u16,
    written: Receiver<Instant>,
}

impl TokenServer {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let (sender, written) = channel();
        // It ends with this process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who hangs up early shows in the measurement.
                let _ = send_token(stream, &sender);
            }
        });
        Ok(Self { port, written })
    }

    fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// From the write to what `seen` returns.
    fn delay(&self, seen: impl FnOnce() -> Result<Instant>) -> Result<Duration> {
        let seen = seen()?;
        let written = self.written.recv_timeout(Duration::from_secs(5));
        let written = written.context("the model was not asked")?;
        Ok(seen.saturating_duration_since(written))
    }
}

fn send_token(mut stream: TcpStream, sender: &Sender<Instant>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let head = read_head(&mut reader)?.context("no request")?;
    let mut body = vec![0; head.length];
    reader.read_exact(&mut body)?;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )?;
    thread::sleep(WRITE_DELAY);
    let token = event(&json!({"role": "assistant", "content": TOKEN}), None);
    let written = Instant::now();
    stream.write_all(token.as_bytes())?;
    sender.send(written)?;
    thread::sleep(WRITE_DELAY);
    let end = event(&json!({}), Some("stop"));
    stream.write_all(format!("{end}data: [DONE]\n\n").as_bytes())?;
    Ok(())
}

fn event(delta: &serde_json::Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk = json!({
        "id": "x", "object": "chat.completion.chunk", "model": "bench", "choices": [choice],
    });
    format!("data: {chunk}\n\n")
}

/// The baseline: a socket and nothing else.
fn read_from_socket(port: u16) -> Result<Instant> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 0\r\n\r\n")?;
    read_until_token(&mut stream)
}

fn read_through_pipe(programs: &Programs, home: &Path) -> Result<Instant> {
    let mut child = chat_command(programs, home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let seen = read_until_token(&mut child.stdout.take().context("no stdout")?);
    child.wait()?;
    seen
}

fn read_on_terminal(programs: &Programs, home: &Path) -> Result<Instant> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let theirs: OwnedFd = open(
        name.as_c_str(),
        OFlags::RDWR | OFlags::NOCTTY,
        Mode::empty(),
    )?;
    let mut child = chat_command(programs, home)
        .stdin(theirs.try_clone()?)
        .stdout(theirs.try_clone()?)
        .stderr(theirs)
        .spawn()?;
    let mut screen = File::from(ours);
    let seen = read_until_token(&mut screen);
    // What is not read would keep the program from ending.
    thread::spawn(move || {
        let mut rest = [0; 4096];
        while screen.read(&mut rest).is_ok_and(|count| count > 0) {}
    });
    child.wait()?;
    seen
}

fn chat_command(programs: &Programs, home: &Path) -> Command {
    let mut command = Command::new(&programs.hermes);
    command
        .args(["chat", "-q", "hi"])
        .env("HERMES_HOME", home)
        .env("TERM", "xterm")
        .current_dir(home);
    command
}

/// Reads until the token has arrived, and to the end of what is buffered.
fn read_until_token(stream: &mut impl Read) -> Result<Instant> {
    let mut text = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).unwrap_or(0);
        let now = Instant::now();
        if count == 0 {
            bail!("the token never came: {}", String::from_utf8_lossy(&text));
        }
        text.extend_from_slice(&bytes[..count]);
        let is_there = text
            .windows(TOKEN.len())
            .any(|window| window == TOKEN.as_bytes());
        if is_there {
            return Ok(now);
        }
    }
}
