//! `/tools`: everything the model may call, by toolset, and the switches of this conversation.

use std::fmt::Write as _;

use hermes_agent::conversation::{Conversation, ToolsetEntry, ToolsetKind, ToolsetSwitch};
use hermes_mcp::{Host, ServerStatus};

use crate::{
    commands::{
        chat::start,
        state::{pluralize, status_note, unix_now},
    },
    failure::Failure,
    output::printable,
};

/// Lists the tools, or turns a toolset on or off. Returns what to print.
pub(crate) fn run(conversation: &mut Conversation, rest: &str) -> Result<String, Failure> {
    let mut words = rest.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (None | Some("list"), None, None) => {
            let servers = conversation.agent().host().map(Host::status);
            let servers = servers.unwrap_or_default();
            Ok(render_toolsets(&conversation.toolsets())
                + &describe_servers_without_tools(&servers))
        }
        (Some("enable"), Some(name), None) => set_enabled(conversation, name, ToolsetSwitch::On),
        (Some("disable"), Some(name), None) => set_enabled(conversation, name, ToolsetSwitch::Off),
        _ => Err(Failure::usage(
            "`/tools` takes nothing, `list`, `enable NAME` or `disable NAME`",
        )),
    }
}

fn set_enabled(
    conversation: &mut Conversation,
    name: &str,
    switch: ToolsetSwitch,
) -> Result<String, Failure> {
    if !conversation.switch_toolset(name, switch) {
        let names = start::toolset_names(&conversation.agent().settings());
        return Err(
            Failure::failed(format!("there is no toolset or server `{name}`"))
                .suggest_nearest(name, names.into_iter())
                .hint("`/tools` lists what there is"),
        );
    }
    let word = match switch {
        ToolsetSwitch::On => "on",
        ToolsetSwitch::Off => "off",
    };
    Ok(format!(
        "`{name}` is {word} in this conversation from the next message on.\n"
    ))
}

/// Servers that have nothing to call now, and so no toolset.
fn describe_servers_without_tools(servers: &[ServerStatus]) -> String {
    let mut text = String::new();
    for server in servers.iter().filter(|server| server.tools == 0) {
        let state = describe_state(server);
        let _ = writeln!(text, "no tools of {} ({state})", server.name);
    }
    text
}

fn describe_state(server: &ServerStatus) -> String {
    let note = status_note(server, unix_now());
    let gap = if note.is_empty() { "" } else { ": " };
    format!("MCP server, {}{gap}{note}", server.status)
}

fn render_toolsets(toolsets: &[ToolsetEntry]) -> String {
    let mut text = String::new();
    for toolset in toolsets {
        let state = match &toolset.kind {
            ToolsetKind::BuiltIn => "built in".to_owned(),
            ToolsetKind::Server(status) => describe_state(status),
        };
        let off = if toolset.is_offered { "" } else { ", off" };
        let tools = pluralize(toolset.tools.len(), "tool");
        let _ = writeln!(text, "{} ({state}, {tools}{off})", toolset.name);
        for tool in &toolset.tools {
            let about = printable(&tool.description).into_owned();
            let _ = writeln!(text, "  {:<28} {}", tool.name, first_sentence(&about));
        }
    }
    text
}

/// Enough of a description to know a tool by.
fn first_sentence(text: &str) -> String {
    const LONGEST: usize = 90;
    let line = text.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default().trim();
    let sentence = line.split_inclusive(". ").next().unwrap_or(line).trim_end();
    match sentence.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence.to_owned(),
    }
}
