//! From the start of the process to the list of its tools, and what a bridge takes while nothing happens.

use std::{fs, thread, time::Duration};

use anyhow::Result;
use hermes_mcp::Era;
use serde_json::json;

use super::{FilledHome, client::Bridge};
use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const LIMIT: Target = Target::Below(Quantity::Time(Duration::from_millis(25)));
/// 20 MB in KiB.
const MEMORY: Target = Target::Below(Quantity::Memory(19_531));
const PROCESSOR: Target = Target::Below(Quantity::Share(0.1));
/// Time for background work of the start to finish.
const SETTLE_TIME: Duration = Duration::from_secs(1);

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

/// What a bridge takes while nothing happens and its client waits for events.
pub(super) fn measure_idle(
    programs: &Programs,
    large: &FilledHome,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let time = match effort {
        Effort::Full => Duration::from_secs(20),
        Effort::Quick => Duration::from_secs(2),
    };
    let (mut bridge, _) = Bridge::start(programs, large.path(), Era::Legacy)?;
    bridge.send_call("events_wait", &json!({"timeout_ms": 300_000}))?;
    thread::sleep(SETTLE_TIME);
    let before = bridge.processor_time()?;
    thread::sleep(time);
    let used = bridge.processor_time()?.saturating_sub(before);
    report.add(ReportRow::new(
        "idle, RSS",
        Quantity::Memory(bridge.memory("VmRSS")?),
        None,
        MEMORY,
    ));
    report.add(ReportRow::new(
        "idle, processor",
        Quantity::Share(100.0 * used.as_secs_f64() / time.as_secs_f64()),
        None,
        PROCESSOR,
    ));
    bridge.close()
}
