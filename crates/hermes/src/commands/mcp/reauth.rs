//! `hermes mcp reauth`: logs in again, to one server or to all of them in turn.

use hermes_config::{ServerEntry, Settings};
use serde_json::{Value, json};

use super::{
    login::{self, Browser},
    probe,
};
use crate::{
    cli::ReauthArgs,
    context::Context,
    failure::{Failure, Kind},
};

pub(super) fn run(context: &Context, args: &ReauthArgs) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let entries = match &args.name {
        Some(name) => vec![probe::entry(&settings, name)?],
        None => with_logins(&settings),
    };
    let browser = if args.no_browser {
        Browser::StaysClosed
    } else {
        Browser::Opens
    };
    let mut results: Vec<Value> = Vec::new();
    let mut failed = 0;
    for (index, entry) in entries.iter().enumerate() {
        context
            .output
            .note(format!("{}/{} {}", index + 1, entries.len(), entry.name));
        match login::log_in(context, &settings, entry, None, browser) {
            Ok(logged_in) => {
                let mut result = login::as_json(&entry.name, &logged_in);
                result["ok"] = true.into();
                results.push(result);
            }
            Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
            Err(failure) => {
                failed += 1;
                context.output.warning(&failure.message);
                results.push(json!({
                    "server": entry.name, "ok": false, "error": failure.message,
                }));
            }
        }
    }
    let summary = match (entries.len(), failed) {
        (0, _) => "No server has `auth: oauth`.".to_owned(),
        (all, 0) => format!("{all} of {all} logged in."),
        (all, failed) => format!("{} of {all} logged in.", all - failed),
    };
    if failed == 0 {
        context.output.note(summary);
        context.output.json(json!({"results": results}));
        return Ok(());
    }
    let results = Value::Array(results);
    Err(Failure::failed(summary).finding("results", results))
}

fn with_logins(settings: &Settings) -> Vec<&ServerEntry> {
    let entries = settings.servers.iter();
    entries
        .filter(|entry| {
            let server = entry.server.as_ref();
            server.is_ok_and(|server| server.enabled && server.auth.is_some())
        })
        .collect()
}
