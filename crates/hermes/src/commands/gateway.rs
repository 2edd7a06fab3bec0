//! `hermes gateway …`: what stays and works for a home, and its `status`.

use hermes_gateway::instance::{self, StateFile};
use serde_json::{Value, json};

use crate::{
    cli::{GatewayArgs, GatewayCommand},
    commands::state::pluralize,
    context::Context,
    failure::Failure,
    logging,
    output::printable,
};

mod api_server;
mod run;
mod stop;

pub(super) use run::working_directory;

pub(super) use crate::commands::gateway::api_server::ApiServerPlan;

pub(super) fn run(context: &Context, args: GatewayArgs) -> Result<(), Failure> {
    match args.command {
        Some(GatewayCommand::Status) => {
            logging::log_to_stderr_if_requested()?;
            run_status(context)
        }
        Some(GatewayCommand::Stop) => {
            logging::log_to_stderr_if_requested()?;
            stop::run(context)
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
