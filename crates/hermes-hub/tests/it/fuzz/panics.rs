//! Records panics of any thread: a client sees at most a closed connection.

use std::{
    panic,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
};

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The message of the one expected panic.
const EXPECTED_PANIC: &str = "a panic on purpose";

fn lock_panics() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records every panic from now on.
pub(super) fn install_hook() {
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
pub(super) fn assert_none() {
    let heard: Vec<String> = lock_panics().clone();
    let first = heard.iter().find(|panic| !panic.contains(EXPECTED_PANIC));
    assert_eq!(first, None, "something panicked");
}

#[test]
fn a_panic_of_another_thread_is_heard() {
    install_hook();
    let ended = thread::spawn(|| panic!("{EXPECTED_PANIC}")).join();
    assert!(ended.is_err());
    assert!(
        lock_panics()
            .iter()
            .any(|panic| panic.contains(EXPECTED_PANIC))
    );
}
