//! `hermes gateway stop`, and making room for another one.

use std::{
    thread,
    time::{Duration, Instant},
};

use hermes_config::Home;
use hermes_gateway::instance::{self, PidRecord};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    context::Context,
    failure::{Failure, FailureKind},
};

/// Extra time for servers and stores to close after runs have ended.
const STOP_MARGIN: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let Some(process) = instance::find_running(&context.home)? else {
        return Err(Failure::new(
            FailureKind::NotFound,
            "no gateway of this home is running",
        ));
    };
    let drain = context.written_settings()?.agent.restart_drain_timeout;
    stop_gateway(&context.home, &process, drain)?;
    context.output.note(format!(
        "The gateway (process {}) has stopped.",
        process.pid
    ));
    context.output.json(json!({"stopped": process.pid}));
    Ok(())
}

/// Tells a gateway to stop and waits until it has.
pub(super) fn stop_gateway(
    home: &Home,
    process: &PidRecord,
    drain: Duration,
) -> Result<(), Failure> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| process.is_running()) else {
        return Err(Failure::failed(
            "a gateway of this home is running, but `gateway.pid` does not say which process it is",
        )
        .hint("end it where it was started"));
    };
    kill_process(pid, Signal::TERM).map_err(|error| {
        Failure::failed(format!(
            "process {} cannot be told to stop: {error}",
            process.pid
        ))
    })?;
    let deadline = Instant::now() + drain + STOP_MARGIN;
    while instance::find_running(home)?.is_some() {
        if Instant::now() >= deadline {
            return Err(Failure::failed(format!(
                "the gateway (process {}) has not stopped in time",
                process.pid
            ))
            .hint(format!("`kill -9 {}` ends it at once", process.pid)));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
