//! `hermes hub openapi`: the Hub's interface as a document.

use crate::{
    cli::HubArgs,
    commands::hub::client::{HubCall, HubClient},
    context::Context,
    failure::Failure,
};

pub(super) fn run(context: &Context, args: &HubArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, args)?;
    let document = hub.call_text(&HubCall::new("openapi"))?;
    hub.output().raw(&format!("{}\n", document.trim_end()));
    Ok(())
}
