//! The bridge: `hermes mcp serve` as a process of its own, over a store of a million messages and over a small one.

use std::path::Path;

use anyhow::Result;
use hermes_config::Home;
use hermes_testkit::TemporaryHome;

use crate::{
    filled::{self, Size},
    note,
    report::Report,
    scene::{Effort, Flavour, Programs},
};

pub(crate) mod writer;

mod calls;
mod client;
mod crowd;
mod idle;
mod start;
mod wake;

const SMALL: Size = Size {
    chats: 10,
    messages: 10_000,
};

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    note("filling the stores")?;
    let large = Place::fill(match effort {
        Effort::Full => Size {
            chats: 1_000,
            messages: 1_000_000,
        },
        Effort::Quick => Size {
            chats: 50,
            messages: 20_000,
        },
    })?;
    let small = Place::fill(SMALL)?;
    note("the bridge: its start")?;
    start::measure(programs, &large, effort, report)?;
    note("the bridge at rest")?;
    idle::measure(programs, &large, effort, report)?;
    note("calls to the bridge")?;
    calls::measure(programs, [&large, &small], effort, report)?;
    note("waking who waits")?;
    wake::measure(programs, &large, effort, report)?;
    note("many at once")?;
    crowd::measure(programs, &large, effort, report)
}

/// A home with a filled store.
struct Place {
    directory: TemporaryHome,
    size: Size,
}

impl Place {
    fn fill(size: Size) -> Result<Self> {
        let directory = TemporaryHome::new();
        let home = Home::at(directory.path());
        Flavour::OneThread.run(async move { filled::fill(&home, size).await })?;
        Ok(Self { directory, size })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}
