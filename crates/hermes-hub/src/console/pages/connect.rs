//! How programs connect to this Hub by MCP: what to write where, with this Hub's address.

use askama::Template;

use super::render;
use crate::{
    Problem,
    console::{frame::Frame, request::PageRequest},
};

/// Stands for the token, which the page does not know.
const TOKEN: &str = "YOUR_TOKEN";

#[derive(Template)]
#[template(path = "pages/connect.html")]
struct ConnectPage {
    page: Frame,
    url: String,
    is_served: bool,
    snippets: Vec<Snippet>,
    may_mint: bool,
}

/// What to write for one program.
struct Snippet {
    id: &'static str,
    name: &'static str,
    /// The file it goes to, or none for a command.
    file: Option<&'static str>,
    text: String,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let settings = request.hub.settings();
    let url = format!("{}/mcp", settings.public_url.trim_end_matches('/'));
    render(&ConnectPage {
        page: Frame::new(&request, request.texts.get("nav.connect")),
        snippets: snippets(&url),
        is_served: settings.mcp.enabled,
        url,
        may_mint: request.may("create_token"),
    })
}

fn snippets(url: &str) -> Vec<Snippet> {
    let bearer = format!("Bearer {TOKEN}");
    let json = |value: serde_json::Value| serde_json::to_string_pretty(&value).unwrap_or_default();
    let headers = serde_json::json!({"Authorization": bearer});
    vec![
        Snippet {
            id: "claude-code",
            name: "Claude Code",
            file: None,
            text: format!(
                "claude mcp add --transport http hermes {url} --header \"Authorization: {bearer}\""
            ),
        },
        Snippet {
            id: "claude-desktop",
            name: "Claude Desktop",
            file: Some("claude_desktop_config.json"),
            // It starts programs only: `mcp-remote` connects them.
            text: json(serde_json::json!({"mcpServers": {"hermes": {
                "command": "npx",
                "args": ["-y", "mcp-remote", url, "--header", "Authorization:${HERMES_AUTH}"],
                "env": {"HERMES_AUTH": bearer},
            }}})),
        },
        Snippet {
            id: "cursor",
            name: "Cursor",
            file: Some("~/.cursor/mcp.json"),
            text: json(
                serde_json::json!({"mcpServers": {"hermes": {"url": url, "headers": headers}}}),
            ),
        },
        Snippet {
            id: "vscode",
            name: "VS Code",
            file: Some(".vscode/mcp.json"),
            text: json(serde_json::json!({
                "inputs": [{"type": "promptString", "id": "hermes-token", "description": "Hermes token", "password": true}],
                "servers": {"hermes": {
                    "type": "http",
                    "url": url,
                    "headers": {"Authorization": "Bearer ${input:hermes-token}"},
                }},
            })),
        },
        Snippet {
            id: "codex",
            name: "Codex",
            file: Some("~/.codex/config.toml"),
            text: format!(
                "[mcp_servers.hermes]\nurl = \"{url}\"\nbearer_token_env_var = \"HERMES_HUB_TOKEN\""
            ),
        },
        Snippet {
            id: "curl",
            name: "curl",
            file: None,
            text: format!(
                "curl {url} -H \"Authorization: {bearer}\" \\\n  -H \"Content-Type: application/json\" \
                 -H \"Accept: application/json, text/event-stream\" \\\n  -d '{}'",
                serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "curl", "version": "1"},
                }})
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_snippet_has_the_address_and_no_secret() {
        let snippets = snippets("https://hub.test/mcp");
        for snippet in &snippets {
            let text = &snippet.text;
            assert!(text.contains("https://hub.test/mcp"), "{text}");
            assert!(!text.contains("hub_mgmt_"), "{text}");
            if snippet.file.is_some_and(|file| {
                std::path::Path::new(file)
                    .extension()
                    .is_some_and(|end| end == "json")
            }) {
                serde_json::from_str::<serde_json::Value>(text).unwrap();
            }
        }
    }
}
