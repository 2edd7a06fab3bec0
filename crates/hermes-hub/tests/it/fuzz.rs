//! Random input for `HERMES_FUZZ_SECONDS` (2 by default): no panics, no internal errors, and only documented statuses.
//!
//! Each test prints its seed; `HERMES_FUZZ_SEED` repeats it.

mod bytes;
mod faults;
mod files;
mod headers;
mod operations;
mod panics;
mod random_input;

use std::time::{Duration, Instant};

use crate::fuzz::random_input::RandomInput;

struct FuzzRun {
    random: RandomInput,
    end: Instant,
    rounds: u64,
}

impl FuzzRun {
    fn start(what: &str) -> Self {
        panics::install_hook();
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let seed = number("HERMES_FUZZ_SEED").unwrap_or_else(|| {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap()
        });
        let seconds = number("HERMES_FUZZ_SECONDS").unwrap_or(2);
        println!("{what}: HERMES_FUZZ_SEED={seed}");
        Self {
            random: RandomInput::new(seed),
            end: Instant::now() + Duration::from_secs(seconds),
            rounds: 0,
        }
    }

    /// Whether there is time for another round. False after a panic in any thread.
    fn next_round(&mut self) -> bool {
        panics::assert_none();
        self.rounds += 1;
        Instant::now() < self.end
    }
}

impl Drop for FuzzRun {
    fn drop(&mut self) {
        println!("{} rounds", self.rounds);
    }
}
