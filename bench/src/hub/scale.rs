//! Ten thousand tenants that sleep, against ten.

use std::time::Duration;

use anyhow::{Result, ensure};
use hermes_mcp::Era;
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use super::{calls::CONNECTIONS, create_tenants, load, tenant_name};
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const FEW_TENANTS: usize = 10;
const START: Target = Target::Below(Quantity::Time(Duration::from_millis(300)));
/// 100 MB in KiB.
const MEMORY: Target = Target::Below(Quantity::Memory(97_656));
const PAGE: Target = Target::Below(Quantity::Time(Duration::from_millis(20)));
/// Time for background work of the start to finish.
pub(super) const SETTLE_TIME: Duration = Duration::from_secs(2);

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (many, rounds, time) = match effort {
        Effort::Full => (10_000, 5, Duration::from_secs(4)),
        Effort::Quick => (200, 1, Duration::from_millis(500)),
    };
    let (large, small) = (TemporaryHome::new(), TemporaryHome::new());
    create_tenants(programs, large.path(), many)?;
    create_tenants(programs, small.path(), FEW_TENANTS)?;

    let mut starts = Samples::default();
    for _ in 0..effort.times(20) {
        let hub = HubProcess::start(programs, large.path())?;
        starts.push(hub.start);
        hub.stop()?;
    }
    report.add(ReportRow::time(
        format!("start-up, {many} tenants"),
        &starts,
        START,
    ));

    let of_many = HubProcess::start(programs, large.path())?;
    std::thread::sleep(SETTLE_TIME);
    report.add(ReportRow::new(
        format!("idle, {many} sleeping tenants: RSS"),
        Quantity::Memory(of_many.memory()?),
        None,
        MEMORY,
    ));
    measure_pages(&of_many, many, effort, report)?;

    let of_few = HubProcess::start(programs, small.path())?;
    let clients = |hub: &HubProcess, count: usize| {
        // All of them in an order that is far from that of the table.
        let all: Vec<Value> = (0..count)
            .map(|number| json!({"tenant_id": tenant_name(number * 7_919 % count)}))
            .collect();
        hub.mcp()
            .clients(Era::Stateless, CONNECTIONS, "get_tenant", &all)
    };
    let (ours, base) = (clients(&of_many, many)?, clients(&of_few, FEW_TENANTS)?);
    let (mut of_large, mut of_small) = (load::LoadResult::default(), load::LoadResult::default());
    for round in 0..=rounds {
        let large = load::run_load(of_many.port, ours.clone(), time)?;
        let small = load::run_load(of_few.port, base.clone(), time)?;
        if round > 0 {
            of_large.add(&large);
            of_small.add(&small);
        }
    }
    report.add(ReportRow::times(
        format!("get_tenant, {CONNECTIONS} connections: {many} tenants against {FEW_TENANTS}"),
        &of_large.latencies,
        &of_small.latencies,
        Target::Ratio(1.2),
    ));
    of_few.stop()?;
    of_many.stop()
}

/// Pages of the list, from the first to the last and over again.
fn measure_pages(
    hub: &HubProcess,
    tenants: usize,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let page = |cursor: Option<&str>| {
        let mut path = "/v1/tenants?limit=100".to_owned();
        if let Some(cursor) = cursor {
            path.push_str("&cursor=");
            path.push_str(cursor);
        }
        hub.request("GET", &path, None)
    };
    let mut requests = Vec::new();
    let (mut seen, mut cursor) = (0, None::<String>);
    loop {
        let request = page(cursor.as_deref());
        let told = load::send_once(hub.port, request.clone())?;
        requests.push(request);
        seen += told["tenants"].as_array().map_or(0, Vec::len);
        match told["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    ensure!(seen == tenants, "{seen} of {tenants} tenants were listed");
    let repetitions = effort.times(1_000).div_ceil(requests.len()).max(1);
    let all: Vec<_> = (0..repetitions).flat_map(|_| requests.clone()).collect();
    let samples = load::send_each_once(hub.port, all, 1)?;
    report.add(ReportRow::p99(
        format!("list_tenants, page of 100 of {tenants}: p99"),
        &samples,
        None,
        PAGE,
    ));
    Ok(())
}
