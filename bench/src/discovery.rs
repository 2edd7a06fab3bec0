//! From the start of a process to the tools of 32 servers being known.
//!
//! Each sample is a process of its own: this program, with the host or with raw rmcp in it.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use hermes_config::{Home, Settings};
use hermes_mcp::{Era, Host, process::GuardHandle};
use hermes_testkit::Behaviour;

use crate::{
    environment,
    environment::{ERAS, Effort, Programs, RuntimeFlavour, light_server},
    raw_discovery::ServerGroup,
    report::{Report, ReportRow, Target},
    samples::Samples,
};

const SERVERS: usize = 32;
const TOOLS: usize = 20;
const LIMIT: Target = Target::Ratio(1.3);
/// Timeout for manifests to be written.
const MANIFEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What runs in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiscoverySide {
    Raw,
    /// The host; what it remembers decides whether it probes.
    Host,
    /// The host, which waits until it has written down what it learned.
    Learn,
}

impl DiscoverySide {
    fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Host => "host",
            Self::Learn => "learn",
        }
    }
}

/// What one process took.
#[derive(Default)]
struct DiscoverySamples {
    /// Until the tools were known.
    known: Samples,
    /// Until the process and all servers had ended.
    whole: Samples,
}

impl DiscoverySamples {
    fn add(&mut self, (known, whole): (Duration, Duration)) {
        self.known.push(known);
        self.whole.push(whole);
    }
}

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    for era in ERAS {
        let group = ServerGroup {
            era,
            servers: SERVERS,
            tools: TOOLS,
        };
        let entries = group.entries(programs);
        for flavour in RuntimeFlavour::ALL {
            let home = environment::home_with_servers(&entries.clone().into());
            let start = |side| start(programs, side, era, flavour, home.path());
            start(DiscoverySide::Learn)?;
            let (mut raw, mut ours) = (DiscoverySamples::default(), DiscoverySamples::default());
            for _ in 0..effort.times(30) {
                raw.add(start(DiscoverySide::Raw)?);
                ours.add(start(DiscoverySide::Host)?);
            }
            let name = |what: &str| {
                format!(
                    "{SERVERS} servers{what}, {}, {}",
                    era.as_str(),
                    flavour.as_str()
                )
            };
            for (what, ours, raw) in [
                ("", &ours.known, &raw.known),
                (" and their end", &ours.whole, &raw.whole),
            ] {
                report.add(ReportRow::times(name(what), ours, raw, LIMIT));
            }
        }
    }
    Ok(())
}

fn server(era: Era) -> Behaviour {
    light_server(era).tools([]).generate_tools(TOOLS)
}

/// Starts this program in its hidden mode and takes its times.
fn start(
    programs: &Programs,
    side: DiscoverySide,
    era: Era,
    flavour: RuntimeFlavour,
    home: &Path,
) -> Result<(Duration, Duration)> {
    let mut command = Command::new(&programs.own);
    command
        .args(["discover", side.as_str(), era.as_str(), flavour.as_str()])
        .arg(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
    let known = began.elapsed();
    let status = child.wait()?;
    ensure!(status.success(), "discovery by {} failed", side.as_str());
    ensure!(
        line.trim().parse() == Ok(SERVERS * TOOLS),
        "{} tools are known, not {}",
        line.trim(),
        SERVERS * TOOLS
    );
    Ok((known, began.elapsed()))
}

/// The hidden mode: connects all servers, prints the number of their tools, and stops them.
pub(crate) fn child(side: &str, era: &str, flavour: &str, home: &str) -> Result<ExitCode> {
    let side = [
        DiscoverySide::Raw,
        DiscoverySide::Host,
        DiscoverySide::Learn,
    ]
    .into_iter()
    .find(|known| known.as_str() == side)
    .context("unknown side")?;
    let era = ERAS
        .into_iter()
        .find(|known| known.as_str() == era)
        .context("unknown era")?;
    let flavour = RuntimeFlavour::ALL
        .into_iter()
        .find(|known| known.as_str() == flavour)
        .context("unknown runtime")?;
    let programs = Programs::find()?;
    match side {
        DiscoverySide::Raw => flavour.run(discover_raw(programs, era))?,
        DiscoverySide::Host | DiscoverySide::Learn => {
            flavour.run(discover(programs, side, home.to_owned()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn discover(programs: Programs, side: DiscoverySide, home: String) -> Result<()> {
    let home = Home::at(&home);
    let mut options = programs.host_options(home.clone());
    // As `hermes up --once` does.
    let guard = Arc::new(GuardHandle::new(options.guard.clone()));
    guard.start();
    options.started_guard = Some(guard);
    let host = Host::start(options, &Settings::load(&home)?).await;
    environment::wait_for_servers(&host).await?;
    print_tool_count(host.registry().tools().count())?;
    if side == DiscoverySide::Learn {
        let cache = home.cache_dir().join("mcp");
        let written = || std::fs::read_dir(&cache).is_ok_and(|files| files.count() == SERVERS);
        if !hermes_testkit::eventually(MANIFEST_TIMEOUT, written).await {
            bail!("the host does not remember all servers");
        }
    }
    host.shutdown().await;
    Ok(())
}

async fn discover_raw(programs: Programs, era: Era) -> Result<()> {
    let arguments = vec!["--echo".into(), serde_json::to_string(&server(era))?];
    let connected = futures::future::try_join_all((0..SERVERS).map(async |_| {
        let service = programs.raw_stdio(era, &arguments).await?;
        let tools = service.list_all_tools().await?;
        anyhow::Ok((service, tools))
    }))
    .await?;
    print_tool_count(connected.iter().map(|(_, tools)| tools.len()).sum())?;
    futures::future::try_join_all(connected.into_iter().map(|(service, _)| service.cancel()))
        .await?;
    Ok(())
}

fn print_tool_count(tools: usize) -> Result<()> {
    writeln!(std::io::stdout(), "{tools}")?;
    Ok(())
}
