//! Whether somebody has logged in where that is needed, as far as the files tell.

use std::time::SystemTime;

use hermes_config::{Home, Server, Settings, TransportSettings};
use hermes_mcp::oauth::{Login, TokenFiles, Tokens};

use super::Check;

const ID: &str = "login";

pub(super) fn check(home: &Home, settings: &Settings) -> Vec<Check> {
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
    let again = |check: Check| check.fix(format!("run `hermes mcp login {name}`"));
    let check = match (files.tokens(), files.damaged()) {
        (None, Some(path)) => {
            let message = format!("its login is lost: `{}` is damaged", path.display());
            again(Check::fail(ID, message))
        }
        (None, None) if Login::may_do_alone(&server.oauth) => return None,
        (None, None) => again(Check::warn(ID, "nobody has logged in yet")),
        (Some(tokens), _) if has_run_out(&tokens) && !Login::may_do_alone(&server.oauth) => {
            again(Check::warn(ID, "its login has run out"))
        }
        (Some(_), _) => Check::ok(ID, "somebody is logged in"),
    };
    Some(check.about(name))
}

/// Whether tokens have ended that nothing renews.
fn has_run_out(tokens: &Tokens) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    tokens.refresh_token.is_none() && tokens.expires_at().is_some_and(|end| end < now)
}
