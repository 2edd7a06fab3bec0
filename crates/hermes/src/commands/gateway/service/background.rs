//! A gateway in the background, where no service manager runs it.

use std::{
    fs::{self, OpenOptions},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use hermes_config::{Home, private_file::FileOwner, private_file::create_private_dirs};
use hermes_gateway::instance;

use super::super::{POLL_INTERVAL, START_TIMEOUT};
use crate::{context::Context, failure::Failure};

/// How much of the log is shown when it did not start.
const SHOWN_LINES: usize = 5;

/// What the gateway prints when nobody sees it.
pub(super) fn log_file(home: &Home) -> PathBuf {
    home.path().join("logs").join("gateway.log")
}

/// Starts it and waits until it runs. Returns its process.
pub(super) fn start(context: &Context) -> Result<u32, Failure> {
    let path = log_file(&context.home);
    if let Some(directory) = path.parent() {
        create_private_dirs(directory, FileOwner::Writer)?;
    }
    let log = OpenOptions::new().create(true).append(true).open(&path)?;
    let begin = log.metadata().map_or(0, |metadata| metadata.len());
    let mut child = Command::new(std::env::current_exe()?)
        .args(["gateway", "run", "--detached"])
        .env("HERMES_HOME", std::path::absolute(context.home.path())?)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    wait_for_start(&context.home, &mut child, &path, begin)?;
    context.output.note(format!(
        "The gateway runs in the background (process {}); it prints to `{}`.",
        child.id(),
        path.display()
    ));
    context.output.note(
        "It is not a service: nothing starts it again after a failure. `hermes gateway install` makes it one, where there is systemd or launchd.",
    );
    Ok(child.id())
}

fn wait_for_start(
    home: &Home,
    child: &mut Child,
    log: &std::path::Path,
    begin: u64,
) -> Result<(), Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            let text = fs::read(log).unwrap_or_default();
            let begin = usize::try_from(begin).unwrap_or_default().min(text.len());
            let said = String::from_utf8_lossy(&text[begin..]).into_owned();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
            return Err(Failure::failed(format!(
                "the gateway ended ({status}):\n{last}"
            )));
        }
        let state = instance::read_last_state(home);
        let is_started = state.is_some_and(|state| {
            state.process.pid == child.id() && state.gateway_state.is_started()
        });
        if is_started {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Failure::failed(format!(
                "the gateway (process {}) has not started in time",
                child.id()
            ))
            .hint(format!("`{}` has what it printed", log.display())));
        }
        thread::sleep(POLL_INTERVAL);
    }
}
