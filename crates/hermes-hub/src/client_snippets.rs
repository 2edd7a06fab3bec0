//! How programs connect to a Hub by MCP: what to write where, with the Hub's address and without a token.

/// Stands for the token, which is nobody else's business.
const TOKEN: &str = "YOUR_TOKEN";

/// What to write for one program.
#[derive(Debug, Clone)]
pub struct ClientSnippet {
    pub id: &'static str,
    pub name: &'static str,
    /// The file it goes to, or none for a command.
    pub file: Option<&'static str>,
    pub text: String,
}

/// All programs that are known. `url` is the Hub's `/mcp`.
pub fn client_snippets(url: &str) -> Vec<ClientSnippet> {
    let bearer = format!("Bearer {TOKEN}");
    let json = |value: serde_json::Value| serde_json::to_string_pretty(&value).unwrap_or_default();
    let headers = serde_json::json!({"Authorization": bearer});
    vec![
        ClientSnippet {
            id: "claude-code",
            name: "Claude Code",
            file: None,
            text: format!(
                "claude mcp add --transport http hermes {url} --header \"Authorization: {bearer}\""
            ),
        },
        ClientSnippet {
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
        ClientSnippet {
            id: "cursor",
            name: "Cursor",
            file: Some("~/.cursor/mcp.json"),
            text: json(
                serde_json::json!({"mcpServers": {"hermes": {"url": url, "headers": headers}}}),
            ),
        },
        ClientSnippet {
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
        ClientSnippet {
            id: "codex",
            name: "Codex",
            file: Some("~/.codex/config.toml"),
            text: format!(
                "[mcp_servers.hermes]\nurl = \"{url}\"\nbearer_token_env_var = \"HERMES_HUB_TOKEN\""
            ),
        },
        ClientSnippet {
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
        let snippets = client_snippets("https://hub.test/mcp");
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
