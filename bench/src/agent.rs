//! The agent: a question from start to end, a turn of many calls, the store behind it, and the first token.

mod question;
mod token;
mod turn;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermes_config::Home;
use hermes_store::{Access, SearchQuery, Store};
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use crate::{
    environment::{Effort, Programs, RuntimeFlavour},
    filled_store::{self, StoreSize},
    report::{Quantity, Report, ReportRow, Target},
    report_progress,
    samples::Samples,
};

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    report_progress("a question")?;
    question::measure(programs, effort, report)?;
    report_progress("the first token")?;
    token::measure(programs, effort, report)?;
    report_progress("a turn")?;
    turn::measure(effort, report)?;
    report_progress("search, after filling a store")?;
    measure_search(effort, report)
}

/// The `model` of a configuration that asks this address.
fn model_entry(base_url: &str) -> Value {
    json!({"default": "bench", "provider": "custom", "base_url": base_url})
}

/// What a search may take.
const SEARCH_LIMIT: Duration = Duration::from_millis(50);
const SESSIONS: usize = 1_000;

/// Searches a million messages for a term that one in a hundred has.
fn measure_search(effort: Effort, report: &mut Report) -> Result<()> {
    let messages = match effort {
        Effort::Full => 1_000_000,
        Effort::Quick => 20_000,
    };
    let times = RuntimeFlavour::OneThread.run(time_searches(messages, effort.times(100)))?;
    report.add(ReportRow::time(
        format!("search of {messages} messages, first 20"),
        &times,
        Target::Below(Quantity::Time(SEARCH_LIMIT)),
    ));
    Ok(())
}

async fn time_searches(messages: usize, times: usize) -> Result<Samples> {
    let directory = TemporaryHome::new();
    let home = Home::at(directory.path());
    let size = StoreSize {
        chats: SESSIONS,
        messages,
    };
    filled_store::fill_store(&home, size).await?;
    // Opened anew, as a command would find it.
    let store = Store::open(&home, Access::ReadOnly).await?;
    let mut samples = Samples::default();
    for round in 0..=times {
        let search = SearchQuery::new("needle");
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
