//! Changes of tenants by many at once: each is on the disk before it is answered, and those that wait share a commit.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use hermes_testkit::TemporaryHome;
use serde_json::json;

use super::{create_tenants, load, tenant_name};
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Report, ReportRow, Target},
};

const TENANTS: usize = 100;
const CONNECTIONS: [usize; 3] = [1, 8, 32];

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let time = match effort {
        Effort::Full => Duration::from_secs(5),
        Effort::Quick => Duration::from_millis(500),
    };
    let directory = TemporaryHome::new();
    create_tenants(programs, directory.path(), TENANTS)?;
    let hub = HubProcess::start(programs, directory.path())?;
    for connections in CONNECTIONS {
        let requests: Arc<[Vec<u8>]> = (0..TENANTS)
            .map(|number| {
                let path = format!("/v1/tenants/{}", tenant_name(number));
                let body = json!({"displayName": format!("Name {number} of {connections}")});
                hub.request("PATCH", &path, Some(&body))
            })
            .collect();
        let clients = (0..connections).map(|number| load::LoadClient {
            requests: Arc::clone(&requests),
            first: number * TENANTS / connections,
        });
        let outcome = load::run_load(hub.port, clients.collect(), time)?;
        report.add(ReportRow::new(
            format!("PATCH of a tenant, {connections} connections"),
            outcome.rate(),
            None,
            Target::Nothing,
        ));
    }
    hub.stop()
}
