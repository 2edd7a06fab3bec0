//! `hermes tenant start`, `stop` and `restart`.

use super::of;
use crate::{failure::Failure, hub::HubClient};

pub(super) fn change(
    hub: &HubClient<'_>,
    operation: &'static str,
    tenant: &str,
) -> Result<(), Failure> {
    let answer = hub.ask(&of(operation, tenant))?;
    let state = answer.text("/state");
    hub.output()
        .note(format!("The agent of `{tenant}` is {state}."));
    Ok(())
}
