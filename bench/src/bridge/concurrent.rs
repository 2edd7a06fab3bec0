//! Concurrent clients: some wait for every message, some for those of one chat, some read all the time.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use hermes_mcp::Era;
use serde_json::{Value, json};

use super::{FilledHome, client::Bridge, writer::WriterProcess};
use crate::{
    environment::{Effort, Programs},
    filled_store,
    report::{Quantity, Report, ReportRow, Target},
};

const WAITERS: usize = 200;
const READERS: usize = 50;
/// Messages come to so many chats in turns.
const CHATS: usize = 10;
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
/// A waiter without an event for this long has missed one.
const WAIT_TIMEOUT_MS: u64 = 30_000;
/// 60 MB in KiB.
const MEMORY: Target = Target::Below(Quantity::Memory(58_593));

pub(super) fn measure(
    programs: &Programs,
    large: &FilledHome,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let time = match effort {
        Effort::Full => Duration::from_mins(1),
        Effort::Quick => Duration::from_secs(3),
    };
    let (bridge, _) = Bridge::start(programs, large.path(), Era::Legacy)?;
    let writer = WriterProcess::start(programs, large.path())?;
    let mut crowd = ConcurrentClients::start(bridge)?;
    let written = thread::scope(|scope| {
        let writing = scope.spawn(|| write_messages(writer, time));
        crowd.run(Instant::now() + time)?;
        let written = writing.join().map_err(|_| anyhow!("the writing ended"))??;
        crowd.finish(&written)?;
        Ok::<_, anyhow::Error>(written)
    })?;
    let what = format!("{WAITERS} waiters, {READERS} readers");
    let none = Some(Quantity::Count(0));
    let errors = Quantity::Count(crowd.errors);
    report.add(ReportRow::new(
        format!("{what}: errors"),
        errors,
        none,
        Target::Equal,
    ));
    let (heard, expected) = crowd.count_heard(&written);
    report.add(ReportRow::new(
        format!("{what}: events heard of those written"),
        Quantity::Count(heard),
        Some(Quantity::Count(expected)),
        Target::Equal,
    ));
    report.add(ReportRow::new(
        format!("{what}: peak RSS"),
        Quantity::Memory(crowd.bridge.memory("VmHWM")?),
        None,
        MEMORY,
    ));
    crowd.bridge.close()
}

/// The ids of the messages written to each chat, and of all, in order.
#[derive(Default)]
struct WrittenMessages {
    all: Vec<i64>,
    of_chat: [Vec<i64>; CHATS],
}

/// Writes for a time.
fn write_messages(mut writer: WriterProcess, time: Duration) -> Result<WrittenMessages> {
    let mut written = WrittenMessages::default();
    let end = Instant::now() + time;
    for chat in (0..CHATS).cycle() {
        if Instant::now() >= end {
            break;
        }
        let id = writer.write(chat)?.id;
        written.all.push(id);
        written.of_chat[chat].push(id);
        thread::sleep(WRITE_INTERVAL);
    }
    writer.end()?;
    Ok(written)
}

/// Whoever has asked something.
#[derive(Clone, Copy)]
enum ClientKind {
    Waiter(usize),
    Reader(usize),
}

struct WaitingClient {
    /// One chat, or all.
    chat: Option<usize>,
    cursor: Value,
    heard: Vec<i64>,
}

impl WaitingClient {
    fn expected<'a>(&self, written: &'a WrittenMessages) -> &'a [i64] {
        match self.chat {
            Some(chat) => &written.of_chat[chat],
            None => &written.all,
        }
    }
}

/// All who ask, on one connection.
struct ConcurrentClients {
    bridge: Bridge,
    waiters: Vec<WaitingClient>,
    asked: HashMap<u64, ClientKind>,
    errors: u32,
}

impl ConcurrentClients {
    /// Has everybody wait and read.
    fn start(mut bridge: Bridge) -> Result<Self> {
        let (_, state) = bridge.call("events_poll", &json!({}))?;
        let waiter = |number: usize| WaitingClient {
            chat: (!number.is_multiple_of(2)).then_some(number / 2 % CHATS),
            cursor: state["next_cursor"].clone(),
            heard: Vec::new(),
        };
        let mut crowd = Self {
            bridge,
            waiters: (0..WAITERS).map(waiter).collect(),
            asked: HashMap::new(),
            errors: 0,
        };
        for number in 0..WAITERS {
            crowd.wait(number)?;
        }
        for number in 0..READERS {
            crowd.read(number)?;
        }
        Ok(crowd)
    }

    /// Answers are taken and all ask anew, until that moment.
    fn run(&mut self, end: Instant) -> Result<()> {
        while Instant::now() < end {
            match self.handle_reply()? {
                ClientKind::Waiter(number) => self.wait(number)?,
                ClientKind::Reader(number) => self.read(number + 1)?,
            }
        }
        Ok(())
    }

    /// Nobody reads any more; whoever has not heard everything waits on.
    fn finish(&mut self, written: &WrittenMessages) -> Result<()> {
        while self.errors == 0
            && self
                .waiters
                .iter()
                .any(|waiter| waiter.heard.len() < waiter.expected(written).len())
        {
            if let ClientKind::Waiter(number) = self.handle_reply()? {
                self.wait(number)?;
            }
        }
        Ok(())
    }

    /// Takes the next answer, and returns whose it is.
    fn handle_reply(&mut self) -> Result<ClientKind> {
        let answer = self.bridge.next_reply()?;
        let asker = self.asked.remove(&answer.id).context("nobody asked")?;
        if answer.is_refusal() {
            self.errors += 1;
            return Ok(asker);
        }
        if let ClientKind::Waiter(number) = asker {
            let event = answer.body()?["event"].take();
            let id = event["message_id"].as_str();
            match id.map(str::parse) {
                Some(id) => {
                    let waiter = &mut self.waiters[number];
                    waiter.heard.push(id?);
                    waiter.cursor = event["cursor"].clone();
                }
                None => self.errors += 1,
            }
        }
        Ok(asker)
    }

    fn wait(&mut self, number: usize) -> Result<()> {
        let waiter = &self.waiters[number];
        let key = waiter.chat.map(filled_store::session_key);
        let arguments = json!({
            "after_cursor": waiter.cursor,
            "session_key": key.as_ref().map(hermes_store::SessionKey::as_str),
            "timeout_ms": WAIT_TIMEOUT_MS,
        });
        let id = self.bridge.send_call("events_wait", &arguments)?;
        self.asked.insert(id, ClientKind::Waiter(number));
        Ok(())
    }

    fn read(&mut self, number: usize) -> Result<()> {
        let key = filled_store::session_key(number % CHATS);
        let id = match number % 3 {
            0 => self.bridge.send_call("conversations_list", &json!({}))?,
            1 => self.bridge.send_call("events_poll", &json!({}))?,
            _ => self
                .bridge
                .send_call("messages_read", &json!({"session_key": key.as_str()}))?,
        };
        self.asked.insert(id, ClientKind::Reader(number));
        Ok(())
    }

    /// How many events all waiters have heard in the right order, and how many there were to be heard.
    fn count_heard(&self, written: &WrittenMessages) -> (u32, u32) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let mut total = (0, 0);
        for waiter in &self.waiters {
            let expected = waiter.expected(written);
            let pairs = waiter.heard.iter().zip(expected);
            total.0 += count(
                pairs
                    .take_while(|(heard, written)| heard == written)
                    .count(),
            );
            total.1 += count(expected.len());
        }
        total
    }
}
