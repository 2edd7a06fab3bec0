//! What a hundred thousand calls leave in memory, after as many as it takes to warm up.

use anyhow::Result;
use hermes_mcp::Era;
use hermes_testkit::TemporaryHome;
use serde_json::json;

use super::{create_tenants, load, tenant_name};
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Quantity, Report, ReportRow, Target},
};

const TENANTS: usize = 100;
const CONNECTIONS: usize = 32;
/// Calls between two looks, so that this program need not keep all of them.
const BATCH: usize = 5_000;
const LIMIT: Target = Target::Ratio(1.05);

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (warm_up, calls) = match effort {
        Effort::Full => (100_000, 100_000),
        Effort::Quick => (10_000, 10_000),
    };
    let directory = TemporaryHome::new();
    create_tenants(programs, directory.path(), TENANTS)?;
    let hub = HubProcess::start(programs, directory.path())?;
    let requests = requests(&hub)?;
    send_requests(&hub, &requests, warm_up)?;
    let before = hub.memory()?;
    send_requests(&hub, &requests, calls)?;
    report.add(ReportRow::new(
        format!("memory after {calls} calls, against that before them"),
        Quantity::Memory(hub.memory()?),
        Some(Quantity::Memory(before)),
        LIMIT,
    ));
    hub.stop()
}

/// Reads and writes, over REST and MCP.
fn requests(hub: &HubProcess) -> Result<Vec<Vec<u8>>> {
    let mut requests = Vec::new();
    for number in 0..TENANTS {
        let id = tenant_name(number);
        let path = format!("/v1/tenants/{id}");
        let renamed = json!({"displayName": format!("Tenant {number}, again")});
        requests.push(hub.request("GET", &path, None));
        requests.push(hub.request("GET", "/v1/tenants?limit=20", None));
        requests.push(hub.request("GET", &format!("{path}/agent-cron"), None));
        requests.push(hub.request("PATCH", &path, Some(&renamed)));
        let arguments = [json!({"tenant_id": id})];
        let mcp = hub.mcp();
        let clients = mcp.clients(Era::Stateless, 1, "get_tenant", &arguments)?;
        for client in clients {
            requests.extend_from_slice(&client.requests);
        }
    }
    Ok(requests)
}

fn send_requests(hub: &HubProcess, requests: &[Vec<u8>], calls: usize) -> Result<()> {
    let mut all = requests.iter().cycle();
    for _ in 0..calls / BATCH {
        let some = all.by_ref().take(BATCH).cloned().collect();
        load::send_each_once(hub.port, some, CONNECTIONS)?;
    }
    Ok(())
}
