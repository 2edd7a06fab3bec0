//! One cheap tool under load, against the bare echo under the same load; the sides take turns.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use hermes_mcp::Era;
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use super::{create_tenants, echo, load, load::LoadClient, mcp::McpEndpoint, tenant_name};
use crate::{
    environment::{ERAS, EchoServer, Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Quantity, Report, ReportRow, Target},
};

pub(super) const CONNECTIONS: usize = 64;
const TENANTS: usize = 10;
const P99: Target = Target::Ratio(2.0);
/// Requests a second.
const MIN_RATE: f64 = 10_000.0;
const HALF_LOAD: Target = Target::Below(Quantity::Time(Duration::from_millis(5)));

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (rounds, time) = match effort {
        Effort::Full => (5, Duration::from_secs(4)),
        Effort::Quick => (1, Duration::from_millis(500)),
    };
    let directory = TemporaryHome::new();
    create_tenants(programs, directory.path(), TENANTS)?;
    let hub = HubProcess::start(programs, directory.path())?;
    let echo = EchoServer::start(programs, echo::MODE)?;
    let bare_mcp = McpEndpoint {
        port: echo.port,
        token: None,
    };
    let tenants: Vec<_> = (0..TENANTS)
        .map(|number| json!({"tenant_id": tenant_name(number)}))
        .collect();
    let texts = vec![json!({"text": "x".repeat(64)})];
    for era in ERAS {
        let ours = hub
            .mcp()
            .clients(era, CONNECTIONS, "get_tenant", &tenants)?;
        let bare = bare_mcp.clients(era, CONNECTIONS, "echo", &texts)?;
        let (mut of_hub, mut of_echo) = (load::LoadResult::default(), load::LoadResult::default());
        for round in 0..=rounds {
            let ours = load::run_load(hub.port, ours.clone(), time)?;
            let bare = load::run_load(echo.port, bare.clone(), time)?;
            // The first round fills caches and grows buffers.
            if round > 0 {
                of_hub.add(&ours);
                of_echo.add(&bare);
            }
        }
        let (words, least) = match era {
            Era::Stateless => ("stateless", 0.8),
            Era::Legacy => ("session", 0.7),
        };
        report.add(ReportRow::new(
            format!("get_tenant, {CONNECTIONS} connections, {words}: requests"),
            of_hub.rate(),
            Some(of_echo.rate()),
            Target::AtLeast(least),
        ));
        if era == Era::Stateless {
            report.add(ReportRow::p99(
                format!("get_tenant, {CONNECTIONS} connections, {words}: p99"),
                &of_hub.latencies,
                Some(&of_echo.latencies),
                P99,
            ));
        }
    }
    measure_rest(&hub, &tenants, rounds, time, report)?;
    hub.stop()
}

/// The same read over MCP and over REST, and how long it takes when the Hub has half of that to do.
fn measure_rest(
    hub: &HubProcess,
    tenants: &[Value],
    rounds: usize,
    time: Duration,
    report: &mut Report,
) -> Result<()> {
    let mcp = hub
        .mcp()
        .clients(Era::Stateless, CONNECTIONS, "get_tenant", tenants)?;
    let requests: Arc<[Vec<u8>]> = (0..TENANTS)
        .map(|number| hub.request("GET", &format!("/v1/tenants/{}", tenant_name(number)), None))
        .collect();
    let rest: Vec<LoadClient> = (0..CONNECTIONS)
        .map(|client| LoadClient {
            requests: Arc::clone(&requests),
            first: client % TENANTS,
        })
        .collect();
    let (mut of_mcp, mut of_rest) = (load::LoadResult::default(), load::LoadResult::default());
    for round in 0..=rounds {
        let ours = load::run_load(hub.port, mcp.clone(), time)?;
        let base = load::run_load(hub.port, rest.clone(), time)?;
        if round > 0 {
            of_mcp.add(&ours);
            of_rest.add(&base);
        }
    }
    report.add(ReportRow::new(
        "get_tenant over MCP against REST: requests",
        of_mcp.rate(),
        Some(of_rest.rate()),
        Target::AtLeast(0.7),
    ));
    report.add(ReportRow::new(
        "get_tenant over MCP: requests",
        of_mcp.rate(),
        Some(Quantity::Rate(MIN_RATE)),
        Target::AtLeast(1.0),
    ));
    // At half of that rate each connection asks at twice the distance.
    let every = of_mcp.latencies.mean() * 2;
    let half = load::run_paced_load(hub.port, mcp, time, every)?;
    report.add(ReportRow::p99(
        "get_tenant over MCP, half load: p99",
        &half.latencies,
        None,
        HALF_LOAD,
    ));
    Ok(())
}
