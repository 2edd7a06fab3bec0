//! How a tenant takes as much as it is given: a hidden mode of this program, which that tenant's terminal starts.

use std::{
    fs, hint,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// What starts it; what is taken comes behind it.
pub(crate) const MODE: &str = "saturate";

/// The file in the working directory that tells that nothing is left to take.
pub(super) const READY_FILE: &str = "saturated";

const MEMORY: &str = "memory";
const PROCESSES: &str = "processes";
const PROCESSOR: &str = "processor";

const PAGE: usize = 4096;

/// Processes that are let go where there can be no more.
const RELEASED_PROCESSES: usize = 8;

/// What a tenant can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SaturatedResource {
    /// Nearly all of its memory.
    Memory { bytes: u64 },
    /// As many processes as it may have.
    Processes,
    /// More threads than there are processors.
    Processor,
}

impl SaturatedResource {
    /// The arguments that start it.
    pub(super) fn arguments(self) -> String {
        match self {
            Self::Memory { bytes } => format!("{MODE} {MEMORY} {bytes}"),
            Self::Processes => format!("{MODE} {PROCESSES}"),
            Self::Processor => format!("{MODE} {PROCESSOR}"),
        }
    }
}

/// The hidden mode: takes until somebody ends it.
pub(crate) fn run_saturation(arguments: &[&str]) -> Result<ExitCode> {
    match arguments {
        [MEMORY, bytes] => saturate_memory(bytes.parse().context("number of bytes")?),
        [PROCESSES] => saturate_processes(),
        [PROCESSOR] => saturate_processor(),
        _ => bail!("nobody can take {arguments:?}"),
    }
}

fn write_ready_file() -> Result<()> {
    fs::write(READY_FILE, "").context("the working directory cannot be written to")
}

/// Writes to all of it, and goes on writing to a part of it each time.
fn saturate_memory(bytes: usize) -> Result<ExitCode> {
    let mut taken = vec![1_u8; bytes];
    write_ready_file()?;
    loop {
        for page in taken.iter_mut().step_by(16 * PAGE) {
            *page = page.wrapping_add(1);
        }
        hint::black_box(&taken);
        thread::sleep(Duration::from_millis(20));
    }
}

/// Starts processes until there can be no more, lets a few go, and so on: whatever else the tenant has to start finds
/// little room, but some. The tenant's terminal ends all of them.
fn saturate_processes() -> Result<ExitCode> {
    let mut children: Vec<Child> = Vec::new();
    loop {
        let started = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Ok(child) = started {
            children.push(child);
            continue;
        }
        let few = children.len().saturating_sub(RELEASED_PROCESSES);
        for mut child in children.drain(few..) {
            child.kill()?;
            child.wait()?;
        }
        write_ready_file()?;
        thread::sleep(Duration::from_millis(50));
    }
}

fn saturate_processor() -> Result<ExitCode> {
    let threads = thread::available_parallelism().map_or(1, usize::from) * 2;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(spin);
        }
        write_ready_file()
    })?;
    Ok(ExitCode::SUCCESS)
}

fn spin() {
    loop {
        hint::spin_loop();
    }
}
