//! A hundred thousand tenants on one node: a thousand of them are active and have ten thousand cron jobs.
//!
//! The active ones are made over the API. The others are copies of their rows, which nobody opens.

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Result, ensure};

use super::HubCluster;
use crate::{
    environment::{Effort, Programs},
    hub::{
        hub_process::HubProcess,
        lateness::{CronLoad, make_tenants, wait_minutes},
        load::{self, LoadClient},
        tenant_name,
    },
    report::{Quantity, Report, ReportRow, Target},
    report_progress,
    samples::Samples,
};

const CONNECTIONS: usize = 48;
/// Of so many requests, one is for a tenant that is not active.
const OTHERS: usize = 10;
const START: Target = Target::Below(Quantity::Time(Duration::from_millis(500)));
/// 200 MB in KiB.
const MEMORY: Target = Target::Below(Quantity::Memory(195_312));
const P99: Target = Target::Below(Quantity::Time(Duration::from_millis(20)));
/// Time for background work of the start to finish.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Copies of all rows of all tenants. `:copies` is how many of each.
const COPY: &str = "
    CREATE TEMP TABLE made AS SELECT id, uid, number FROM tenants, generate_series(1, :copies) number;
    INSERT INTO tenants
    SELECT (jsonb_populate_record(tenants, jsonb_build_object(
        'id', id || '-' || number, 'uid', uid || '-' || number,
        'key_hash', sha256((id || '-' || number)::bytea)))).*
    FROM tenants JOIN made USING (id, uid);
    INSERT INTO applied
    SELECT (jsonb_populate_record(applied, jsonb_build_object('tenant', tenant || '-' || number))).*
    FROM applied JOIN made ON made.id = tenant;
    INSERT INTO usage
    SELECT (jsonb_populate_record(usage, jsonb_build_object('owner', owner || '-' || number))).*
    FROM usage JOIN made ON kind = 'tenant' AND made.id = owner;
    INSERT INTO leases
    SELECT (jsonb_populate_record(leases, jsonb_build_object('tenant', tenant || '-' || number, 'node', NULL))).*
    FROM leases JOIN made ON made.id = tenant;
    INSERT INTO job_files
    SELECT (jsonb_populate_record(job_files, jsonb_build_object('tenant', tenant || '-' || number))).*
    FROM job_files JOIN made ON made.id = tenant;
    INSERT INTO checkpoints
    SELECT (jsonb_populate_record(checkpoints, jsonb_build_object('tenant_uid', tenant_uid || '-' || number))).*
    FROM checkpoints JOIN made ON made.uid = tenant_uid;
    ANALYZE;
    SELECT count(*) FROM tenants";

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (active, copies, time) = match effort {
        Effort::Full => (1_000, 99, Duration::from_secs(8)),
        Effort::Quick => (5, 3, Duration::from_millis(500)),
    };
    let settings = ["runtime=mock"];
    let mut cluster = HubCluster::start(programs, 1, &settings)?;
    report_progress(&format!("making {active} tenants"))?;
    make_tenants(cluster.first()?, active)?;
    // Before they have jobs: those of a tenant that nobody opens would come due.
    let all = active * (copies + 1);
    report_progress(&format!("making {all} of them"))?;
    let sql = COPY.replace(":copies", &copies.to_string());
    let found = cluster.database.run_sql(&sql);
    ensure!(found.lines().last() == Some(&all.to_string()), "{found}");
    let jobs = CronLoad {
        tenants: active,
        jobs_each: 10,
    };
    report_progress("making their cron jobs")?;
    jobs.create(cluster.first()?)?;

    let mut starts = Samples::default();
    for _ in 0..effort.times(10) {
        restart_node(&mut cluster, programs, &settings)?;
        starts.push(cluster.first()?.start);
    }
    report.add(ReportRow::time(
        format!("start of a node, {all} tenants"),
        &starts,
        START,
    ));
    thread::sleep(SETTLE_TIME);

    let hub = cluster.first()?;
    let clients = clients_of(hub, active, copies);
    load::run_load(hub.port, clients.clone(), time / 4)?;
    let read = load::run_load(hub.port, clients, time)?;
    report.add(ReportRow::p99(
        format!("get_tenant, {all} tenants, {CONNECTIONS} connections: p99"),
        &read.latencies,
        None,
        P99,
    ));

    let minutes = match effort {
        Effort::Full => 3,
        Effort::Quick => 1,
    };
    let seen = wait_minutes(minutes)?;
    jobs.report(hub, &seen, report)?;
    report.add(ReportRow::new(
        format!("{all} tenants, after all of that: RSS"),
        Quantity::Memory(hub.memory()?),
        None,
        MEMORY,
    ));
    cluster.stop()
}

fn restart_node(cluster: &mut HubCluster, programs: &Programs, settings: &[&str]) -> Result<()> {
    for node in cluster.nodes.drain(..) {
        node.stop()?;
    }
    cluster.add_node(programs, settings)
}

/// They ask for all active tenants, each beginning with another one, and now and then for one of the others.
fn clients_of(hub: &HubProcess, active: usize, copies: usize) -> Vec<LoadClient> {
    let others = active * copies;
    let requests: Arc<[Vec<u8>]> = (0..others)
        .map(|number| {
            let tenant = tenant_name(number % active);
            let tenant = if number % OTHERS == 0 {
                // Far from the order of the table.
                let copy = number * 7_919 % copies + 1;
                format!("{}-{copy}", tenant_name(number * 7_919 % active))
            } else {
                tenant
            };
            hub.request("GET", &format!("/v1/tenants/{tenant}"), None)
        })
        .collect();
    let client = |number: usize| LoadClient {
        requests: Arc::clone(&requests),
        first: number * others / CONNECTIONS,
    };
    (0..CONNECTIONS).map(client).collect()
}
