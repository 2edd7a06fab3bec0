//! `hermes gateway …`: the background process of a home, as a command and as a service.

use std::{
    thread,
    time::{Duration, Instant},
};

use hermes_config::Home;
use hermes_gateway::instance::{self, PidRecord};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    cli::{GatewayArgs, GatewayCommand},
    context::Context,
    failure::Failure,
    logging,
};

pub(super) mod accounts;
mod api_server;
mod notify;
mod run;
mod service;
pub(super) mod setup;
mod status;

pub(super) use crate::commands::gateway::api_server::ApiServerPlan;
pub(super) use run::working_directory;

/// Extra time for servers and stores to close after runs have ended.
const STOP_MARGIN: Duration = Duration::from_secs(30);
/// How long a start in the background may take.
const START_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn run(context: &Context, args: GatewayArgs) -> Result<(), Failure> {
    let command = match args.command {
        None => return run::run(context, &args.run),
        Some(GatewayCommand::Run(late)) => {
            let mut args = args.run;
            args.verbose += late.verbose;
            args.quiet |= late.quiet;
            args.replace |= late.replace;
            args.detached |= late.detached;
            return run::run(context, &args);
        }
        Some(command) => command,
    };
    logging::log_to_stderr_if_requested()?;
    match command {
        GatewayCommand::Run(_) => Ok(()),
        GatewayCommand::Status => status::run(context),
        GatewayCommand::Start => service::start(context),
        GatewayCommand::Stop => service::stop(context),
        GatewayCommand::Restart => service::restart(context),
        GatewayCommand::Install(args) => service::install(context, &args),
        GatewayCommand::Uninstall => service::uninstall(context),
        GatewayCommand::Setup(args) => setup::run(context, &args),
    }
}

/// Waits until a gateway of this home has started. Returns its process.
fn wait_until_running(home: &Home) -> Result<u32, Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let state = instance::read_last_state(home);
        if let Some(process) = instance::find_running(home)?
            && state
                .is_some_and(|state| state.process == process && state.gateway_state.is_started())
        {
            return Ok(process.pid);
        }
        if Instant::now() >= deadline {
            return Err(Failure::failed("the gateway has not started in time")
                .hint("`hermes logs hermes` shows what it did"));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Tells a gateway to stop and waits until it has.
fn stop_gateway(home: &Home, process: &PidRecord, drain: Duration) -> Result<(), Failure> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| process.is_running()) else {
        return Err(Failure::failed(
            "a gateway of this home is running, but `gateway.pid` does not say which process it is",
        )
        .hint("stop it where it was started"));
    };
    kill_process(pid, Signal::TERM).map_err(|error| {
        Failure::failed(format!(
            "process {} cannot be signalled: {error}",
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
