//! The bridge: `hermes mcp serve` as a process of its own, over a store of a million messages and over a small one.

use std::path::Path;

use anyhow::Result;
use hermes_config::Home;
use hermes_testkit::TemporaryHome;

use crate::{
    environment::{Effort, Programs, RuntimeFlavour},
    filled_store,
    filled_store::StoreSize,
    report::Report,
    report_progress,
};

mod concurrent;
pub(crate) mod writer;

mod calls;
mod client;
mod start;
mod wake;

const SMALL: StoreSize = StoreSize {
    chats: 10,
    messages: 10_000,
};

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    report_progress("filling the stores")?;
    let large = FilledHome::fill(match effort {
        Effort::Full => StoreSize {
            chats: 1_000,
            messages: 1_000_000,
        },
        Effort::Quick => StoreSize {
            chats: 50,
            messages: 20_000,
        },
    })?;
    let small = FilledHome::fill(SMALL)?;
    report_progress("the bridge: its start")?;
    start::measure(programs, &large, effort, report)?;
    report_progress("the bridge at rest")?;
    start::measure_idle(programs, &large, effort, report)?;
    report_progress("calls to the bridge")?;
    calls::measure(programs, [&large, &small], effort, report)?;
    report_progress("waking who waits")?;
    wake::measure(programs, &large, effort, report)?;
    report_progress("many at once")?;
    crate::bridge::concurrent::measure(programs, &large, effort, report)
}

/// A home with a filled store.
struct FilledHome {
    directory: TemporaryHome,
    size: StoreSize,
}

impl FilledHome {
    fn fill(size: StoreSize) -> Result<Self> {
        let directory = TemporaryHome::new();
        let home = Home::at(directory.path());
        RuntimeFlavour::OneThread
            .run(async move { filled_store::fill_store(&home, size).await })?;
        Ok(Self { directory, size })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}
