//! From the insert of a message by another process to the answer of `events_wait`.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use hermes_mcp::Era;
use serde_json::json;

use super::{FilledHome, client::Bridge, writer::WriterProcess};
use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
    samples::{Samples, monotonic_time},
};

const LIMIT: Target = Target::Below(Quantity::Time(Duration::from_millis(10)));
/// Pauses from one to so many milliseconds, so that messages come at any point of the bridge's own rhythm.
const MAX_PAUSE_MS: u64 = 37;

pub(super) fn measure(
    programs: &Programs,
    large: &FilledHome,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let times = match effort {
        Effort::Full => 1_000,
        Effort::Quick => 100,
    };
    let (mut bridge, _) = Bridge::start(programs, large.path(), Era::Legacy)?;
    let mut writer = WriterProcess::start(programs, large.path())?;
    let mut from_insert = Samples::default();
    let (_, state) = bridge.call("events_poll", &json!({}))?;
    let mut cursor = state["next_cursor"].clone();
    for round in 0..=times {
        bridge.send_call(
            "events_wait",
            &json!({"after_cursor": cursor, "timeout_ms": 10_000}),
        )?;
        thread::sleep(Duration::from_millis(1 + round * 7 % MAX_PAUSE_MS));
        writer.request_write(usize::try_from(round)? % large.size.chats)?;
        let event = bridge.next_reply()?.body()?["event"].take();
        let answered = monotonic_time()?;
        let written = writer.wait_written()?;
        let id = event["message_id"].as_str().and_then(|id| id.parse().ok());
        ensure!(
            id == Some(written.id),
            "no event of message {}, but {event}",
            written.id
        );
        cursor = event["cursor"].clone();
        if round > 0 {
            from_insert.push(answered.saturating_sub(written.began));
        }
    }
    report.add(ReportRow::p99(
        "insert to events_wait, p99",
        &from_insert,
        None,
        LIMIT,
    ));
    bridge.close()?;
    writer.end()
}
