//! `hermes gateway status`.

use hermes_gateway::instance::{self, StateFile};
use serde_json::{Value, json};

use crate::{commands::state::pluralize, context::Context, failure::Failure, output::printable};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
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
        let trouble = platform.error_message.as_deref();
        let trouble = trouble.map_or_else(String::new, |it| format!(": {}", printable(it)));
        output.line(format!("{name}: {}{trouble}", platform.state));
    }
}
