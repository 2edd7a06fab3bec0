//! How fast a Hub starts and what it needs at rest, empty and with a thousand tenants that sleep.

use std::{path::Path, thread, time::Duration};

use anyhow::Result;
use hermes_testkit::TemporaryHome;

use super::{create_tenants, scale::SETTLE_TIME};
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const TENANTS: u32 = 1_000;
const EMPTY_START: Target = Target::Below(Quantity::Time(Duration::from_millis(50)));
const FULL_START: Target = Target::Below(Quantity::Time(Duration::from_millis(100)));
/// 30 MiB.
const EMPTY_MEMORY: Target = Target::Below(Quantity::Memory(30 * 1024));
/// 6 KiB for each.
const TENANT_MEMORY: Target = Target::Below(Quantity::Memory(6 * TENANTS));

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (empty, full) = (TemporaryHome::new(), TemporaryHome::new());
    // The first start of all makes the database.
    HubProcess::start(programs, empty.path())?.stop()?;
    create_tenants(programs, full.path(), TENANTS as usize)?;
    let (start_empty, start_full) = (
        measure_starts(programs, empty.path(), effort)?,
        measure_starts(programs, full.path(), effort)?,
    );
    report.add(ReportRow::time(
        "start-up, empty",
        &start_empty,
        EMPTY_START,
    ));
    report.add(ReportRow::time(
        format!("start-up, {TENANTS} sleeping tenants"),
        &start_full,
        FULL_START,
    ));
    let of_empty = measure_idle_memory(programs, empty.path())?;
    let of_full = measure_idle_memory(programs, full.path())?;
    report.add(ReportRow::new(
        "idle, empty: RSS",
        Quantity::Memory(of_empty),
        None,
        EMPTY_MEMORY,
    ));
    report.add(ReportRow::new(
        format!("idle: what {TENANTS} sleeping tenants add to the RSS"),
        Quantity::Memory(of_full.saturating_sub(of_empty)),
        None,
        TENANT_MEMORY,
    ));
    Ok(())
}

fn measure_starts(programs: &Programs, data: &Path, effort: Effort) -> Result<Samples> {
    let mut starts = Samples::default();
    for _ in 0..effort.times(50) {
        let hub = HubProcess::start(programs, data)?;
        starts.push(hub.start);
        hub.stop()?;
    }
    Ok(starts)
}

fn measure_idle_memory(programs: &Programs, data: &Path) -> Result<u32> {
    let hub = HubProcess::start(programs, data)?;
    thread::sleep(SETTLE_TIME);
    let memory = hub.memory()?;
    hub.stop()?;
    Ok(memory)
}
