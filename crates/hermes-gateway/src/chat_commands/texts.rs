//! What commands show, as short lines of Markdown.

use hermes_mcp::{LinkStatus, ServerStatus};
use hermes_store::SessionUsage;

use super::context::{
    BackgroundLine, CommandCaller, PlatformLine, SessionLine, SkillLine, StatusFacts, UsageFacts,
};

pub(super) fn pluralize(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// The first line, cut to so many characters.
pub(super) fn first_line(text: &str, length: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    if line.chars().count() <= length {
        return line.to_owned();
    }
    let cut: String = line.chars().take(length.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

/// One line that stands between back-ticks.
pub(super) fn inline_code(text: &str, length: usize) -> String {
    first_line(text, length).replace('`', "'")
}

pub(super) fn status(facts: &StatusFacts) -> String {
    let mut lines = Vec::new();
    let title = facts.title.as_deref();
    let title = title.map_or_else(String::new, |title| {
        format!(" \"{}\"", first_line(title, 80))
    });
    let messages = pluralize(facts.messages, "message");
    lines.push(match &facts.session_id {
        Some(id) => format!("session: `{id}`{title}, {messages}"),
        None => "session: none yet; your next message begins one".to_owned(),
    });
    lines.push(match &facts.model {
        Some(model) => format!("model: {} ({})", model.model, model.provider),
        None => "model: none yet; it is searched with the first message".to_owned(),
    });
    lines.push(format!("tokens: {}", describe_tokens(&facts.usage)));
    let mut turn = vec![if facts.is_busy { "running" } else { "idle" }.to_owned()];
    if facts.queued > 0 {
        turn.push(format!("{} queued", facts.queued));
    }
    if facts.waiting_approvals > 0 {
        turn.push(format!("{} waiting for approval", facts.waiting_approvals));
    }
    lines.push(format!("turn: {}", turn.join(", ")));
    if !facts.background.is_empty() {
        lines.push(format!(
            "background: {}",
            background_list(&facts.background)
        ));
    }
    lines.push(format!("servers: {}", servers_by_state(&facts.servers)));
    if !facts.platforms.is_empty() {
        let platform = |line: &PlatformLine| format!("{} {}", line.account, line.state);
        let platforms: Vec<String> = facts.platforms.iter().map(platform).collect();
        lines.push(format!("platforms: {}", platforms.join(", ")));
    }
    lines.join("\n")
}

/// `` `bg1` (look it up), `proc_12` (sleep 60) ``.
pub(super) fn background_list(work: &[BackgroundLine]) -> String {
    let line =
        |line: &BackgroundLine| format!("`{}` ({})", line.name, first_line(&line.subject, 60));
    work.iter().map(line).collect::<Vec<_>>().join(", ")
}

/// `120 in (100 of them cached), 7 out`.
pub fn describe_tokens(usage: &SessionUsage) -> String {
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" ({cached} of them cached)"),
    };
    format!(
        "{} in{cached}, {} out",
        usage.input_tokens, usage.output_tokens
    )
}

/// `2 ready (14 tools), 1 parked (files)`: names where something is to be done.
pub fn servers_by_state(servers: &[ServerStatus]) -> String {
    if servers.is_empty() {
        return "none".to_owned();
    }
    let mut states: Vec<LinkStatus> = Vec::new();
    for server in servers {
        if !states.contains(&server.status) {
            states.push(server.status);
        }
    }
    let part = |state: &LinkStatus| {
        let these: Vec<&ServerStatus> = servers.iter().filter(|one| one.status == *state).collect();
        let detail = if *state == LinkStatus::Ready {
            pluralize(these.iter().map(|one| one.tools).sum(), "tool")
        } else {
            let names: Vec<&str> = these.iter().map(|one| one.name.as_str()).collect();
            names.join(", ")
        };
        format!("{} {state} ({detail})", these.len())
    };
    states.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// One line for each server.
pub(super) fn server_list(servers: &[ServerStatus]) -> String {
    if servers.is_empty() {
        return "No MCP server is configured.".to_owned();
    }
    let line = |server: &ServerStatus| {
        let detail = if server.status == LinkStatus::Ready {
            pluralize(server.tools, "tool")
        } else {
            let error = server.error.as_deref().unwrap_or_default();
            first_line(error, 100)
        };
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(": {detail}")
        };
        format!("`{}` {}{detail}", server.name, server.status)
    };
    servers.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What a conversation is called.
pub(super) fn session_name(session: &SessionLine) -> String {
    match (&session.title, &session.preview) {
        (Some(title), _) => format!("\"{}\" (`{}`)", first_line(title, 60), session.id),
        (None, Some(preview)) => {
            format!("`{}` \"{}\"", session.id, first_line(preview, 60))
        }
        (None, None) => format!("`{}`", session.id),
    }
}

/// The most sessions that are listed.
const MAX_SESSIONS: usize = 10;

pub(super) fn session_list(sessions: &[SessionLine]) -> String {
    if sessions.is_empty() {
        return "This chat has no earlier conversation.".to_owned();
    }
    let line = |session: &SessionLine| {
        let mark = if session.is_current {
            " (this one)"
        } else {
            ""
        };
        format!(
            "{}, {}, {}{mark}",
            session_name(session),
            pluralize(session.messages, "message"),
            session.last_active
        )
    };
    let mut lines: Vec<String> = sessions.iter().take(MAX_SESSIONS).map(line).collect();
    if sessions.len() > MAX_SESSIONS {
        lines.push(format!("and {} more", sessions.len() - MAX_SESSIONS));
    }
    lines.push("`/resume ID` goes back to one.".to_owned());
    lines.join("\n")
}

pub(super) fn usage(facts: &UsageFacts) -> String {
    let mut lines = Vec::new();
    for used in &facts.models {
        let task = match used.task.as_str() {
            "" => String::new(),
            task => format!(" for {task}"),
        };
        lines.push(format!("{}{task}: {}", used.model, usage_line(&used.usage)));
    }
    lines.push(format!("this conversation: {}", usage_line(&facts.total)));
    lines.join("\n")
}

fn usage_line(usage: &SessionUsage) -> String {
    let calls = pluralize(usize::try_from(usage.api_calls).unwrap_or(0), "call");
    let cost = match (usage.actual_cost_usd, usage.estimated_cost_usd) {
        (Some(cost), _) => format!(", ${cost:.4}"),
        (None, Some(cost)) if cost > 0.0 => format!(", about ${cost:.4}"),
        _ => String::new(),
    };
    format!("{calls}, {}{cost}", describe_tokens(usage))
}

pub(super) fn whoami(caller: &CommandCaller) -> String {
    let sender = &caller.sender;
    let name = sender.name.as_deref();
    let name = name.map_or_else(String::new, |name| format!(" ({})", first_line(name, 60)));
    let mut lines = vec![
        format!("platform: {}", caller.account),
        format!("user: `{}`{name}", sender.id),
        format!("chat: `{}` ({})", caller.chat.id, caller.chat.kind.as_str()),
    ];
    if let Some(thread) = &caller.chat.thread_id {
        lines.push(format!("thread: `{thread}`"));
    }
    if !sender.roles.is_empty() {
        lines.push(format!("roles: {}", sender.roles.join(", ")));
    }
    lines.push(format!("access: {}", caller.access_reason));
    lines.push(
        if caller.is_admin {
            "commands: all"
        } else {
            "commands: those that `/help` lists"
        }
        .to_owned(),
    );
    lines.join("\n")
}

pub(super) fn skill_list(skills: &[SkillLine]) -> String {
    if skills.is_empty() {
        return "There is no skill.".to_owned();
    }
    let line =
        |skill: &SkillLine| format!("`/{}` {}", skill.name, first_line(&skill.description, 80));
    skills.iter().map(line).collect::<Vec<_>>().join("\n")
}
