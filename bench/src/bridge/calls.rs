//! Calls over the large store and over the small one, in turns; also when something was written just before.

use std::time::Duration;

use anyhow::{Result, ensure};
use hermes_mcp::Era;
use serde_json::{Value, json};

use super::{FilledHome, client::Bridge, writer::WriterProcess};
use crate::{
    environment::{Effort, Programs},
    filled_store,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const MEDIAN: Target = Target::Below(Quantity::Time(Duration::from_millis(2)));
const P99: Target = Target::Below(Quantity::Time(Duration::from_millis(10)));
const RATIO: Target = Target::Ratio(2.0);
/// So many events are in the log, of which a poll returns the first 20.
const EVENTS: usize = 50;

/// The calls that are measured.
#[derive(Debug, Clone, Copy)]
enum BridgeCall {
    List,
    Read,
    Poll,
}

impl BridgeCall {
    const ALL: [Self; 3] = [Self::List, Self::Read, Self::Poll];

    fn tool(self) -> &'static str {
        match self {
            Self::List => "conversations_list",
            Self::Read => "messages_read",
            Self::Poll => "events_poll",
        }
    }

    fn arguments(self, chat: usize) -> Value {
        match self {
            Self::List | Self::Poll => json!({}),
            Self::Read => json!({"session_key": filled_store::session_key(chat).as_str()}),
        }
    }

    fn check(self, place: &FilledHome, answer: &Value) -> Result<()> {
        let (list, least) = match self {
            Self::List => ("conversations", place.size.chats.min(50)),
            Self::Read => ("messages", 50),
            Self::Poll => ("events", 20),
        };
        let count = answer[list].as_array().map_or(0, Vec::len);
        ensure!(count == least, "{count} {list} instead of {least}");
        Ok(())
    }
}

/// One store, the bridge over it and a writer beside that.
struct BridgeSide<'a> {
    place: &'a FilledHome,
    bridge: Bridge,
    writer: WriterProcess,
    quiet: [Samples; 3],
    /// Reading chats that were not read before.
    first: Samples,
    written: [Samples; 3],
}

pub(super) fn measure(
    programs: &Programs,
    places: [&FilledHome; 2],
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let [large, small] = places;
    let mut sides = [
        BridgeSide::new(programs, large)?,
        BridgeSide::new(programs, small)?,
    ];
    let (times, written_times) = match effort {
        Effort::Full => (3_000, 500),
        Effort::Quick => (200, 50),
    };
    for round in 0..=times {
        for side in &mut sides {
            side.round(round)?;
        }
    }
    for round in 0..=written_times {
        for side in &mut sides {
            side.written_round(round)?;
        }
    }
    let [ours, theirs] = &sides;
    report.add(ReportRow::time(
        "messages_read of a chat not read before, p50".to_owned(),
        &ours.first,
        Target::Nothing,
    ));
    for (at, call) in BridgeCall::ALL.into_iter().enumerate() {
        let (tool, ours, theirs) = (call.tool(), &ours.quiet[at], &theirs.quiet[at]);
        report.add(ReportRow::time(format!("{tool}, p50"), ours, MEDIAN));
        report.add(ReportRow::p99(format!("{tool}, p99"), ours, None, P99));
        report.add(ReportRow::times(
            format!("{tool}, p50 against a small store"),
            ours,
            theirs,
            RATIO,
        ));
    }
    for (at, call) in BridgeCall::ALL.into_iter().enumerate() {
        let (ours, theirs) = (&ours.written[at], &theirs.written[at]);
        let name = format!("{} right after a write, p50", call.tool());
        report.add(ReportRow::times(name, ours, theirs, Target::Nothing));
    }
    let memory = Quantity::Memory(ours.bridge.memory("VmRSS")?);
    report.add(ReportRow::new(
        "RSS after these calls",
        memory,
        None,
        Target::Nothing,
    ));
    sides.into_iter().try_for_each(BridgeSide::end)
}

impl<'a> BridgeSide<'a> {
    fn new(programs: &Programs, place: &'a FilledHome) -> Result<Self> {
        let (bridge, _) = Bridge::start(programs, place.path(), Era::Legacy)?;
        let mut side = Self {
            place,
            bridge,
            writer: WriterProcess::start(programs, place.path())?,
            quiet: Default::default(),
            first: Samples::default(),
            written: Default::default(),
        };
        // The log begins with the first poll at the latest.
        side.bridge.call("events_poll", &json!({}))?;
        for number in 0..EVENTS {
            side.writer.write(number % place.size.chats)?;
        }
        Ok(side)
    }

    /// Every call once. The first time does not count.
    fn round(&mut self, round: usize) -> Result<()> {
        for (at, call) in BridgeCall::ALL.into_iter().enumerate() {
            let taken = self.call(call, round)?;
            let is_first = matches!(call, BridgeCall::Read) && round < self.place.size.chats;
            match round {
                0 => {}
                _ if is_first => self.first.push(taken),
                _ => self.quiet[at].push(taken),
            }
        }
        Ok(())
    }

    /// Every call once, each after a message was written.
    fn written_round(&mut self, round: usize) -> Result<()> {
        for (at, call) in BridgeCall::ALL.into_iter().enumerate() {
            self.writer.write(round % self.place.size.chats)?;
            let taken = self.call(call, round)?;
            if round > 0 {
                self.written[at].push(taken);
            }
        }
        Ok(())
    }

    fn call(&mut self, call: BridgeCall, round: usize) -> Result<Duration> {
        let arguments = call.arguments(round % self.place.size.chats);
        let (taken, answer) = self.bridge.call(call.tool(), &arguments)?;
        call.check(self.place, &answer)?;
        Ok(taken)
    }

    fn end(self) -> Result<()> {
        self.bridge.close()?;
        self.writer.end()
    }
}
