//! From the start of the process to the list of its tools.

use std::{fs, time::Duration};

use anyhow::Result;
use hermes_mcp::Era;

use super::{FilledHome, client::Bridge};
use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const LIMIT: Target = Target::Below(Quantity::Time(Duration::from_millis(25)));

pub(super) fn measure(
    programs: &Programs,
    large: &FilledHome,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let start = |era| -> Result<Duration> {
        let (bridge, taken) = Bridge::start(programs, large.path(), era)?;
        bridge.close()?;
        Ok(taken)
    };
    let (mut first, mut legacy, mut stateless) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 0..=effort.times(200) {
        delete_event_log(large);
        let taken = start(Era::Legacy)?;
        let (again, other) = (start(Era::Legacy)?, start(Era::Stateless)?);
        if round > 0 {
            first.push(taken);
            legacy.push(again);
            stateless.push(other);
        }
    }
    for (how, samples) in [
        ("legacy", &legacy),
        ("stateless", &stateless),
        ("legacy, first on a home", &first),
    ] {
        report.add(ReportRow::time(
            format!("spawn to tools/list, {how}"),
            samples,
            LIMIT,
        ));
    }
    Ok(())
}

/// Deletes the log of events, as if no bridge had run yet.
fn delete_event_log(place: &FilledHome) {
    for name in ["runtime.db", "runtime.db-wal", "runtime.db-shm"] {
        // It may not be there.
        let _ = fs::remove_file(place.path().join(name));
    }
}
