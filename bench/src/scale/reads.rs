//! Reads of tenants, over three nodes and over one embedded one, in turns.

use std::{sync::Arc, time::Duration};

use anyhow::Result;

use super::{HubCluster, create_sleeping_tenants, start_embedded};
use crate::{
    environment::{Effort, Programs},
    hub::{
        hub_process::HubProcess,
        load::{self, LoadClient, LoadResult},
        tenant_name,
    },
    report::{Quantity, Report, ReportRow, Target},
};

const TENANTS: usize = 100;
const CONNECTIONS: usize = 48;
const RATE: Target = Target::AtLeast(0.9);
const P99: Target = Target::Below(Quantity::Time(Duration::from_millis(20)));

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (rounds, time) = match effort {
        Effort::Full => (4, Duration::from_secs(4)),
        Effort::Quick => (1, Duration::from_millis(500)),
    };
    let (_directory, embedded) = start_embedded(programs, TENANTS)?;
    let cluster = HubCluster::start(programs, 3, &[])?;
    create_sleeping_tenants(cluster.first()?, TENANTS)?;
    let (mut of_nodes, mut of_one) = (LoadResult::default(), LoadResult::default());
    for round in 0..=rounds {
        let ours = clients_of(cluster.first()?);
        let ours = load::run_load_on_nodes(&cluster.ports(), ours, time, Duration::ZERO)?;
        let base = load::run_load(embedded.port, clients_of(&embedded), time)?;
        if round > 0 {
            of_nodes.add(&ours);
            of_one.add(&base);
        }
    }
    report.add(ReportRow::new(
        "get_tenant, three nodes against one embedded: requests",
        of_nodes.rate(),
        Some(of_one.rate()),
        RATE,
    ));
    report.add(ReportRow::p99(
        "the same: p99",
        &of_nodes.latencies,
        Some(&of_one.latencies),
        P99,
    ));
    embedded.stop()?;
    cluster.stop()
}

/// They ask for all tenants, each beginning with another one. The port in `Host` is that of one node: all take it.
fn clients_of(hub: &HubProcess) -> Vec<LoadClient> {
    let requests: Arc<[Vec<u8>]> = (0..TENANTS)
        .map(|number| hub.request("GET", &format!("/v1/tenants/{}", tenant_name(number)), None))
        .collect();
    let client = |number: usize| LoadClient {
        requests: Arc::clone(&requests),
        first: number * TENANTS / CONNECTIONS,
    };
    (0..CONNECTIONS).map(client).collect()
}
