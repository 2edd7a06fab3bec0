//! What consoles that stand open cost the Hub: each has its own session, its page and its event stream.

use std::{thread, time::Duration};

use anyhow::Result;
use hermes_testkit::TemporaryHome;
use tokio::runtime;

use super::{ConsoleReader, size};
use crate::{
    environment::{Effort, Programs},
    hub::{create_tenants, hub_process::HubProcess, wire::RawConnection},
    report::{Quantity, Report, ReportRow, Target},
};

/// 20 MB in KiB.
const MEMORY: Target = Target::Below(Quantity::Memory(19_531));
const TENANTS: usize = 100;
/// Time for background work to finish.
const SETTLE_TIME: Duration = Duration::from_secs(2);

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let consoles = size(effort, "HERMES_BENCH_CONSOLES", 200, 20)?;
    let directory = TemporaryHome::new();
    create_tenants(programs, directory.path(), TENANTS)?;
    let hub = HubProcess::start(programs, directory.path())?;
    // One that was opened and left: what is made for the first is not the cost of a further one.
    ConsoleReader::sign_in(&hub)?.find_pages()?;
    thread::sleep(SETTLE_TIME);
    let before = hub.memory()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut open = Vec::new();
    for _ in 0..consoles {
        let reader = ConsoleReader::sign_in(&hub)?;
        reader.read("/")?;
        let request = reader.request("/live");
        open.push(runtime.block_on(async move {
            let mut connection = RawConnection::open(reader.port).await?;
            connection.open_stream(&request).await?;
            anyhow::Ok(connection)
        })?);
    }
    thread::sleep(SETTLE_TIME);
    let after = hub.memory()?;
    drop(open);
    report.add(ReportRow::new(
        format!("{consoles} open consoles: memory of the Hub"),
        Quantity::Memory(after.saturating_sub(before)),
        None,
        MEMORY,
    ));
    hub.stop()
}
