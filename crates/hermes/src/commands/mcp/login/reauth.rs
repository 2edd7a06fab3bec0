//! `hermes mcp reauth`: logs in again, to one server or to all of them in turn.

use hermes_config::{ServerEntry, Settings};
use serde_json::{Value, json};

use crate::{
    cli::ReauthArgs,
    commands::mcp::{login, login::BrowserMode, requests::probe},
    context::Context,
    failure::{Failure, FailureKind},
};

pub(crate) fn run(context: &Context, args: &ReauthArgs) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let entries = match &args.name {
        Some(name) => vec![probe::find_entry(&settings, name)?],
        None => with_logins(&settings),
    };
    let browser = if args.no_browser {
        BrowserMode::KeepClosed
    } else {
        BrowserMode::Open
    };
    let mut results: Vec<Value> = Vec::new();
    let mut failed = 0;
    let mut kind = FailureKind::AnswerNeeded;
    for (index, entry) in entries.iter().enumerate() {
        context
            .output
            .note(format!("{}/{} {}", index + 1, entries.len(), entry.name));
        match login::log_in(context, &settings, entry, None, browser) {
            Ok(logged_in) => {
                let mut result = login::login_json(&entry.name, &logged_in);
                result["ok"] = true.into();
                results.push(result);
            }
            Err(failure) if failure.kind == FailureKind::Interrupted => return Err(failure),
            Err(failure) => {
                failed += 1;
                if failure.kind != FailureKind::AnswerNeeded {
                    kind = FailureKind::Failed;
                }
                context.output.warning(&failure.message);
                for hint in &failure.hints {
                    context.output.note(hint);
                }
                let mut result = json!({
                    "server": entry.name, "ok": false, "code": failure.kind.code(), "error": failure.message,
                });
                for (key, value) in failure.findings {
                    result[key] = value;
                }
                results.push(result);
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
    Err(Failure::new(kind, summary).finding("results", results))
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
