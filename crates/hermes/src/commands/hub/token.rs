//! `hermes token …`: what opens a Hub.

use std::path::Path;

use crate::{
    cli::{TokenArgs, TokenCommand},
    commands::hub::client::{Column, HubCall, HubClient, HubReply},
    context::Context,
    failure::Failure,
    output::printable,
};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/name"),
    ("ROLE", "/role"),
    ("TENANTS", "/tenants"),
    ("ENDS IN", "/last4"),
    ("EXPIRES", "/expiresAt"),
    ("LAST USED", "/lastUsedAt"),
];

pub(crate) fn run(context: &Context, args: TokenArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        TokenCommand::Create(args) => {
            let call = HubCall::new("create_token")
                .with("name", args.name)
                .with_optional("role", args.role)
                .with_list("scopes", args.scopes)
                .with_list("tenants", args.tenants)
                .with_list("cidrs", args.cidrs)
                .with_optional("expiresAt", args.expires);
            create_and_reveal(hub, &call, args.output.as_deref())
        }
        TokenCommand::List(page) => {
            let answer = hub.call_list(HubCall::new("list_tokens"), "tokens", &page.into())?;
            hub.show_list(&answer, "tokens", COLUMNS, "There are no tokens.");
            Ok(())
        }
        TokenCommand::Rotate(args) => {
            let question = match args.grace {
                None | Some(0) => format!(
                    "Give `{}` another secret? The old one ends at once.",
                    args.token
                ),
                Some(grace) => format!(
                    "Give `{}` another secret? The old one ends in {grace} s.",
                    args.token
                ),
            };
            hub.confirm(args.sure.yes, &question)?;
            let call = HubCall::new("rotate_token").with("token_id", args.token);
            create_and_reveal(
                hub,
                &call.with_optional("grace", args.grace),
                args.output.as_deref(),
            )
        }
        TokenCommand::Revoke { token, sure } => {
            hub.confirm(
                sure.yes,
                &format!("Revoke `{token}`? It stops working at once."),
            )?;
            hub.call(&HubCall::new("revoke_token").with("token_id", token.as_str()))?;
            hub.output().note(format!("Revoked `{token}`."));
            Ok(())
        }
        TokenCommand::Whoami => {
            let answer = hub.call(&HubCall::new("whoami"))?;
            hub.show_members(&answer.value);
            Ok(())
        }
    }
}

/// Calls what makes a secret, and puts that where it is wanted: nothing else ever shows it.
fn create_and_reveal(
    hub: &HubClient<'_>,
    call: &HubCall,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let Some(path) = file else {
        let answer = hub.call(call)?;
        print_token(hub, &answer, "its secret is shown this once:");
        hub.output().line(answer.text("/token"));
        return Ok(());
    };
    let mut answer = hub.call_quietly(call)?;
    let secret = format!("{}\n", answer.text("/token"));
    hermes_config::replace_file(path, secret.as_bytes()).map_err(|error| {
        Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
            .hint("the secret is lost; `hermes token rotate` makes another one")
    })?;
    if let Some(members) = answer.value.as_object_mut() {
        members.shift_remove("token");
    }
    print_token(
        hub,
        &answer,
        &format!("its secret is in `{}`.", path.display()),
    );
    if hub.output().is_json() {
        hub.output().object(&answer.value);
    }
    Ok(())
}

fn print_token(hub: &HubClient<'_>, answer: &HubReply, where_it_is: &str) {
    let (name, id) = (
        printable(answer.text("/name")),
        printable(answer.text("/id")),
    );
    hub.output()
        .note(format!("The token `{name}` is `{id}`; {where_it_is}"));
}
