//! `hermes mcp login`, `logout` and `reauth`: gets tokens for a remote server, in whichever way a person can take part
//! here, gives them back, and logs in again, to one server or to all of them in turn.

mod login_ui;

use std::time::Duration;

use hermes_config::{
    ConfigFile, Home, ReferencePolicy, Server, ServerEntry, ServerName, Settings, TransportSettings,
};
use hermes_mcp::{
    LoginAdvice,
    control::{self, ControlRequest},
    oauth::{self, ForgetScope, Login, LoginFlow, LoginSummary, OAuthError, TokenFiles},
};
use serde_json::{Value, json};

use crate::{
    cli::{LoginArgs, LogoutArgs, ReauthArgs},
    commands::mcp::{config::save, login::login_ui::TerminalLoginUi, requests::probe},
    context::Context,
    failure::{Failure, FailureKind},
    output::printable,
};

pub(super) use crate::commands::mcp::login::login_ui::BrowserMode;

/// Timeout for running processes to reload after a login. They notice the file by themselves a little later.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn run(context: &Context, args: &LoginArgs) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let entry = probe::find_entry(&settings, &args.name)?;
    let logged_in = if let Some(answer) = &args.code {
        let login = login_for(context, &settings, entry)?;
        let finished = context.block_on(async {
            let finished = login.finish_pending(answer).await;
            finished.map_err(|error| login_failure(&entry.name, &error))
        })?;
        save_and_reload(context, &settings, entry)?;
        finished
    } else {
        let flow = args.flow.as_deref().and_then(parse_flow);
        let browser = if args.no_browser {
            BrowserMode::KeepClosed
        } else {
            BrowserMode::Open
        };
        log_in(context, &settings, entry, flow, browser)?
    };
    context.output.note(format!(
        "Logged in to `{}`{}.",
        entry.name,
        describe_login(&logged_in)
    ));
    if entry.server.as_ref().is_ok_and(|server| !server.enabled) {
        let name = &entry.name;
        context.output.note(format!(
            "`{name}` is disabled; `hermes mcp enable {name}` switches it on."
        ));
    }
    context.output.json(login_json(&entry.name, &logged_in));
    Ok(())
}

/// Logs in and lets running processes know.
pub(super) fn log_in(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
    flow: Option<LoginFlow>,
    browser: BrowserMode,
) -> Result<LoginSummary, Failure> {
    let logged_in = log_in_quietly(context, settings, entry, flow, browser)?;
    save_and_reload(context, settings, entry)?;
    Ok(logged_in)
}

/// Logs in to a server that is perhaps not saved yet.
pub(super) fn log_in_quietly(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
    flow: Option<LoginFlow>,
    browser: BrowserMode,
) -> Result<LoginSummary, Failure> {
    let login = login_for(context, settings, entry)?;
    let person = TerminalLoginUi::new(context.output, entry.name.clone(), browser, flow);
    context.block_on(async {
        let logged_in = login.run(&person, flow).await;
        logged_in.map_err(|error| match error {
            OAuthError::Cancelled if person.is_interrupted() => Failure::interrupted(),
            error => login_failure(&entry.name, &error),
        })
    })
}

/// The login of an entry, its references filled in.
pub(super) fn login_for(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
) -> Result<Login, Failure> {
    let name = &entry.name;
    let about = |failure: Failure| failure.about(name.clone());
    let server = entry.server.as_ref().map_err(|problem| {
        about(Failure::usage(format!(
            "server `{name}` cannot be used: {problem}"
        )))
    })?;
    let resolved = server
        .resolve(&context.home, &settings.variables, ReferencePolicy::owner())
        .map_err(|error| about(Failure::usage(error.to_string())))?;
    for warning in &resolved.warnings {
        context.output.warning(warning.to_string());
    }
    let http = match resolved.transport {
        TransportSettings::Http(http) | TransportSettings::Sse(http) => http,
        TransportSettings::Stdio(_) => {
            return Err(about(Failure::usage(format!(
                "`{name}` is a local server; there is nothing to log in to"
            ))));
        }
    };
    Ok(Login::new(
        name.clone(),
        http,
        resolved.oauth,
        token_files(context, settings, name),
    ))
}

/// Where a server's login is kept.
pub(super) fn token_files(context: &Context, settings: &Settings, name: &ServerName) -> TokenFiles {
    TokenFiles::new(&context.home, &settings.server_names(), name)
}

/// Why somebody has to log in to a server, and how, as far as its files tell.
pub(super) fn missing_login(home: &Home, settings: &Settings, server: &Server) -> Option<String> {
    if !server.enabled || server.auth.is_none() {
        return None;
    }
    let files = TokenFiles::new(home, &settings.server_names(), &server.name);
    let missing = oauth::missing_login(server, &files)?;
    let advice = LoginAdvice::LogIn(server.name.clone());
    Some(format!("{missing}; {advice}"))
}

/// Writes `auth: oauth` where it is missing, and has running processes try the server again.
fn save_and_reload(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
) -> Result<(), Failure> {
    let name = &entry.name;
    let is_saved = settings.server(name.as_str()).is_some();
    if is_saved
        && entry
            .server
            .as_ref()
            .is_ok_and(|server| server.auth.is_none())
    {
        let mut file = ConfigFile::open(&context.home)?;
        file.set_server_key(name.as_str(), &["auth"], "oauth".into());
        save::save_file(context, &file)?;
        context
            .output
            .note(format!("`auth: oauth` is set for `{name}`."));
    }
    let server = name.clone();
    control::query_processes(
        &context.home,
        &ControlRequest::Wake { server },
        RELOAD_TIMEOUT,
    );
    Ok(())
}

fn parse_flow(word: &str) -> Option<LoginFlow> {
    match word {
        "browser" => Some(LoginFlow::Browser),
        "paste" => Some(LoginFlow::Paste),
        "device" => Some(LoginFlow::Device),
        "client_credentials" => Some(LoginFlow::ClientCredentials),
        _ => None,
    }
}

/// What a login brought, as `--json` shows it.
pub(super) fn login_json(server: &ServerName, logged_in: &LoginSummary) -> Value {
    json!({
        "server": server,
        "expires_at": logged_in.expires_at,
        "scope": logged_in.scope,
    })
}

fn describe_login(logged_in: &LoginSummary) -> String {
    match (&logged_in.scope, logged_in.is_renewable) {
        (Some(scope), true) => format!(", for `{scope}`"),
        (Some(scope), false) => format!(", for `{scope}`; it is not renewed by itself"),
        (None, _) => String::new(),
    }
}

/// How a login that failed ends the command.
pub(super) fn login_failure(server: &ServerName, error: &OAuthError) -> Failure {
    let kind = match error {
        OAuthError::Setting { .. } | OAuthError::NoPendingLogin { .. } => FailureKind::Usage,
        OAuthError::RedirectPending { .. } => FailureKind::AnswerNeeded,
        _ => FailureKind::Failed,
    };
    let failure = Failure::new(kind, error.to_string()).about(server.clone());
    let again =
        |failure: Failure| failure.hint(format!("`hermes mcp login {server}` begins again"));
    match error {
        OAuthError::RedirectPending { url, .. } => Failure {
            message: format!("there is no terminal, so the login to `{server}` takes a second command"),
            ..failure
        }
        .hint(format!(
            "open this address in a browser, on any machine: {}",
            printable(url)
        ))
        .hint(format!(
            "then run `hermes mcp login {server} --code 'ADDRESS'` with the address that the browser ends at, in quotes, even \
             if nothing is shown there"
        ))
        .finding("url", url.as_str().into()),
        OAuthError::NoClient { .. } => failure.hint(format!(
            "on a terminal `hermes mcp login {server}` asks for a client"
        )),
        OAuthError::TimedOut(_)
        | OAuthError::Cancelled
        | OAuthError::NoIssuer { .. }
        | OAuthError::WrongState
        | OAuthError::WrongIssuer { .. }
        | OAuthError::Denied(_)
        | OAuthError::Refused { .. } => again(failure),
        OAuthError::NoCode => failure.hint(
            "give all of the address that the browser ends at, in quotes: it holds `code=` and `state=`",
        ),
        _ => failure,
    }
}

pub(crate) fn run_logout(context: &Context, args: &LogoutArgs) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let entry = probe::find_entry(&settings, &args.name)?;
    let name = &entry.name;
    // An entry that cannot be used any more must not keep its tokens for that.
    if let Ok(login) = login_for(context, &settings, entry) {
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
    let files = token_files(context, &settings, name);
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

pub(crate) fn run_reauth(context: &Context, args: &ReauthArgs) -> Result<(), Failure> {
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
        match log_in(context, &settings, entry, None, browser) {
            Ok(logged_in) => {
                let mut result = login_json(&entry.name, &logged_in);
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
