//! Changes of tenants by one and by many at once, on both databases; what each costs in processor time.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use serde_json::json;

use super::{HubCluster, create_sleeping_tenants, start_embedded};
use crate::{
    environment::{Effort, Programs},
    hub::{
        hub_process::HubProcess,
        load::{self, LoadClient},
        tenant_name,
    },
    report::{Quantity, Report, ReportRow, Target},
};

const TENANTS: usize = 320;
const MANY: usize = 32;
const TIMES: Target = Target::AtLeast(5.0);
const P99: Target = Target::Below(Quantity::Time(Duration::from_millis(20)));
const PROCESSOR: Target = Target::Below(Quantity::Time(Duration::from_micros(400)));

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let time = match effort {
        Effort::Full => Duration::from_secs(8),
        Effort::Quick => Duration::from_millis(500),
    };
    let (_directory, embedded) = start_embedded(programs, TENANTS)?;
    measure_one(&embedded, "SQLite", time, report)?;
    embedded.stop()?;
    let cluster = HubCluster::start(programs, 1, &[])?;
    create_sleeping_tenants(cluster.first()?, TENANTS)?;
    measure_one(cluster.first()?, "PostgreSQL", time, report)?;
    cluster.stop()
}

fn measure_one(hub: &HubProcess, name: &str, time: Duration, report: &mut Report) -> Result<()> {
    load::run_load(hub.port, clients(hub, MANY), time / 4)?;
    let one = load::run_load(hub.port, clients(hub, 1), time)?;
    let before = hub.processor_time()?;
    let many = load::run_load(hub.port, clients(hub, MANY), time)?;
    let used = hub.processor_time()?.saturating_sub(before);
    report.add(ReportRow::new(
        format!("PATCH of a tenant, {name}, {MANY} connections against 1"),
        many.rate(),
        Some(one.rate()),
        TIMES,
    ));
    report.add(ReportRow::p99(
        format!("the same, {name}: p99"),
        &many.latencies,
        None,
        P99,
    ));
    let count = u32::try_from(many.latencies.count())
        .unwrap_or(u32::MAX)
        .max(1);
    report.add(ReportRow::new(
        format!("the same, {name}: processor time of one"),
        Quantity::Time(used / count),
        None,
        PROCESSOR,
    ));
    Ok(())
}

fn clients(hub: &HubProcess, connections: usize) -> Vec<LoadClient> {
    let requests: Arc<[Vec<u8>]> = (0..TENANTS)
        .map(|number| {
            let path = format!("/v1/tenants/{}", tenant_name(number));
            let body = json!({"displayName": format!("Name {number} of {connections}")});
            hub.request("PATCH", &path, Some(&body))
        })
        .collect();
    let client = |number: usize| LoadClient {
        requests: Arc::clone(&requests),
        first: number * TENANTS / connections,
    };
    (0..connections).map(client).collect()
}
