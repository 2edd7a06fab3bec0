//! A gateway as a process.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::environment::Programs;

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(super) struct GatewayProcess {
    child: Child,
    /// The port of its HTTP API, if it is ours.
    api: Option<u16>,
}

impl GatewayProcess {
    /// Starts the gateway of a home and waits until its API replies.
    pub(super) fn start(programs: &Programs, home: &Path, api: u16) -> Result<Self> {
        let child = Command::new(&programs.hermes)
            .args(["gateway", "run", "-q"])
            .env("HERMES_HOME", home)
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut gateway = Self {
            child,
            api: Some(api),
        };
        gateway.wait_until("its API replies", |gateway| gateway.health().is_ok())?;
        Ok(gateway)
    }

    /// Starts the gateway in Python, of a virtual environment, and waits until it asks for updates.
    pub(super) fn start_python(
        environment: &Path,
        home: &Path,
        is_polled: impl Fn() -> bool,
    ) -> Result<Self> {
        let child = Command::new(environment.join("bin/hermes"))
            .args(["gateway", "run", "-q"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HERMES_HOME", home)
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut gateway = Self { child, api: None };
        gateway.wait_until("it asks for updates", |_| is_polled())?;
        Ok(gateway)
    }

    fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !holds(self) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the gateway ended: {status}");
            }
            ensure!(
                Instant::now() < deadline,
                "the gateway did not start: timed out before {what}"
            );
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Asks for its health; how long that takes.
    pub(super) fn health(&self) -> Result<Duration> {
        let began = Instant::now();
        let api = self.api.context("this gateway has no API")?;
        let mut stream = TcpStream::connect(("127.0.0.1", api))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream
            .write_all(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        ensure!(reply.starts_with("HTTP/1.1 200"), "no health: {reply}");
        Ok(began.elapsed())
    }

    /// A line of its status, in KiB: `VmRSS` or `VmHWM`.
    pub(super) fn memory(&self, line: &str) -> Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let found = status.lines().find(|text| text.starts_with(line));
        let number = found.and_then(|text| text.split_whitespace().nth(1));
        number
            .context("no memory in the status")?
            .parse()
            .context("not a number")
    }

    /// The processor time it has used.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(") ").context("no fields")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks = |index: usize| -> Result<u64> {
            Ok(fields.get(index).context("too few fields")?.parse()?)
        };
        let per_second = rustix::param::clock_ticks_per_second();
        let milliseconds = (ticks(11)? + ticks(12)?) * 1000 / per_second.max(1);
        Ok(Duration::from_millis(milliseconds))
    }

    pub(super) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no process")?, Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
