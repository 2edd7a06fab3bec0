//! From the start of the process to the list of its tools.

use std::{fs, time::Duration};

use anyhow::Result;
use hermes_mcp::era::Era;

use super::{Place, client::Bridge};
use crate::{
    report::{Quantity, Report, Row, Target},
    samples::Samples,
    scene::{Effort, Programs},
};

const LIMIT: Target = Target::Below(Quantity::Time(Duration::from_millis(25)));

pub(super) fn measure(
    programs: &Programs,
    large: &Place,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let start = |era| -> Result<Duration> {
        let (bridge, taken) = Bridge::start(programs, large.path(), era)?;
        bridge.end()?;
        Ok(taken)
    };
    let (mut first, mut legacy, mut stateless) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 0..=effort.times(200) {
        forget_log(large);
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
        report.add(Row::time(
            format!("spawn to tools/list, {how}"),
            samples,
            LIMIT,
        ));
    }
    Ok(())
}

/// Deletes the log of events, as if no bridge had run yet.
fn forget_log(place: &Place) {
    for name in ["runtime.db", "runtime.db-wal", "runtime.db-shm"] {
        // It may not be there.
        let _ = fs::remove_file(place.path().join(name));
    }
}
