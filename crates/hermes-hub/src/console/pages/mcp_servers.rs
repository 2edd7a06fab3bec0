//! The MCP servers of a tenant: how they are, and what to do about those that are not well.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::render;
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/mcp_servers.html")]
struct McpServersPage {
    page: Frame,
    tenant: String,
    servers: Vec<ServerView>,
    may_write: bool,
    may_remove: bool,
    may_set_env: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerListing {
    mcp_servers: Vec<ServerView>,
}

/// A server as the API shows it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerView {
    pub(super) name: String,
    pub(super) transport: Option<String>,
    pub(super) enabled: bool,
    status: Option<String>,
    pub(super) error: Option<String>,
    pub(super) tools: Option<u64>,
    pub(super) era: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) restarts: Option<u32>,
    pub(super) since: Option<Time>,
    pub(super) config: Map<String, Value>,
    pub(super) warnings: Vec<String>,
}

impl ServerView {
    /// Its state; while the agent sleeps, what its entry says.
    pub(super) fn state(&self) -> &str {
        match &self.status {
            Some(status) => status,
            None if self.transport.is_none() => "invalid",
            None if self.enabled => "asleep",
            None => "disabled",
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.status.as_deref() == Some("ready")
    }

    pub(super) fn is_remote(&self) -> bool {
        self.config.contains_key("url")
    }

    /// What it is: its address, or its program with the arguments.
    pub(super) fn origin(&self) -> String {
        let text = |key: &str| self.config.get(key).and_then(Value::as_str);
        if let Some(url) = text("url") {
            return url.to_owned();
        }
        let arguments = self.config.get("args").and_then(Value::as_array);
        let words = arguments.into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<&str> = text("command").into_iter().chain(words).collect();
        words.join(" ")
    }

    /// The key of the text that says what helps.
    pub(super) fn fix(&self) -> Option<&'static str> {
        Some(match self.state() {
            "needs_auth" => "mcp.fix.needs_auth",
            "invalid" => "mcp.fix.invalid",
            "parked" => "mcp.fix.parked",
            "reconnecting" => "mcp.fix.reconnecting",
            _ => return None,
        })
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let list: ServerListing = request
        .read("list_mcp_servers", json!({"tenant_id": tenant}))
        .await?;
    render(&McpServersPage {
        page: Frame::new(&request, request.texts.get("tabs.mcp")),
        tenant,
        servers: list.mcp_servers,
        may_write: request.may("put_mcp_server"),
        may_remove: request.may("delete_mcp_server"),
        may_set_env: request.may("set_env"),
    })
}
