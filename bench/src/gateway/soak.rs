//! A hundred thousand messages: memory at the end against that after the first ten thousand.

use std::{fs, path::Path, time::Duration};

use anyhow::Result;
use serde_json::json;

use super::{
    gateway_process::GatewayProcess,
    latency::{API_KEY, home_with_stub},
    stub::{ModelPace, PlatformStub, TOKEN},
};
use crate::{
    environment::{Effort, Programs},
    report::{Quantity, Report, ReportRow, Target},
};

const GROWTH: Target = Target::Ratio(1.05);
const TIMEOUT: Duration = Duration::from_mins(1);
/// Messages in flight, each of another person.
const WINDOW: u64 = 50;
/// Each person writes this often before somebody else takes the place. Next time, they begin a new conversation: how much one
/// takes grows with its length, which is another question.
const PER_PERSON: u64 = 20;
/// Groups of people that take turns. All of them have written when the first ten thousand messages are answered: what is
/// known of a chat stays and does not count as growth.
const GROUPS: u64 = 10;

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (all, warm) = match effort {
        Effort::Full => (100_000_u64, 10_000_u64),
        Effort::Quick => (2_000, 500),
    };
    let pace = ModelPace {
        pieces: 2,
        pause: Duration::ZERO,
    };
    let stub = PlatformStub::start(pace)?;
    let port = hermes_testkit::ReservedPort::reserve()?;
    let home = home_with_stub(&stub, port.number(), &json!({}));
    let gateway = GatewayProcess::start(programs, home.path(), port.number())?;
    let (mut after_warm, mut doubled) = (0, 0_u32);
    for first in (0..all).step_by(usize::try_from(WINDOW)?) {
        let is_their_turn = first % (WINDOW * PER_PERSON) == 0;
        for number in first..first + WINDOW {
            let group = first / (WINDOW * PER_PERSON) % GROUPS;
            let person = 1_000 + group * WINDOW + number % WINDOW;
            if is_their_turn {
                stub.say(person, "/new");
            }
            stub.write(person, number);
        }
        let is_complete =
            |stub: &PlatformStub| (first..first + WINDOW).all(|n| stub.times(n).answers > 0);
        stub.wait_until(TIMEOUT, "a window of answers", is_complete)?;
        let twice = (first..first + WINDOW).filter(|number| stub.times(*number).answers > 1);
        doubled += u32::try_from(twice.count())?;
        stub.forget(first + WINDOW);
        if first + WINDOW == warm {
            after_warm = gateway.memory("VmRSS")?;
        }
    }
    report.add(ReportRow::new(
        format!("memory after {all} messages, against {warm}"),
        Quantity::Memory(gateway.memory("VmRSS")?),
        Some(Quantity::Memory(after_warm)),
        GROWTH,
    ));
    report.add(ReportRow::new(
        "messages answered twice",
        Quantity::Count(doubled),
        Some(Quantity::Count(0)),
        Target::Equal,
    ));
    gateway.stop()?;
    report.add(ReportRow::new(
        "log files with a token",
        Quantity::Count(count_leaks(&home.path().join("logs"))?),
        Some(Quantity::Count(0)),
        Target::Equal,
    ));
    Ok(())
}

/// The files below a directory that contain the token of the bot or the key of the API.
fn count_leaks(directory: &Path) -> Result<u32> {
    let mut leaks = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            leaks += count_leaks(&path)?;
            continue;
        }
        let text = fs::read(&path)?;
        let has = |secret: &str| memchr::memmem::find(&text, secret.as_bytes()).is_some();
        leaks += u32::from(has(TOKEN) || has(API_KEY));
    }
    Ok(leaks)
}
