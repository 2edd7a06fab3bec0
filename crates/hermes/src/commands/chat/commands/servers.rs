//! `/mcp`: the servers and their states, logging in, switching one on or off.

use hermes_config::{ConfigFile, ServerName, Settings};
use hermes_mcp::{Host, LinkStatus, ServerStatus};

use super::{ChatContext, CommandOutcome, reload};
use crate::{
    commands::state::{sampling_lines, status_note, unix_now},
    failure::Failure,
    output::{Output, Table, Tone},
};

pub(super) async fn run(chat: &mut ChatContext<'_>, rest: &str) -> Result<CommandOutcome, Failure> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        [] => {
            let servers = chat.conversation.agent().host().map(Host::status);
            let table = render_table(&servers.unwrap_or_default(), chat.context.output);
            Ok(CommandOutcome::text(table))
        }
        ["login", name] => login(chat, name).await,
        ["enable", name] => set_enabled(chat, name, true).await,
        ["disable", name] => set_enabled(chat, name, false).await,
        _ => Err(Failure::usage(
            "`/mcp` takes nothing, `login NAME`, `enable NAME` or `disable NAME`",
        )),
    }
}

fn render_table(servers: &[ServerStatus], output: Output) -> String {
    if servers.is_empty() {
        return "No MCP server is configured; `hermes mcp add` adds one.".to_owned();
    }
    let now = unix_now();
    let mut table = Table::new(&["SERVER", "TRANSPORT", "STATE", "TOOLS", "NOTE"]);
    for server in servers {
        let tone = match server.status {
            LinkStatus::Ready => Tone::Good,
            LinkStatus::Disabled | LinkStatus::Lazy => Tone::Faint,
            LinkStatus::Connecting | LinkStatus::Reconnecting => Tone::Warning,
            _ => Tone::Bad,
        };
        table.row([
            (server.name.clone(), Tone::Strong),
            (server.transport.clone(), Tone::Plain),
            (server.status.to_string(), tone),
            (server.tools.to_string(), Tone::Plain),
            (status_note(server, now), Tone::Plain),
        ]);
    }
    let mut text = table.render(output);
    for line in sampling_lines(servers) {
        text.push_str(&line);
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn find_server(chat: &ChatContext<'_>, name: &str) -> Result<ServerName, Failure> {
    let settings = chat.conversation.agent().settings();
    match settings.server(name) {
        Some(entry) => Ok(entry.name.clone()),
        None => Err(Failure::no_such_server(
            name,
            settings.servers.iter().map(|entry| entry.name.to_string()),
        )),
    }
}

async fn set_enabled(
    chat: &mut ChatContext<'_>,
    name: &str,
    is_on: bool,
) -> Result<CommandOutcome, Failure> {
    reload::check_config_in_use(chat)?;
    let server = find_server(chat, name)?;
    let mut file = ConfigFile::open(&chat.context.home)?;
    file.set_server_key(server.as_str(), &["enabled"], is_on.into());
    file.save()?;
    let settings = Settings::load(&chat.context.home)?;
    let report = reload::apply_settings(chat, settings).await;
    let word = if is_on { "enabled" } else { "disabled" };
    Ok(CommandOutcome::text(format!(
        "`{server}` is now {word}.\n{report}"
    )))
}

/// Logs in through the command of its own, which has the terminal meanwhile.
async fn login(chat: &mut ChatContext<'_>, name: &str) -> Result<CommandOutcome, Failure> {
    let server = find_server(chat, name)?;
    if !chat.prompts.has_person() {
        return Err(Failure::failed("there is no terminal to log in on")
            .hint(format!("`hermes mcp login {server}` does it")));
    }
    let program = std::env::current_exe()?;
    let home = chat.context.home.path().to_owned();
    let lock = chat.screen.lock_output();
    let status = tokio::process::Command::new(program)
        .args(["mcp", "login", server.as_str()])
        .env("HERMES_HOME", home)
        .kill_on_drop(true)
        .status()
        .await;
    drop(lock);
    if !status?.success() {
        // The command has said why.
        return Ok(CommandOutcome::text(format!(
            "`{server}` is not logged in."
        )));
    }
    if let Some(host) = chat.conversation.agent().host() {
        host.wake(&server);
    }
    Ok(CommandOutcome::text(format!(
        "`{server}` is logged in; it is being connected."
    )))
}

#[cfg(test)]
mod tests {
    use hermes_mcp::connection::counters::SamplingCounts;

    use super::*;

    #[test]
    fn states_are_shown_with_what_to_know() {
        let parked = ServerStatus {
            error: Some("no such program: `nope`".into()),
            ..ServerStatus::unconnected(&ServerName::new("files"), "stdio", LinkStatus::Parked)
        };
        let text = render_table(&[parked], Output::new(true));
        assert!(
            text.contains("files") && text.contains("parked") && text.contains("`nope`"),
            "{text}"
        );
        assert!(render_table(&[], Output::new(true)).contains("hermes mcp add"));
    }

    #[test]
    fn what_servers_had_models_say_is_shown() {
        let status = ServerStatus {
            sampling: Some(SamplingCounts {
                requests: 2,
                tokens_used: 30,
                ..SamplingCounts::default()
            }),
            ..ServerStatus::unconnected(&ServerName::new("files"), "stdio", LinkStatus::Ready)
        };
        let text = render_table(&[status], Output::new(true));
        assert!(text.contains("sampling of files: 2 answered"), "{text}");
    }
}
