//! `/mcp`: the servers and their states, logging in, switching one on or off.

use hermes_config::{ConfigFile, ServerName, Settings};
use hermes_mcp::{Host, link::Status, status::ServerStatus};

use super::{Done, Room, reload};
use crate::{
    commands::state::{note, now, sampling_lines},
    failure::Failure,
    output::{Output, Table, Tone},
};

pub(super) async fn run(room: &mut Room<'_>, rest: &str) -> Result<Done, Failure> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        [] => {
            let servers = room.conversation.agent().host().map(Host::status);
            let table = table(&servers.unwrap_or_default(), room.context.output);
            Ok(Done::text(table))
        }
        ["login", name] => login(room, name).await,
        ["enable", name] => switch(room, name, true).await,
        ["disable", name] => switch(room, name, false).await,
        _ => Err(Failure::usage(
            "`/mcp` takes nothing, `login NAME`, `enable NAME` or `disable NAME`",
        )),
    }
}

fn table(servers: &[ServerStatus], output: Output) -> String {
    if servers.is_empty() {
        return "No MCP server is configured; `hermes mcp add` adds one.".to_owned();
    }
    let now = now();
    let mut table = Table::new(&["SERVER", "TRANSPORT", "STATE", "TOOLS", "NOTE"]);
    for server in servers {
        let tone = match server.status {
            Status::Ready => Tone::Good,
            Status::Disabled | Status::Lazy => Tone::Faint,
            Status::Connecting | Status::Reconnecting => Tone::Warning,
            _ => Tone::Bad,
        };
        table.row([
            (server.name.clone(), Tone::Strong),
            (server.transport.clone(), Tone::Plain),
            (server.status.to_string(), tone),
            (server.tools.to_string(), Tone::Plain),
            (note(server, now), Tone::Plain),
        ]);
    }
    let mut text = table.render(output);
    for line in sampling_lines(servers) {
        text.push_str(&line);
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn known(room: &Room<'_>, name: &str) -> Result<ServerName, Failure> {
    let settings = room.conversation.agent().settings();
    match settings.server(name) {
        Some(entry) => Ok(entry.name.clone()),
        None => Err(Failure::no_such_server(
            name,
            settings.servers.iter().map(|entry| entry.name.to_string()),
        )),
    }
}

async fn switch(room: &mut Room<'_>, name: &str, is_on: bool) -> Result<Done, Failure> {
    reload::needs_config(room)?;
    let server = known(room, name)?;
    let mut file = ConfigFile::open(&room.context.home)?;
    file.set_server_key(server.as_str(), &["enabled"], is_on.into());
    file.save()?;
    let settings = Settings::load(&room.context.home)?;
    let report = reload::apply(room, settings).await;
    let word = if is_on { "enabled" } else { "disabled" };
    Ok(Done::text(format!("`{server}` is now {word}.\n{report}")))
}

/// Logs in through the command of its own, which has the terminal meanwhile.
async fn login(room: &mut Room<'_>, name: &str) -> Result<Done, Failure> {
    let server = known(room, name)?;
    if !room.floor.has_person() {
        return Err(Failure::failed("there is no terminal to log in on")
            .hint(format!("`hermes mcp login {server}` does it")));
    }
    let program = std::env::current_exe()?;
    let home = room.context.home.path().to_owned();
    let held = room.screen.hold();
    let status = tokio::process::Command::new(program)
        .args(["mcp", "login", server.as_str()])
        .env("HERMES_HOME", home)
        .kill_on_drop(true)
        .status()
        .await;
    drop(held);
    if !status?.success() {
        // The command has said why.
        return Ok(Done::text(format!("`{server}` is not logged in.")));
    }
    if let Some(host) = room.conversation.agent().host() {
        host.wake(&server);
    }
    Ok(Done::text(format!(
        "`{server}` is logged in; it is being connected."
    )))
}

#[cfg(test)]
mod tests {
    use hermes_mcp::counters::SamplingCounts;

    use super::*;

    #[test]
    fn states_are_shown_with_what_to_know() {
        let parked = ServerStatus {
            error: Some("no such program: `nope`".into()),
            ..ServerStatus::unconnected(&ServerName::new("files"), "stdio", Status::Parked)
        };
        let text = table(&[parked], Output::new(true));
        assert!(
            text.contains("files") && text.contains("parked") && text.contains("`nope`"),
            "{text}"
        );
        assert!(table(&[], Output::new(true)).contains("hermes mcp add"));
    }

    #[test]
    fn what_servers_had_models_say_is_shown() {
        let asking = ServerStatus {
            sampling: Some(SamplingCounts {
                requests: 2,
                tokens_used: 30,
                ..SamplingCounts::default()
            }),
            ..ServerStatus::unconnected(&ServerName::new("files"), "stdio", Status::Ready)
        };
        let text = table(&[asking], Output::new(true));
        assert!(text.contains("sampling of files: 2 answered"), "{text}");
    }
}
