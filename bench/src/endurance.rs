//! A long life: restarts by reload with calls in between, and what is left of each in memory, files and processes.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use hermes_config::{Home, Settings};
use hermes_mcp::{CallOptions, Era, Host};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    environment,
    environment::{Effort, Programs, RuntimeFlavour, light_server},
    report::{Quantity, Report, ReportRow, Target},
};

const CALLS_PER_RESTART: usize = 10;
/// Time for background work of a restart to finish.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// What a process holds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ResourceUse {
    /// In KiB.
    memory: u32,
    files: u32,
    processes: u32,
}

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let restarts = effort.times(1_000);
    let home = environment::home_with_servers(&json!({}));
    // A process of its own: what other measurements leave behind is not counted.
    let output = Command::new(&programs.own)
        .arg("endure")
        .arg(home.path())
        .arg(restarts.to_string())
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (early, late): (ResourceUse, ResourceUse) = serde_json::from_slice(&output.stdout)?;
    let what = format!(
        "{restarts} restarts, {} calls",
        restarts * CALLS_PER_RESTART
    );
    let mut add = |held: &str, ours, baseline, target| {
        report.add(ReportRow::new(
            format!("{what}: {held}"),
            ours,
            Some(baseline),
            target,
        ));
    };
    let memory = |holdings: ResourceUse| Quantity::Memory(holdings.memory);
    add("RSS", memory(late), memory(early), Target::Ratio(1.05));
    // Early on one more may be open that is about to be closed; what must not be is more later on.
    let files = |holdings: ResourceUse| Quantity::Count(holdings.files);
    add("files", files(late), files(early), Target::Ratio(1.0));
    let processes = |holdings: ResourceUse| Quantity::Count(holdings.processes);
    add(
        "processes",
        processes(late),
        processes(early),
        Target::Equal,
    );
    Ok(())
}

/// The hidden mode: prints what is held after a tenth of the way and at its end.
pub(crate) fn child(home: &str, restarts: usize) -> Result<ExitCode> {
    let home = Home::at(home);
    let (early, late) = RuntimeFlavour::TwoWorkers.run(run_restarts(home, restarts))?;
    writeln!(std::io::stdout(), "{}", json!([early, late]))?;
    Ok(ExitCode::SUCCESS)
}

async fn run_restarts(home: Home, restarts: usize) -> Result<(ResourceUse, ResourceUse)> {
    let programs = Programs::find()?;
    let mut entry = programs.stdio_entry(&light_server(Era::Legacy));
    // Two configurations that differ in what the server does not care about.
    let mut alternatives = Vec::new();
    for run in ["odd", "even"] {
        entry["env"] = json!({"RUN": run});
        let config = json!({"mcp_servers": {"light": entry}}).to_string();
        let variables = hermes_config::Variables::load(&home, None).0;
        alternatives.push(Settings::parse(&config, variables)?);
    }
    let [odd, even] = alternatives.as_slice() else {
        anyhow::bail!("there are two configurations");
    };
    let host = Host::start(programs.host_options(home), even).await;
    environment::wait_for_servers(&host).await?;
    let mut early = None;
    for restart in 1..=restarts {
        let settings = if restart % 2 == 0 { even } else { odd };
        let report = host.reload(settings).await;
        ensure!(report.restarted == ["light"], "no restart: {report:?}");
        environment::wait_for_servers(&host).await?;
        for _ in 0..CALLS_PER_RESTART {
            call_echo(&host).await?;
        }
        if restart == restarts.div_ceil(10) {
            early = Some(read_resource_use().await?);
        }
    }
    let late = read_resource_use().await?;
    host.shutdown().await;
    Ok((early.context("no restarts")?, late))
}

async fn call_echo(host: &Host) -> Result<()> {
    let text = "x".repeat(1_000);
    let arguments: Map<String, Value> = Map::from_iter([("text".to_owned(), json!(text))]);
    let outcome = host
        .call("mcp_light_echo", arguments, &CallOptions::default())
        .await;
    ensure!(outcome.text() == text, "{}", outcome.text());
    Ok(())
}

async fn read_resource_use() -> Result<ResourceUse> {
    tokio::time::sleep(SETTLE_TIME).await;
    let status = fs::read_to_string("/proc/self/status").context("only Linux tells")?;
    let memory = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .context("no VmRSS")?
        .parse()?;
    let files = fs::read_dir(Path::new("/proc/self/fd"))?.count();
    let processes = hermes_testkit::descendants(std::process::id()).len();
    Ok(ResourceUse {
        memory,
        files: u32::try_from(files)?,
        processes: u32::try_from(processes)?,
    })
}
