//! Searching a million messages for a term that one in a hundred has.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermes_config::Home;
use hermes_store::{Access, SearchQuery, Store};
use hermes_testkit::TemporaryHome;

use crate::{
    environment::{Effort, RuntimeFlavour},
    filled_store,
    filled_store::StoreSize,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const LIMIT: Duration = Duration::from_millis(50);
const SESSIONS: usize = 1_000;

pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let messages = match effort {
        Effort::Full => 1_000_000,
        Effort::Quick => 20_000,
    };
    let times = RuntimeFlavour::OneThread.run(measure_search(messages, effort.times(100)))?;
    report.add(ReportRow::time(
        format!("search of {messages} messages, first 20"),
        &times,
        Target::Below(Quantity::Time(LIMIT)),
    ));
    Ok(())
}

async fn measure_search(messages: usize, times: usize) -> Result<Samples> {
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
