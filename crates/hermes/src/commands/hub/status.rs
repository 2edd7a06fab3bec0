//! `hermes hub status`: whether a Hub is ready.

use crate::{
    cli::HubArgs,
    commands::hub::client::{HubCall, HubClient, plain_text},
    context::Context,
    failure::Failure,
};

pub(super) fn run(context: &Context, args: &HubArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, args)?;
    let answer = hub.call(&HubCall::new("readyz"))?;
    let output = hub.output();
    if output.is_json() {
        return Ok(());
    }
    output.line(format!(
        "The Hub at {} is {}.",
        hub.address(),
        answer.text("/status")
    ));
    // Who has no token may know that it is ready, and no more.
    if let Ok(version) = hub.call_quietly(&HubCall::new("version")) {
        for (name, member) in [
            ("version", "version"),
            ("node", "node"),
            ("since", "startedAt"),
            ("features", "features"),
        ] {
            output.line(format!("{name}: {}", plain_text(&version.value[member])));
        }
    }
    Ok(())
}
