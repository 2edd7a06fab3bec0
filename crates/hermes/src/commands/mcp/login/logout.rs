//! `hermes mcp logout`: forgets a login, and gives its tokens back where the authorization server takes them.

use hermes_mcp::oauth::ForgetScope;
use serde_json::json;

use crate::{
    cli::LogoutArgs,
    commands::mcp::{login, requests::probe},
    context::Context,
    failure::Failure,
};

pub(crate) fn run(context: &Context, args: &LogoutArgs) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let entry = probe::find_entry(&settings, &args.name)?;
    let name = &entry.name;
    // An entry that cannot be used any more must not keep its tokens for that.
    if let Ok(login) = login::login_for(context, &settings, entry) {
        context.block_on(async {
            login.revoke().await;
            Ok(())
        })?;
    }
    let what = if args.client {
        ForgetScope::Everything
    } else {
        ForgetScope::Login
    };
    let files = login::token_files(context, &settings, name);
    let was_logged_in = files.has_tokens();
    let removed = files.delete(what)?;
    context.output.note(if was_logged_in {
        format!("Logged out of `{name}`.")
    } else {
        format!("Nobody was logged in to `{name}`.")
    });
    context.output.json(json!({"removed": removed}));
    Ok(())
}
