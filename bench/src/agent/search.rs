//! Searching a million messages for a term that one in a hundred has.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermes_config::Home;
use hermes_store::{Access, NewMessage, NewSession, Role, Search, SessionId, Store};
use hermes_testkit::TemporaryHome;

use crate::{
    report::{Quantity, Report, Row, Target},
    samples::Samples,
    scene::{Effort, Flavour},
};

const LIMIT: Duration = Duration::from_millis(50);
const SESSIONS: usize = 1_000;
const WORDS: usize = 30;
/// One in so many has the term.
const EVERY: usize = 100;

pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let messages = match effort {
        Effort::Full => 1_000_000,
        Effort::Quick => 20_000,
    };
    let times = Flavour::OneThread.run(run(messages, effort.times(100)))?;
    report.add(Row::time(
        format!("search of {messages} messages, first 20"),
        &times,
        Target::Below(Quantity::Time(LIMIT)),
    ));
    Ok(())
}

async fn run(messages: usize, times: usize) -> Result<Samples> {
    let directory = TemporaryHome::new();
    let home = Home::at(directory.path());
    let store = Store::open(&home, Access::ReadWrite).await?;
    let of_each = messages / SESSIONS;
    for number in 0..SESSIONS {
        let session = SessionId::parse(&format!("session{number:04}"))?;
        store
            .create_session(&NewSession::new(session.clone(), "cli"))
            .await?;
        let rows: Vec<NewMessage> = (0..of_each)
            .map(|at| NewMessage::new(Role::User, text(number * of_each + at)))
            .collect();
        store.append_all(&session, &rows).await?;
    }
    store.close().await;
    // Opened anew, as a command would find it.
    let store = Store::open(&home, Access::ReadOnly).await?;
    let mut samples = Samples::default();
    for round in 0..=times {
        let search = Search::new("needle");
        let began = Instant::now();
        let hits = store.search(&search).await?;
        let taken = began.elapsed();
        ensure!(hits.len() == 20, "{} messages were found", hits.len());
        if round > 0 {
            samples.push(taken);
        }
    }
    store.close().await;
    Ok(samples)
}

/// Words as a conversation has them: a few often, many seldom.
fn text(number: usize) -> String {
    let mut state = number as u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut words: Vec<String> = (0..WORDS)
        .map(|_| {
            let rank = random() % 20_000;
            format!("word{}", rank * rank / 20_000)
        })
        .collect();
    if number.is_multiple_of(EVERY) {
        words[7] = "needle".into();
    }
    words.join(" ")
}
