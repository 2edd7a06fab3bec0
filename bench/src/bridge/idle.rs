//! What a bridge takes while nothing happens and its client waits for events.

use std::{thread, time::Duration};

use anyhow::Result;
use hermes_mcp::Era;
use serde_json::json;

use super::{FilledHome, client::Bridge};
use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
};

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
