//! Calls over the large store and over the small one, in turns.

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

/// One store and the bridge over it.
struct BridgeSide<'a> {
    place: &'a FilledHome,
    bridge: Bridge,
    samples: [Samples; 3],
    /// Of `messages_read`, of chats that this bridge has not read before.
    first_reads: Samples,
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
    let times = match effort {
        Effort::Full => 3_000,
        Effort::Quick => 200,
    };
    for round in 0..=times {
        for side in &mut sides {
            side.round(round)?;
        }
    }
    let [ours, theirs] = &sides;
    let first_reads = &ours.first_reads;
    let name = "messages_read of a chat that was not read before";
    report.add(ReportRow::time(format!("{name}, p50"), first_reads, MEDIAN));
    report.add(ReportRow::p99(
        format!("{name}, p99"),
        first_reads,
        None,
        P99,
    ));
    for (at, call) in BridgeCall::ALL.into_iter().enumerate() {
        let (tool, ours, theirs) = (call.tool(), &ours.samples[at], &theirs.samples[at]);
        report.add(ReportRow::time(format!("{tool}, p50"), ours, MEDIAN));
        report.add(ReportRow::p99(format!("{tool}, p99"), ours, None, P99));
        report.add(ReportRow::times(
            format!("{tool}, p50 against a small store"),
            ours,
            theirs,
            RATIO,
        ));
    }
    sides.into_iter().try_for_each(|side| side.bridge.close())?;
    measure_list_after_write(programs, large, effort, report)
}

/// `conversations_list` right after another process has written to one of the chats.
fn measure_list_after_write(
    programs: &Programs,
    place: &FilledHome,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let (mut bridge, _) = Bridge::start(programs, place.path(), Era::Legacy)?;
    let mut writer = WriterProcess::start(programs, place.path())?;
    let call = BridgeCall::List;
    let mut samples = Samples::default();
    for round in 0..=effort.times(1_000) {
        let chat = round % place.size.chats;
        writer.write(chat)?;
        let (taken, answer) = bridge.call(call.tool(), &call.arguments(chat))?;
        call.check(place, &answer)?;
        // The newest are listed, so the chat is among them.
        let key = filled_store::session_key(chat);
        let listed = answer["conversations"].as_array().into_iter().flatten();
        let mut keys = listed.map(|conversation| &conversation["session_key"]);
        ensure!(
            keys.any(|listed| listed == key.as_str()),
            "the list is older than the message"
        );
        if round > 0 {
            samples.push(taken);
        }
    }
    writer.end()?;
    let name = "conversations_list right after a write";
    report.add(ReportRow::time(format!("{name}, p50"), &samples, MEDIAN));
    report.add(ReportRow::p99(format!("{name}, p99"), &samples, None, P99));
    bridge.close()
}

impl<'a> BridgeSide<'a> {
    fn new(programs: &Programs, place: &'a FilledHome) -> Result<Self> {
        let (bridge, _) = Bridge::start(programs, place.path(), Era::Legacy)?;
        let mut side = Self {
            place,
            bridge,
            samples: Default::default(),
            first_reads: Samples::default(),
        };
        // The log begins with the first poll at the latest.
        side.bridge.call("events_poll", &json!({}))?;
        let mut writer = WriterProcess::start(programs, place.path())?;
        for number in 0..EVENTS {
            writer.write(number % place.size.chats)?;
        }
        writer.end()?;
        Ok(side)
    }

    /// Every call once. The first time does not count. The first time that a chat is read counts by itself: its messages
    /// are strewn over the whole file, and all are looked at once to count them.
    fn round(&mut self, round: usize) -> Result<()> {
        let chats = self.place.size.chats;
        for (at, call) in BridgeCall::ALL.into_iter().enumerate() {
            let arguments = call.arguments(round % chats);
            let (taken, answer) = self.bridge.call(call.tool(), &arguments)?;
            call.check(self.place, &answer)?;
            if round == 0 {
                continue;
            }
            if matches!(call, BridgeCall::Read) && round < chats {
                self.first_reads.push(taken);
            } else {
                self.samples[at].push(taken);
            }
        }
        Ok(())
    }
}
