//! `hermes hub events`: what happens to tenants.

use crate::{
    cli::HubEventsArgs,
    commands::hub::client::{EventFeed, HubCall, HubClient},
    context::Context,
    failure::Failure,
};

pub(super) fn run(context: &Context, args: HubEventsArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let mut call = HubCall::new("watch_events").with_optional("tenant", args.tenant);
    if !args.types.is_empty() {
        call = call.with("type", args.types.join(","));
    }
    EventFeed::new(hub, call, args.after).show(args.follow)
}
