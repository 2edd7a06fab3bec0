//! Records panics of any thread: a client sees at most a closed connection.

use std::{
    panic,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
};

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The message of the one expected panic.
const ON_PURPOSE: &str = "a panic on purpose";

fn heard() -> MutexGuard<'static, Vec<String>> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records every panic from now on.
pub(super) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            heard().push(panic.to_string());
            before(panic);
        }));
    });
}

#[track_caller]
pub(super) fn assert_none() {
    let heard: Vec<String> = heard().clone();
    let first = heard.iter().find(|panic| !panic.contains(ON_PURPOSE));
    assert_eq!(first, None, "something panicked");
}

#[test]
fn a_panic_of_another_thread_is_heard() {
    listen();
    let ended = thread::spawn(|| panic!("{ON_PURPOSE}")).join();
    assert!(ended.is_err());
    assert!(heard().iter().any(|panic| panic.contains(ON_PURPOSE)));
}
