//! Concurrent clients: some wait for every message, some for those of one chat, some read all the time.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use hermes_mcp::era::Era;
use serde_json::{Value, json};

use super::{Place, client::Bridge, writer::Writer};
use crate::{
    filled,
    report::{Quantity, Report, Row, Target},
    scene::{Effort, Programs},
};

const WAITERS: usize = 200;
const READERS: usize = 50;
/// Messages come to so many chats in turns.
const CHATS: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);
/// A waiter without an event for this long has missed one.
const PATIENCE_MS: u64 = 30_000;
/// 60 MB in KiB.
const MEMORY: Target = Target::Below(Quantity::Memory(58_593));

pub(super) fn measure(
    programs: &Programs,
    large: &Place,
    effort: Effort,
    report: &mut Report,
) -> Result<()> {
    let time = match effort {
        Effort::Full => Duration::from_mins(1),
        Effort::Quick => Duration::from_secs(3),
    };
    let (bridge, _) = Bridge::start(programs, large.path(), Era::Legacy)?;
    let writer = Writer::start(programs, large.path())?;
    let mut crowd = Crowd::gather(bridge)?;
    let written = thread::scope(|scope| {
        let writing = scope.spawn(|| write(writer, time));
        crowd.run(Instant::now() + time)?;
        let written = writing.join().map_err(|_| anyhow!("the writing ended"))??;
        crowd.finish(&written)?;
        Ok::<_, anyhow::Error>(written)
    })?;
    let what = format!("{WAITERS} waiters, {READERS} readers");
    let none = Some(Quantity::Count(0));
    let errors = Quantity::Count(crowd.errors);
    report.add(Row::new(
        format!("{what}: errors"),
        errors,
        none,
        Target::Equal,
    ));
    let (heard, expected) = crowd.heard(&written);
    report.add(Row::new(
        format!("{what}: events heard of those written"),
        Quantity::Count(heard),
        Some(Quantity::Count(expected)),
        Target::Equal,
    ));
    report.add(Row::new(
        format!("{what}: peak RSS"),
        Quantity::Memory(crowd.bridge.memory("VmHWM")?),
        None,
        MEMORY,
    ));
    report.add(Row::new(
        format!("{what}: reads"),
        Quantity::Count(crowd.reads),
        None,
        Target::Nothing,
    ));
    crowd.bridge.end()
}

/// The ids of the messages written to each chat, and of all, in order.
#[derive(Default)]
struct AllWritten {
    all: Vec<i64>,
    of_chat: [Vec<i64>; CHATS],
}

/// Writes for a time.
fn write(mut writer: Writer, time: Duration) -> Result<AllWritten> {
    let mut written = AllWritten::default();
    let end = Instant::now() + time;
    for chat in (0..CHATS).cycle() {
        if Instant::now() >= end {
            break;
        }
        let id = writer.write(chat)?.id;
        written.all.push(id);
        written.of_chat[chat].push(id);
        thread::sleep(PAUSE);
    }
    writer.end()?;
    Ok(written)
}

/// Whoever has asked something.
#[derive(Clone, Copy)]
enum Asker {
    Waiter(usize),
    Reader(usize),
}

struct Waiter {
    /// One chat, or all.
    chat: Option<usize>,
    cursor: Value,
    heard: Vec<i64>,
}

impl Waiter {
    fn expected<'a>(&self, written: &'a AllWritten) -> &'a [i64] {
        match self.chat {
            Some(chat) => &written.of_chat[chat],
            None => &written.all,
        }
    }
}

/// All who ask, on one connection.
struct Crowd {
    bridge: Bridge,
    waiters: Vec<Waiter>,
    asked: HashMap<u64, Asker>,
    errors: u32,
    reads: u32,
}

impl Crowd {
    /// Has everybody wait and read.
    fn gather(mut bridge: Bridge) -> Result<Self> {
        let (_, state) = bridge.call("events_poll", &json!({}))?;
        let waiter = |number: usize| Waiter {
            chat: (!number.is_multiple_of(2)).then_some(number / 2 % CHATS),
            cursor: state["next_cursor"].clone(),
            heard: Vec::new(),
        };
        let mut crowd = Self {
            bridge,
            waiters: (0..WAITERS).map(waiter).collect(),
            asked: HashMap::new(),
            errors: 0,
            reads: 0,
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
            match self.take()? {
                Asker::Waiter(number) => self.wait(number)?,
                Asker::Reader(number) => self.read(number + 1)?,
            }
        }
        Ok(())
    }

    /// Nobody reads any more; whoever has not heard everything waits on.
    fn finish(&mut self, written: &AllWritten) -> Result<()> {
        while self.errors == 0
            && self
                .waiters
                .iter()
                .any(|waiter| waiter.heard.len() < waiter.expected(written).len())
        {
            if let Asker::Waiter(number) = self.take()? {
                self.wait(number)?;
            }
        }
        Ok(())
    }

    /// Takes the next answer, and returns whose it is.
    fn take(&mut self) -> Result<Asker> {
        let answer = self.bridge.next_answer()?;
        let asker = self.asked.remove(&answer.id).context("nobody asked")?;
        if answer.is_refusal() {
            self.errors += 1;
            return Ok(asker);
        }
        match asker {
            Asker::Reader(_) => self.reads += 1,
            Asker::Waiter(number) => {
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
        }
        Ok(asker)
    }

    fn wait(&mut self, number: usize) -> Result<()> {
        let waiter = &self.waiters[number];
        let key = waiter.chat.map(filled::session_key);
        let arguments = json!({
            "after_cursor": waiter.cursor,
            "session_key": key.as_ref().map(hermes_store::SessionKey::as_str),
            "timeout_ms": PATIENCE_MS,
        });
        let id = self.bridge.ask("events_wait", &arguments)?;
        self.asked.insert(id, Asker::Waiter(number));
        Ok(())
    }

    fn read(&mut self, number: usize) -> Result<()> {
        let key = filled::session_key(number % CHATS);
        let id = match number % 3 {
            0 => self.bridge.ask("conversations_list", &json!({}))?,
            1 => self.bridge.ask("events_poll", &json!({}))?,
            _ => self
                .bridge
                .ask("messages_read", &json!({"session_key": key.as_str()}))?,
        };
        self.asked.insert(id, Asker::Reader(number));
        Ok(())
    }

    /// How many events all waiters have heard in the right order, and how many there were to be heard.
    fn heard(&self, written: &AllWritten) -> (u32, u32) {
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
