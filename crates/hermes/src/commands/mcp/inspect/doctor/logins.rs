//! Whether somebody has logged in where that is needed, as far as the files tell.

use hermes_config::{Home, Server, Settings, TransportSettings};
use hermes_mcp::{
    LoginAdvice, oauth,
    oauth::{OAuthError, TokenFiles},
};

use super::Check;

const ID: &str = "login";

pub(super) fn check(home: &Home, settings: &Settings) -> Vec<Check> {
    let mut checks = check_servers(home, settings);
    let left = TokenFiles::list_unconfigured(home, &settings.server_names());
    checks.extend(left.iter().map(|path| {
        let message = format!("`{}` is the login of no server here", path.display());
        Check::warn(ID, message)
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
        Some(lost @ OAuthError::LoginDamaged { .. }) => again(Check::fail(ID, lost.to_string())),
        Some(missing) => again(Check::warn(ID, missing.to_string())),
        None if files.tokens().is_some() => Check::ok(ID, "somebody is logged in"),
        None => return None,
    };
    Some(check.about(name))
}
