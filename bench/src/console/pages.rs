//! The time that the Hub takes for each page, with many tenants, many runs and a long audit log.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hermes_mcp::Era;
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use super::{ConsoleReader, size};
use crate::{
    environment::{Effort, Programs},
    hub::{create_tenants, hub_process::HubProcess, load, tenant_name},
    report::{Quantity, Report, ReportRow, Target},
    report_progress,
};

const PAGE: Target = Target::Below(Quantity::Time(Duration::from_millis(10)));
const CONNECTIONS: usize = 16;
/// Runs of a tenant that has any.
const RUNS_EACH: usize = 500;
/// How long they may take.
const RUNS_TIMEOUT: Duration = Duration::from_mins(5);
/// Agents that answer at once: runs are made for their rows.
const SETTINGS: [&str; 2] = ["runtime=mock", "runs.queue_depth=1000000"];

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let tenants = size(effort, "HERMES_BENCH_TENANTS", 10_000, 200)?;
    let entries = size(effort, "HERMES_BENCH_AUDIT_ENTRIES", 1_000_000, 5_000)?;
    let runs = size(effort, "HERMES_BENCH_RUNS", 20_000, 200)?;
    let directory = TemporaryHome::new();
    create_tenants(programs, directory.path(), tenants)?;
    let settings = SETTINGS.map(str::to_owned);
    let hub = HubProcess::start_with(programs, directory.path(), &settings)?;
    report_progress(&format!("making {runs} runs"))?;
    fill_runs(&hub, tenants, runs)?;
    report_progress(&format!("filling the audit log with {entries} entries"))?;
    fill_audit_log(&hub, tenants, entries)?;
    let group = json!({"id": "team"});
    hub.call_rest("POST", "/v1/groups", Some(&group))?;
    let reader = ConsoleReader::sign_in(&hub)?;
    let pages = reader.find_pages()?;
    ensure!(pages.len() > 5, "only {pages:?} are linked");
    for page in pages {
        let requests = vec![reader.request(&page); effort.times(500)];
        // The first few fill what is kept in memory.
        load::send_each_once(hub.port, vec![reader.request(&page); 5], 1)?;
        let samples = load::send_each_once(hub.port, requests, 1)?;
        report.add(ReportRow::p99(
            format!("{page}, {tenants} tenants: p99"),
            &samples,
            None,
            PAGE,
        ));
    }
    hub.stop()
}

/// Some of the tenants have many runs, and each of these has its usage.
fn fill_runs(hub: &HubProcess, tenants: usize, runs: usize) -> Result<()> {
    let with_runs = (runs / RUNS_EACH).clamp(1, tenants);
    let agent = json!({"agent": {"autoStart": true}});
    for number in 0..with_runs {
        let path = format!("/v1/tenants/{}", tenant_name(number));
        hub.call_rest("PATCH", &path, Some(&agent))?;
    }
    let requests = (0..runs).map(|number| {
        let path = format!("/v1/tenants/{}/runs", tenant_name(number % with_runs));
        let body = json!({"input": format!("What has come in since number {number}?")});
        hub.request("POST", &path, Some(&body))
    });
    load::send_each_once(hub.port, requests.collect(), CONNECTIONS)?;
    let unfinished = ["queued", "running"];
    let began = Instant::now();
    while unfinished
        .into_iter()
        .map(|status| has_runs(hub, status))
        .collect::<Result<Vec<_>>>()?
        .contains(&true)
    {
        ensure!(began.elapsed() < RUNS_TIMEOUT, "runs do not end");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn has_runs(hub: &HubProcess, status: &str) -> Result<bool> {
    let path = format!("/v1/runs?status={status}&limit=1");
    let listed = hub.call_rest("GET", &path, None)?;
    let runs = listed["runs"].as_array().context("no list of runs")?;
    Ok(!runs.is_empty())
}

/// Every call of a tool is an entry.
fn fill_audit_log(hub: &HubProcess, tenants: usize, entries: usize) -> Result<()> {
    let all: Vec<Value> = (0..tenants)
        .map(|number| json!({"tenant_id": tenant_name(number * 7_919 % tenants)}))
        .collect();
    let clients = hub
        .mcp()
        .clients(Era::Stateless, CONNECTIONS, "get_tenant", &all)?;
    let mut made = 0;
    while made < entries {
        let round = load::run_load(hub.port, clients.clone(), Duration::from_millis(500))?;
        ensure!(round.latencies.count() > 0, "no call was answered");
        made += round.latencies.count();
    }
    Ok(())
}
