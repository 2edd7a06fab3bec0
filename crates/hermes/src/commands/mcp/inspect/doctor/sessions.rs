//! Whether somebody has logged in where that is needed; with `--probe`, whether the servers answer, all asked at the same
//! time.

use hermes_config::{Home, Server, ServerName, Settings, TransportSettings};
use hermes_mcp::{
    LoginAdvice, oauth,
    oauth::{OAuthError, TokenFiles},
};

use super::Check;
use crate::{
    commands::mcp::requests::{
        probe,
        probe::{ListNeed, ProbeFailure},
    },
    context::Context,
    failure::Failure,
};

const ID: &str = "session";

pub(super) fn probe(context: &Context, settings: &Settings) -> Result<Vec<Check>, Failure> {
    let names: Vec<ServerName> = settings
        .servers
        .iter()
        .filter(|entry| entry.server.as_ref().is_ok_and(|server| server.enabled))
        .map(|entry| entry.name.clone())
        .collect();
    let mut settings = settings.clone();
    for name in &names {
        settings = probe::with_connect_timeout(&settings, name, None)?;
    }
    context.block_on(async {
        let wanted: Vec<&ServerName> = names.iter().collect();
        let host = probe::start_host(context, &settings, &wanted).await?;
        let mut checks = Vec::new();
        // They connect side by side; only the answers are awaited one by one.
        for name in &names {
            let check = match probe::wait_for_server(context, &host, name, ListNeed::Tools).await {
                Ok(answered) => Check::ok(
                    ID,
                    format!(
                        "ready, {} tools, {} era",
                        answered.catalog.tools.len(),
                        answered.session.era.as_str()
                    ),
                ),
                Err(ProbeFailure { failure, advice }) => {
                    let check = Check::fail(ID, failure.message);
                    match advice {
                        Some(advice) => check.fix(advice.to_string()),
                        None => check,
                    }
                }
            };
            checks.push(check.about(name));
        }
        host.shutdown().await;
        Ok(checks)
    })
}

const LOGIN_CHECK_ID: &str = "login";

pub(super) fn check(home: &Home, settings: &Settings) -> Vec<Check> {
    let mut checks = check_servers(home, settings);
    let left = TokenFiles::list_unconfigured(home, &settings.server_names());
    checks.extend(left.iter().map(|path| {
        let message = format!("`{}` belongs to no configured server", path.display());
        Check::warn(LOGIN_CHECK_ID, message)
            .fix("if its server was renamed, log in under the new name; remove the file")
    }));
    checks
}

fn check_servers(home: &Home, settings: &Settings) -> Vec<Check> {
    let names = settings.server_names();
    let servers = settings
        .servers
        .iter()
        .filter_map(|entry| entry.server.as_ref().ok());
    servers
        .filter(|server| {
            let is_local = matches!(server.transport, TransportSettings::Stdio(_));
            server.enabled && server.auth.is_some() && !is_local
        })
        .filter_map(|server| check_server(server, &TokenFiles::new(home, &names, &server.name)))
        .collect()
}

/// Says nothing of a server that needs nobody and has no token yet.
fn check_server(server: &Server, files: &TokenFiles) -> Option<Check> {
    let name = &server.name;
    let again = |check: Check| check.fix(LoginAdvice::LogIn(name.clone()).to_string());
    let check = match oauth::missing_login(server, files) {
        Some(lost @ OAuthError::LoginDamaged { .. }) => {
            again(Check::fail(LOGIN_CHECK_ID, lost.to_string()))
        }
        Some(missing) => again(Check::warn(LOGIN_CHECK_ID, missing.to_string())),
        None if files.tokens().is_some() => Check::ok(LOGIN_CHECK_ID, "somebody is logged in"),
        None => return None,
    };
    Some(check.about(name))
}
