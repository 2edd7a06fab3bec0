//! What all measurements share: the programs, light servers, a server of this program itself, a home, a runtime.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use hermes_config::{Home, Settings};
use hermes_mcp::{Era, Host, HostOptions, process::GuardProgram};
use hermes_testkit::{Behaviour, TemporaryHome};
use serde_json::{Value, json};
use tokio::{runtime, task::JoinSet};

/// Timeout for servers to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Both ways the protocol is spoken.
pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Stateless];

/// How often things are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Full,
    /// To see that everything works; its numbers mean nothing.
    Quick,
}

impl Effort {
    /// So many repetitions, or few.
    pub(crate) fn times(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => full.div_ceil(50).max(2),
        }
    }
}

/// The programs that take part; all stand next to this one.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) hermes: PathBuf,
    /// A scripted MCP server on stdio.
    pub(crate) server: PathBuf,
    /// Echoes lines.
    pub(crate) pipe: PathBuf,
    /// This program.
    pub(crate) own: PathBuf,
}

impl Programs {
    pub(crate) fn find() -> Result<Self> {
        let own = std::env::current_exe().context("the path of this program is unknown")?;
        let beside = |name: &str| {
            let path = own.with_file_name(name);
            if !path.exists() {
                bail!("{} is missing; `bench/run` builds it", path.display());
            }
            Ok(path)
        };
        Ok(Self {
            hermes: beside("hermes")?,
            server: beside("testkit-stdio")?,
            pipe: beside("testkit-pipe")?,
            own,
        })
    }

    /// The entry of a local server in `config.yaml`.
    pub(crate) fn stdio_entry(&self, behaviour: &Behaviour) -> Value {
        let (command, mut args) = behaviour.stdio_command(&self.server);
        args.insert(0, "--echo".into());
        json!({"command": command, "args": args})
    }

    /// A host with the servers of a home, all of them connected.
    pub(crate) async fn host(&self, home: &Path) -> Result<Host> {
        let home = Home::at(home);
        let settings = Settings::load(&home)?;
        let host = Host::start(self.host_options(home), &settings).await;
        wait_for_servers(&host).await?;
        Ok(host)
    }

    pub(crate) fn host_options(&self, home: Home) -> HostOptions {
        let guard = GuardProgram {
            path: self.hermes.clone(),
            args: vec!["__guard".into()],
        };
        HostOptions::new(home, guard)
    }
}

/// Waits for all servers of a host.
pub(crate) async fn wait_for_servers(host: &Host) -> Result<()> {
    let missing = host.wait_until_settled(CONNECT_TIMEOUT).await;
    if missing.is_empty() {
        return Ok(());
    }
    if let Some(status) = host
        .status()
        .into_iter()
        .find(|status| missing.iter().any(|name| name.as_str() == status.name))
    {
        bail!(
            "server `{}` is {}: {}",
            status.name,
            status.status,
            status.error.unwrap_or_default()
        );
    }
    Ok(())
}

/// A server with nothing but tools.
pub(crate) fn light_server(era: Era) -> Behaviour {
    let era = match era {
        Era::Legacy => hermes_testkit::Era::Legacy,
        Era::Stateless => hermes_testkit::Era::Stateless,
    };
    Behaviour::new()
        .era(era)
        .without_resources()
        .without_prompts()
}

/// A home with these servers. JSON is YAML.
pub(crate) fn home_with_servers(servers: &Value) -> TemporaryHome {
    TemporaryHome::with_config(&json!({"mcp_servers": servers}).to_string())
}

/// The two runtimes the product has: commands run on one thread, long-lived programs on several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuntimeFlavour {
    OneThread,
    TwoWorkers,
}

impl RuntimeFlavour {
    pub(crate) const ALL: [Self; 2] = [Self::OneThread, Self::TwoWorkers];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OneThread => "1 thread",
            Self::TwoWorkers => "2 workers",
        }
    }

    /// Runs work to its end, as a task where there are workers.
    pub(crate) fn run<T: Send + 'static>(
        self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self {
            Self::OneThread => runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
                .block_on(work),
            Self::TwoWorkers => runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?
                .block_on(async {
                    let mut tasks = JoinSet::new();
                    tasks.spawn(work);
                    tasks.join_next().await.context("no task")??
                }),
        }
    }
}

/// A hidden mode of this program that serves until its stdin closes, and whose first line on stdout is its port. It ends
/// when this is dropped.
pub(crate) struct EchoServer {
    pub(crate) port: u16,
    _stdin: ChildStdin,
    _process: Child,
}

impl EchoServer {
    pub(crate) fn start(programs: &Programs, mode: &str) -> Result<Self> {
        let mut process = Command::new(&programs.own)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take().context("no stdin")?;
        let mut stdout = BufReader::new(process.stdout.take().context("no stdout")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        Ok(Self {
            port: line.trim().parse()?,
            _stdin: stdin,
            _process: process,
        })
    }

    /// Where it speaks MCP.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}
