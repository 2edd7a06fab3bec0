//! `hermes tenant env …`: variables of a tenant's environment, whose values go in and never come out.

use std::io::{self, IsTerminal as _};

use hermes_config::Secret;

use super::tenant_call;
use crate::{
    cli::TenantEnvCommand,
    commands::hub::client::{Column, HubClient, call},
    failure::Failure,
    question::Questions,
};

const COLUMNS: &[Column] = &[
    ("NAME", "/name"),
    ("ENDS IN", "/last4"),
    ("UPDATED", "/updatedAt"),
];

pub(super) fn run(hub: &HubClient<'_>, command: TenantEnvCommand) -> Result<(), Failure> {
    match command {
        TenantEnvCommand::List { tenant } => {
            let answer = hub.call(&tenant_call("list_env", &tenant))?;
            hub.show_list(&answer, "env", COLUMNS, "There are no variables.");
        }
        TenantEnvCommand::Set { tenant, name } => {
            let value = read_secret(&format!("Value of {name}"))?;
            let call = tenant_call("set_env", &tenant).with("name", name.clone());
            hub.call(&call.with("value", value.expose().as_str()))?;
            hub.output().note(format!("Set `{name}`."));
        }
        TenantEnvCommand::Unset { tenant, name, sure } => {
            hub.confirm(sure.yes, &format!("Remove `{name}` from `{tenant}`?"))?;
            hub.call(&tenant_call("unset_env", &tenant).with("name", name.clone()))?;
            hub.output().note(format!("Removed `{name}`."));
        }
    }
    Ok(())
}

/// A secret: what stdin has, or what a person types unseen.
pub(in crate::commands::hub) fn read_secret(what: &str) -> Result<Secret<String>, Failure> {
    if io::stdin().is_terminal() {
        return Questions::new(false).hidden(what, "give it on stdin");
    }
    let mut text = call::read_stdin()?;
    if text.ends_with('\n') {
        text.pop();
    }
    if text.is_empty() {
        return Err(
            Failure::usage("stdin is empty, and the value comes from there")
                .hint("`hermes tenant env unset` removes a variable"),
        );
    }
    Ok(Secret::new(text))
}
