//! Random input for `HERMES_FUZZ_SECONDS` (2 by default): no panics, no internal errors, and only documented statuses.
//!
//! The input is the same each time, so that a change is judged by itself. `scripts/fuzz` looks for what is new: it gives
//! each run another `HERMES_FUZZ_SEED`. Each test prints its seed, which repeats it.

mod bytes;
mod faults;
mod files;
mod headers;
mod operations;
mod random_input;

use std::{
    panic,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::fuzz::random_input::RandomInput;

/// The seed, if no other one is given.
const USUAL_SEED: u64 = 1_794_708_062_467;

struct FuzzRun {
    random: RandomInput,
    end: Instant,
    rounds: u64,
}

impl FuzzRun {
    fn start(what: &str) -> Self {
        install_panic_hook();
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let seed = number("HERMES_FUZZ_SEED").unwrap_or(USUAL_SEED);
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
        assert_no_panics();
        self.rounds += 1;
        Instant::now() < self.end
    }
}

impl Drop for FuzzRun {
    fn drop(&mut self) {
        println!("{} rounds", self.rounds);
    }
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The message of the one expected panic.
const EXPECTED_PANIC: &str = "a panic on purpose";

fn lock_panics() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records every panic of any thread from now on: a client sees at most a closed connection.
fn install_panic_hook() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            lock_panics().push(panic.to_string());
            before(panic);
        }));
    });
}

#[track_caller]
fn assert_no_panics() {
    let heard: Vec<String> = lock_panics().clone();
    let first = heard.iter().find(|panic| !panic.contains(EXPECTED_PANIC));
    assert_eq!(first, None, "something panicked");
}

#[test]
fn a_panic_of_another_thread_is_heard() {
    install_panic_hook();
    let ended = thread::spawn(|| panic!("{EXPECTED_PANIC}")).join();
    assert!(ended.is_err());
    assert!(
        lock_panics()
            .iter()
            .any(|panic| panic.contains(EXPECTED_PANIC))
    );
}
