//! Opens a page in the user's browser; one that a server wants visited, only with the person's consent.

use std::{
    fmt::Write as _,
    io,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use hermes_agent::server_requests::elicitation::{ElicitationAnswer, LinkRequest};

use super::{form::read_word, write_message};

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

/// Shows the address and asks whether to open it.
pub(crate) fn ask_link(request: &LinkRequest) -> io::Result<ElicitationAnswer<()>> {
    write_message(&heading(request))?;
    match read_word("Open it in the browser? [y/N] ")?.as_deref() {
        None => Ok(ElicitationAnswer::Cancelled),
        Some("y" | "yes") => {
            if !open_url(&request.url) {
                write_message("No browser could be started; open the address above yourself.\n")?;
            }
            Ok(ElicitationAnswer::Accepted(()))
        }
        Some(_) => Ok(ElicitationAnswer::Declined),
    }
}

fn heading(request: &LinkRequest) -> String {
    let mut text = format!(
        "\nThe MCP server `{}` wants you to visit a page:\n",
        request.server
    );
    for line in request.message.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text + &format!("  {}\nIt leads to {}.\n", request.url, request.host)
}
