//! Opens a page in the user's browser.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// An opener that still runs after this time has found a browser.
const OPENER_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens an address. Returns whether that seems to have worked; without a screen of the user's own it is not tried.
pub(crate) fn open_url(url: &str) -> bool {
    if !has_screen() {
        return false;
    }
    // The address may be untrusted, and openers accept more than addresses.
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return false;
    }
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let started = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else {
        return false;
    };
    let began = Instant::now();
    while began.elapsed() < OPENER_TIMEOUT {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return false,
        }
    }
    true
}

/// Whether the user has a screen of their own here.
pub(crate) fn has_screen() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("SSH_CONNECTION") || is_set("SSH_TTY") {
        return false;
    }
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}
