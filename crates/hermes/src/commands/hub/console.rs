//! `hermes hub login-link` and `hermes hub session …`: who is signed in to the web console.

use crate::{
    cli::{HubArgs, HubSessionArgs, HubSessionCommand},
    commands::hub::client::{Column, HubCall, HubClient},
    context::Context,
    failure::Failure,
    output::printable,
};

const COLUMNS: &[Column] = &[
    ("ID", "/sessionId"),
    ("TOKEN", "/tokenId"),
    ("PERSON", "/person"),
    ("FROM", "/address"),
    ("SINCE", "/createdAt"),
    ("LAST USED", "/usedAt"),
    ("ENDS", "/endsAt"),
];

/// The link is all that stdout gets, so that it can be passed on.
pub(super) fn print_login_link(context: &Context, args: &HubArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, args)?;
    let answer = hub.call(&HubCall::new("create_sign_in_link"))?;
    let output = hub.output();
    output.line(printable(answer.text("/url")));
    output.note(format!(
        "It signs in once, until {}. Whoever has it has the rights of your token.",
        printable(answer.text("/expiresAt"))
    ));
    Ok(())
}

pub(super) fn run_session(context: &Context, args: HubSessionArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        HubSessionCommand::List => {
            let answer = hub.call(&HubCall::new("list_console_sessions"))?;
            hub.show_list(&answer, "sessions", COLUMNS, "Nobody is signed in.");
        }
        HubSessionCommand::End { session, sure } => {
            hub.confirm(sure.yes, &format!("Sign `{session}` out?"))?;
            let call = HubCall::new("end_console_session").with("session_id", session.as_str());
            hub.call(&call)?;
            hub.output().note(format!("`{session}` is signed out."));
        }
    }
    Ok(())
}
