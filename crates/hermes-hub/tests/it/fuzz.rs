//! Random input for as long as `HERMES_FUZZ_SECONDS` says (2 if it says nothing): nothing panics, nothing is a fault of
//! the Hub, and every status is a documented one.
//!
//! Each test prints its seed; `HERMES_FUZZ_SEED` repeats it.

mod bytes;
mod chance;
mod faults;
mod files;
mod headers;
mod operations;
mod panics;

use std::time::{Duration, Instant};

use self::chance::Chance;

/// For how long, and from which seed.
struct Fuzzing {
    chance: Chance,
    end: Instant,
    rounds: u64,
}

impl Fuzzing {
    fn begin(what: &str) -> Self {
        panics::listen();
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let seed = number("HERMES_FUZZ_SEED").unwrap_or_else(|| {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap()
        });
        let seconds = number("HERMES_FUZZ_SECONDS").unwrap_or(2);
        println!("{what}: HERMES_FUZZ_SEED={seed}");
        Self {
            chance: Chance::new(seed),
            end: Instant::now() + Duration::from_secs(seconds),
            rounds: 0,
        }
    }

    /// Whether there is time for another round. There is none after a panic, wherever that was.
    fn goes_on(&mut self) -> bool {
        panics::assert_none();
        self.rounds += 1;
        Instant::now() < self.end
    }
}

impl Drop for Fuzzing {
    fn drop(&mut self) {
        println!("{} rounds", self.rounds);
    }
}
