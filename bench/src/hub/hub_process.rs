//! A Hub as a process.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{load, mcp::McpEndpoint, wire::RawConnection};
use crate::environment::{Programs, RuntimeFlavour};

/// Timeout of an expected change.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Poll interval of an expected change.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// What would stand in the way of a load, or of a second Hub beside it.
const SETTINGS: [&str; 5] = [
    "limits.rps_per_token=100000000",
    "limits.burst=100000000",
    "mcp.sessions_per_token=1000",
    "shutdown.drain_seconds=1",
    "metrics.listen=off",
];

/// A Hub that serves.
pub(crate) struct HubProcess {
    pub(crate) port: u16,
    pub(crate) token: String,
    /// From its start until it said that it listens.
    pub(crate) start: Duration,
    data: PathBuf,
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl HubProcess {
    pub(crate) fn start(programs: &Programs, data: &Path) -> Result<Self> {
        Self::start_with(programs, data, &[])
    }

    /// With settings of its own.
    pub(crate) fn start_with(programs: &Programs, data: &Path, own: &[String]) -> Result<Self> {
        Self::start_node(programs, data, own, None)
    }

    /// With the token of a Hub whose first node has made it.
    pub(crate) fn start_node(
        programs: &Programs,
        data: &Path,
        own: &[String],
        token: Option<&str>,
    ) -> Result<Self> {
        let mut command = Command::new(&programs.hermes);
        command
            .args(["hub", "serve", "--json", "--listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(data);
        for setting in SETTINGS.into_iter().chain(own.iter().map(String::as_str)) {
            command.args(["--set", setting]);
        }
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut text = String::new();
        // One document, over several lines or on one.
        let said: Value = loop {
            let length = stdout.read_line(&mut text)?;
            if length == 0 {
                let mut why = String::new();
                if let Some(mut stderr) = child.stderr.take() {
                    stderr.read_to_string(&mut why)?;
                }
                anyhow::bail!("the Hub did not start: {}", why.trim());
            }
            if let Ok(said) = serde_json::from_str(&text) {
                break said;
            }
        };
        let start = began.elapsed();
        let url = said["url"].as_str().context("no url")?;
        let port = url.rsplit(':').next().context("no port")?.parse()?;
        let token = if let Some(token) = token {
            token.to_owned()
        } else {
            let file = said["admin_token_file"].as_str().context("no token")?;
            fs::read_to_string(file)?.trim().to_owned()
        };
        Ok(Self {
            port,
            token,
            start,
            data: data.to_owned(),
            child,
            _stdout: stdout,
        })
    }

    /// Its MCP side.
    pub(crate) fn mcp(&self) -> McpEndpoint<'_> {
        McpEndpoint {
            port: self.port,
            token: Some(&self.token),
        }
    }

    /// A request over REST.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        let body = body.map_or_else(String::new, Value::to_string);
        format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.port,
            self.token,
            body.len()
        )
        .into_bytes()
    }

    /// Asks over REST, once.
    pub(crate) fn call_rest(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        load::send_once(self.port, self.request(method, path, body))
    }

    /// Makes a tenant with a home that is configured so.
    pub(crate) fn make_tenant(&self, id: &str, config: &Value) -> Result<()> {
        let body = json!({"id": id, "start": false});
        self.call_rest("POST", "/v1/tenants", Some(&body))?;
        self.wait_for_member(&format!("/v1/tenants/{id}"), "status", &["ready"])?;
        fs::write(self.home(id).join("config.yaml"), config.to_string())?;
        Ok(())
    }

    /// Orders a run, and returns where it is.
    pub(crate) fn start_run(&self, tenant: &str, input: &str) -> Result<String> {
        let runs = format!("/v1/tenants/{tenant}/runs");
        let run = self.call_rest("POST", &runs, Some(&json!({"input": input})))?;
        let id = run["runId"].as_str().context("the run has no id")?;
        Ok(format!("{runs}/{id}"))
    }

    /// Watches a run until its events hold a text.
    pub(crate) fn watch_for(&self, run: &str, text: &'static [u8]) -> Result<()> {
        let watch = self.request("GET", &format!("{run}/events"), None);
        let port = self.port;
        let waiting = async move {
            let mut connection = RawConnection::open(port).await?;
            connection.read_until(&watch, text).await
        };
        RuntimeFlavour::OneThread.run(async move { tokio::time::timeout(TIMEOUT, waiting).await? })
    }

    /// Looks at something until a member of it is one of these words.
    pub(crate) fn wait_for_member(&self, path: &str, member: &str, words: &[&str]) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let found = self.call_rest("GET", path, None)?;
            let word = found[member].as_str();
            if word.is_some_and(|word| words.contains(&word)) {
                return Ok(());
            }
            ensure!(Instant::now() < end, "{path} does not change: {found}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The directory of a share.
    pub(crate) fn share(&self, group: &str) -> PathBuf {
        self.data.join("shares").join(group)
    }

    /// The home of a tenant.
    pub(crate) fn home(&self, tenant: &str) -> PathBuf {
        self.data.join("tenants").join(tenant).join("home")
    }

    /// The processor time that it has used.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        crate::samples::processor_time(self.child.id())
    }

    /// What it has in memory, in KiB.
    pub(crate) fn memory(&self) -> Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .context("only Linux tells")?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Stops it and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("no pid")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the Hub ended with {status}");
        Ok(())
    }
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        // Only where a measurement broke off: whoever has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
