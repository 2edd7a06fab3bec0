//! `hermes gateway status`: whether it runs, and how each platform account is.

use hermes_gateway::instance::{self, StateFile};
use serde_json::{Value, json};

use super::{
    accounts::{AccountLine, account_lines},
    service::{self, InstalledService},
};
use crate::{
    commands::state::{pluralize, unix_now},
    context::Context,
    failure::Failure,
    output::{Table, Tone, printable},
};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let running = instance::find_running(&context.home)?;
    let state = instance::read_last_state(&context.home);
    let settings = context.written_settings()?;
    let output = context.output;
    // What a process left behind that is gone says nothing about this one.
    let own = state
        .as_ref()
        .filter(|state| running.as_ref() == Some(&state.process));
    let accounts = if running.is_some() && own.is_none() {
        Vec::new()
    } else {
        account_lines(&settings.gateway, own)
    };
    match &running {
        None => {
            output.line("No gateway of this home is running.");
            let reason = state.as_ref().and_then(|state| state.exit_reason.as_ref());
            if let Some(reason) = reason {
                output.line(format!("The last one ended: {}", printable(reason)));
            }
        }
        Some(process) => {
            let word = own.map_or("running", |state| state.gateway_state.as_str());
            output.line(format!("The gateway is {word} (process {}).", process.pid));
            if let Some(state) = own {
                print_runs(context, state);
            }
        }
    }
    let installed = service::find_installed(&context.home);
    print_service(context, installed.as_ref());
    print_accounts(context, &accounts);
    let mut object = state
        .as_ref()
        .map_or_else(|| json!({}), |state| json!(state));
    object["running"] = json!(running.is_some());
    object["pid"] = running
        .as_ref()
        .map_or(Value::Null, |process| json!(process.pid));
    object["accounts"] = json!(accounts);
    object["service"] = installed.map_or(Value::Null, |service| json!(service));
    output.json(object);
    Ok(())
}

fn print_runs(context: &Context, state: &StateFile) {
    let runs = pluralize(state.active_agents, "run");
    context.output.line(format!("{runs} under way"));
}

fn print_service(context: &Context, installed: Option<&InstalledService>) {
    let Some(service) = installed else {
        return;
    };
    let whose = if service.is_ours {
        ""
    } else {
        ", written by another program"
    };
    context.output.line(format!(
        "service: {} ({}{whose})",
        service.name,
        service.state.as_deref().unwrap_or("state unknown")
    ));
}

/// The accounts as a table, and what to do about those that do not work.
pub(super) fn print_accounts(context: &Context, accounts: &[AccountLine]) {
    let output = context.output;
    if accounts.is_empty() {
        output.line("No messaging platform has a token; `hermes gateway setup` sets one up.");
        return;
    }
    let now = unix_now();
    let mut table = Table::new(&["PLATFORM", "STATE", "LAST HEARD"]);
    for account in accounts {
        table.row([
            (account.label.clone(), Tone::Plain),
            (account.state.replace('_', " "), account.tone()),
            (account.last_heard(now), Tone::Plain),
        ]);
    }
    output.line(format!("\n{}", table.render(output).trim_end()));
    print_problems(context, accounts);
}

/// Each problem once, with all accounts that have it, and what to do about it.
fn print_problems(context: &Context, accounts: &[AccountLine]) {
    let mut problems: Vec<(&str, Option<&str>, Vec<&str>)> = Vec::new();
    for account in accounts {
        let Some(problem) = account.problem.as_deref() else {
            continue;
        };
        let fix = account.fix.as_deref();
        let known = problems
            .iter_mut()
            .find(|it| (it.0, it.1) == (problem, fix));
        match known {
            Some((.., labels)) => labels.push(&account.label),
            None => problems.push((problem, fix, vec![&account.label])),
        }
    }
    for (problem, fix, labels) in problems {
        let text = format!("\n{}: {}", labels.join(", "), printable(problem));
        context.output.line(text);
        if let Some(fix) = fix {
            context.output.line(format!("    {fix}"));
        }
    }
}
