//! `hermes gateway …`: what stays and works for a home, its `status` and its `stop`.

use std::{
    thread,
    time::{Duration, Instant},
};

use hermes_config::Home;
use hermes_gateway::instance::{self, PidRecord, StateFile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    cli::{GatewayArgs, GatewayCommand},
    commands::state::pluralize,
    context::Context,
    failure::{Failure, FailureKind},
    logging,
    output::printable,
};

mod api_server;
mod run;

pub(super) use crate::commands::gateway::api_server::ApiServerPlan;
pub(super) use run::working_directory;

/// Extra time for servers and stores to close after runs have ended.
const STOP_MARGIN: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn run(context: &Context, args: GatewayArgs) -> Result<(), Failure> {
    match args.command {
        Some(GatewayCommand::Status) => {
            logging::log_to_stderr_if_requested()?;
            run_status(context)
        }
        Some(GatewayCommand::Stop) => {
            logging::log_to_stderr_if_requested()?;
            run_stop(context)
        }
        Some(GatewayCommand::Run(late)) => {
            let mut args = args.run;
            args.verbose += late.verbose;
            args.quiet |= late.quiet;
            args.replace |= late.replace;
            run::run(context, &args)
        }
        None => run::run(context, &args.run),
    }
}

fn run_status(context: &Context) -> Result<(), Failure> {
    let running = instance::find_running(&context.home)?;
    let state = instance::read_last_state(&context.home);
    let output = context.output;
    match &running {
        None => {
            output.line("No gateway of this home is running.");
            let reason = state.as_ref().and_then(|state| state.exit_reason.as_ref());
            if let Some(reason) = reason {
                output.line(format!("The last one ended: {}", printable(reason)));
            }
        }
        Some(process) => {
            // What a process left behind that is gone says nothing about this one.
            let own = state.as_ref().filter(|state| state.process == *process);
            let word = own.map_or("running", |state| state.gateway_state.as_str());
            output.line(format!("The gateway is {word} (process {}).", process.pid));
            if let Some(state) = own {
                print_state(context, state);
            }
        }
    }
    let mut object = state.map_or_else(|| json!({}), |state| json!(state));
    object["running"] = json!(running.is_some());
    if let Some(process) = &running {
        object["pid"] = json!(process.pid);
    } else {
        object["pid"] = Value::Null;
    }
    output.json(object);
    Ok(())
}

fn print_state(context: &Context, state: &StateFile) {
    let output = context.output;
    output.line(format!(
        "{} under way",
        pluralize(state.active_agents, "run")
    ));
    for (name, platform) in &state.platforms {
        let problem = platform.error_message.as_deref();
        let problem = problem.map_or_else(String::new, |it| format!(": {}", printable(it)));
        output.line(format!("{name}: {}{problem}", platform.state));
    }
}

fn run_stop(context: &Context) -> Result<(), Failure> {
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
