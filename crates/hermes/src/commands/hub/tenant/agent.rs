//! `hermes tenant start`, `stop` and `restart`.

use super::tenant_call;
use crate::{commands::hub::client::HubClient, failure::Failure};

pub(super) fn change(
    hub: &HubClient<'_>,
    operation: &'static str,
    tenant: &str,
) -> Result<(), Failure> {
    let answer = hub.call(&tenant_call(operation, tenant))?;
    let state = answer.text("/state");
    hub.output()
        .note(format!("The agent of `{tenant}` is {state}."));
    Ok(())
}
