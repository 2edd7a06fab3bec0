//! `hermes tenant sessions`: conversations of a tenant's agent.

use serde_json::Value;

use super::tenant_call;
use crate::{
    cli::{TenantSessionsArgs, TenantSessionsCommand},
    commands::hub::client::{Column, HubClient, plain_text},
    failure::Failure,
    output::printable,
};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("SOURCE", "/source"),
    ("LAST ACTIVE", "/lastActiveAt"),
    ("MESSAGES", "/messageCount"),
    ("TITLE", "/title"),
    ("BEGINS", "/preview"),
];
const MATCHES: &[Column] = &[
    ("SESSION", "/sessionId"),
    ("TIME", "/time"),
    ("ROLE", "/role"),
    ("TEXT", "/snippet"),
];

pub(super) fn run(hub: &HubClient<'_>, args: TenantSessionsArgs) -> Result<(), Failure> {
    let tenant = &args.tenant;
    match args.command {
        TenantSessionsCommand::List { source, page } => {
            let call = tenant_call("list_sessions", tenant).with_optional("source", source);
            let answer = hub.call_list(call, "sessions", &page.into())?;
            hub.show_list(&answer, "sessions", COLUMNS, "There are no conversations.");
        }
        TenantSessionsCommand::Show { session, all, page } => {
            let call = tenant_call("list_session_messages", tenant)
                .with("session_id", session)
                .with_flag("all", all);
            let answer = hub.call_list(call, "messages", &page.into())?;
            if !hub.output().is_json() {
                show_messages(hub, &answer.value);
            }
        }
        TenantSessionsCommand::Search {
            query,
            session,
            source,
            page,
        } => {
            let call = tenant_call("search_sessions", tenant)
                .with("query", query)
                .with_optional("session_id", session)
                .with_optional("source", source);
            let answer = hub.call_list(call, "matches", &page.into())?;
            hub.show_list(&answer, "matches", MATCHES, "Nothing was found.");
        }
        TenantSessionsCommand::Rename { session, title } => {
            let call = tenant_call("rename_session", tenant)
                .with("session_id", session.clone())
                .with("title", title);
            let answer = hub.call(&call)?;
            let output = hub.output();
            output.note(match answer.value["title"].as_str() {
                Some(title) => format!("`{session}` is now called `{}`.", printable(title)),
                None => format!("`{session}` has no title now."),
            });
            output.json(answer.value);
        }
        TenantSessionsCommand::Delete { session, sure } => {
            hub.confirm(
                sure.yes,
                &format!("Delete the conversation `{session}` of `{tenant}`, for good?"),
            )?;
            let call = tenant_call("delete_session", tenant).with("session_id", session.clone());
            hub.call(&call)?;
            hub.output().note(format!("Deleted `{session}`."));
        }
    }
    Ok(())
}

fn show_messages(hub: &HubClient<'_>, value: &Value) {
    let output = hub.output();
    for message in value["messages"].as_array().into_iter().flatten() {
        let mut title = format!(
            "[{}] {}",
            plain_text(&message["time"]),
            plain_text(&message["role"])
        );
        if let Some(tool) = message["toolName"].as_str() {
            title = format!("{title} {}", printable(tool));
        }
        output.line(title);
        if let Some(text) = message["text"].as_str().filter(|text| !text.is_empty()) {
            for line in text.lines() {
                output.line(format!("  {}", printable(line)));
            }
        }
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            let name = call["function"]["name"].as_str().unwrap_or("?");
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            output.line(format!("  > {} {}", printable(name), printable(arguments)));
        }
    }
}
