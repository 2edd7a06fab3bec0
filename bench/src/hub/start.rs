//! How fast a Hub starts and what it needs at rest, empty and with a thousand tenants that sleep.

use std::{path::Path, thread, time::Duration};

use anyhow::Result;
use hermes_testkit::TemporaryHome;

use super::{fill, scale::SETTLING, served::Served};
use crate::{
    report::{Quantity, Report, Row, Target},
    samples::Samples,
    scene::{Effort, Programs},
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
    Served::start(programs, empty.path())?.end()?;
    fill(programs, full.path(), TENANTS as usize)?;
    let (start_empty, start_full) = (
        starts(programs, empty.path(), effort)?,
        starts(programs, full.path(), effort)?,
    );
    report.add(Row::time("start-up, empty", &start_empty, EMPTY_START));
    report.add(Row::time(
        format!("start-up, {TENANTS} sleeping tenants"),
        &start_full,
        FULL_START,
    ));
    let of_empty = at_rest(programs, empty.path())?;
    let of_full = at_rest(programs, full.path())?;
    report.add(Row::new(
        "idle, empty: RSS",
        Quantity::Memory(of_empty),
        None,
        EMPTY_MEMORY,
    ));
    report.add(Row::new(
        format!("idle: what {TENANTS} sleeping tenants add to the RSS"),
        Quantity::Memory(of_full.saturating_sub(of_empty)),
        None,
        TENANT_MEMORY,
    ));
    Ok(())
}

fn starts(programs: &Programs, data: &Path, effort: Effort) -> Result<Samples> {
    let mut starts = Samples::default();
    for _ in 0..effort.times(50) {
        let hub = Served::start(programs, data)?;
        starts.push(hub.start);
        hub.end()?;
    }
    Ok(starts)
}

fn at_rest(programs: &Programs, data: &Path) -> Result<u32> {
    let hub = Served::start(programs, data)?;
    thread::sleep(SETTLING);
    let memory = hub.memory()?;
    hub.end()?;
    Ok(memory)
}
