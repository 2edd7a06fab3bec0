//! The time that the Hub takes for each page, with many tenants and a long audit log.

use std::time::Duration;

use anyhow::{Result, ensure};
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

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let tenants = size(effort, "HERMES_BENCH_TENANTS", 10_000, 200)?;
    let entries = size(effort, "HERMES_BENCH_AUDIT_ENTRIES", 1_000_000, 5_000)?;
    let directory = TemporaryHome::new();
    create_tenants(programs, directory.path(), tenants)?;
    let hub = HubProcess::start(programs, directory.path())?;
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
