//! Whole commands with servers: `hermes up --once` beside a process of raw rmcp, `hermes mcp call` beside a running
//! `hermes up`, and `hermes mcp test` of a server that offers half a million tools.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use hermes_mcp::Era;
use hermes_testkit::{TemporaryHome, wait_until};
use serde_json::{Value, json};

use crate::{
    cold_start::run_measured,
    environment::{self, ERAS, Effort, Programs, light_server},
    raw_discovery::ServerGroup,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const DISCOVERY_LIMIT: Target = Target::Ratio(1.3);
/// What a call takes beyond the tool's own time, which is nothing here.
const CALL_LIMIT: Duration = Duration::from_millis(15);
/// What a server offers that has far too much.
const HUGE_PAGES: usize = 50;
const HUGE_PAGE: usize = 10_000;
const HUGE_LIST_TIME: Target = Target::Below(Quantity::Time(Duration::from_secs(30)));
/// 200 MB in KiB.
const HUGE_LIST_MEMORY: Target = Target::Below(Quantity::Memory(195_312));
/// Timeout for `hermes up` to have its server.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    for era in ERAS {
        for (servers, tools) in [(32, 20), (64, 20), (1, 5_000)] {
            let group = ServerGroup {
                era,
                servers,
                tools,
            };
            measure_up_once(programs, group, effort, report)?;
        }
    }
    measure_call(programs, effort, report)?;
    for era in ERAS {
        measure_huge_list(programs, era, effort, report)?;
    }
    Ok(())
}

/// `hermes mcp test` of a server that offers half a million tools, of which it takes its maximum.
fn measure_huge_list(
    programs: &Programs,
    era: Era,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let server = light_server(era).tools([]).lists(|lists| {
        lists.made_pages = HUGE_PAGES;
        lists.page_size = Some(HUGE_PAGE);
    });
    let servers = json!({"huge": programs.stdio_entry(&server)});
    let home = environment::home_with_servers(&servers);
    let mut times = Samples::default();
    let mut peak = 0;
    for _ in 0..effort.times(10) {
        let test = ["mcp", "test", "huge"];
        let (time, memory) = run_measured(&hermes(programs, home.path(), &test))?;
        times.push(time);
        peak = peak.max(memory);
    }
    let name = format!(
        "hermes mcp test, {} tools in {HUGE_PAGES} pages, {}",
        HUGE_PAGES * HUGE_PAGE,
        era.as_str()
    );
    report.add(ReportRow::time(&*name, &times, HUGE_LIST_TIME));
    // The server's own memory counts too where it is larger.
    report.add(ReportRow::new(
        format!("{name}, peak RSS"),
        Quantity::Memory(peak),
        None,
        HUGE_LIST_MEMORY,
    ));
    Ok(())
}

fn measure_up_once(
    programs: &Programs,
    group: ServerGroup,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let home = environment::home_with_servers(&group.entries(programs).into());
    let (mut ours, mut raw) = (Samples::default(), Samples::default());
    // In the first round the host meets the servers.
    for round in 0..=effort.times(30) {
        let (our_time, _) = run_measured(&hermes(programs, home.path(), &["up", "--once"]))?;
        let (raw_time, _) = run_measured(&group.command(programs))?;
        if round > 0 {
            ours.push(our_time);
            raw.push(raw_time);
        }
    }
    let ServerGroup {
        era,
        servers,
        tools,
    } = group;
    let name = format!(
        "hermes up --once, {servers} x {tools} tools, {}",
        era.as_str()
    );
    report.add(ReportRow::times(name, &ours, &raw, DISCOVERY_LIMIT));
    Ok(())
}

/// `hermes up` in the background. It ends when this is dropped.
struct RunningUp {
    process: Child,
    /// Where its Hub keeps its data.
    _data: TemporaryHome,
}

impl RunningUp {
    fn start(programs: &Programs, home: &Path) -> Result<Self> {
        let data = TemporaryHome::new();
        let mut command = hermes(programs, home, &["up", "--port", "0", "--no-open"]);
        command
            .env("XDG_DATA_HOME", data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let running = Self {
            process: command.spawn()?,
            _data: data,
        };
        let is_ready = wait_until(READY_TIMEOUT, || {
            let output = hermes(programs, home, &["mcp", "status", "--json"]).output();
            let status = output.ok().map(|output| output.stdout).unwrap_or_default();
            let status: Value = serde_json::from_slice(&status).unwrap_or_default();
            status.to_string().contains("\"ready\"")
        });
        ensure!(is_ready, "`hermes up` does not get ready");
        Ok(running)
    }
}

impl Drop for RunningUp {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}

fn measure_call(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let group = ServerGroup {
        era: Era::Legacy,
        servers: 1,
        tools: 1,
    };
    let home = environment::home_with_servers(&group.entries(programs).into());
    let _up = RunningUp::start(programs, home.path())?;
    let tool = find_tool(programs, home.path())?;
    let (mut ours, mut nothing) = (Samples::default(), Samples::default());
    for round in 0..=effort.times(200) {
        let call = ["mcp", "call", "server_0", &tool, "{}"];
        let (our_time, _) = run_measured(&hermes(programs, home.path(), &call))?;
        let (floor, _) = run_measured(&Command::new("true"))?;
        if round > 0 {
            ours.push(our_time);
            nothing.push(floor);
        }
    }
    report.add(ReportRow::times(
        "hermes mcp call beside `hermes up`",
        &ours,
        &nothing,
        Target::Longer(CALL_LIMIT),
    ));
    Ok(())
}

/// The name of the server's only tool.
fn find_tool(programs: &Programs, home: &Path) -> Result<String> {
    let output = hermes(programs, home, &["mcp", "test", "server_0", "--json"]).output()?;
    let tested: Value = serde_json::from_slice(&output.stdout)?;
    match first_tool(&tested) {
        Some(name) => Ok(name.to_owned()),
        None => bail!("no tool in {tested}"),
    }
}

/// The first member `tools` with something in it.
fn first_tool(tested: &Value) -> Option<&str> {
    match tested {
        Value::Object(members) => {
            let own = members.get("tools").and_then(|tools| tools.get(0));
            let own = own.and_then(|tool| tool["name"].as_str().or(tool.as_str()));
            own.or_else(|| members.values().find_map(first_tool))
        }
        Value::Array(items) => items.iter().find_map(first_tool),
        _ => None,
    }
}

fn hermes(programs: &Programs, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&programs.hermes);
    command
        .args(arguments)
        .env("HERMES_HOME", home)
        .current_dir(home);
    command
}
