//! Whose file is this? For `--file` without a source.

use std::path::Path;

use serde_json::Value;

use super::{Source, parse};

/// The program a file belongs to, by its name and, where that says too little, by its content.
pub fn detect(path: &Path, text: &str) -> Option<Source> {
    by_name(path).or_else(|| by_content(path, text))
}

fn by_name(path: &Path) -> Option<Source> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let directory = path.parent().and_then(name).unwrap_or_default();
    match (directory.as_str(), name(path)?.as_str()) {
        (_, "claude_desktop_config.json") => Some(Source::ClaudeDesktop),
        (_, ".claude.json" | ".mcp.json") => Some(Source::ClaudeCode),
        (_, "mcp_config.json") => Some(Source::Windsurf),
        (_, "opencode.json" | "opencode.jsonc") => Some(Source::OpenCode),
        (".cursor", "mcp.json") => Some(Source::Cursor),
        (".vscode", "mcp.json" | "settings.json") => Some(Source::VsCode),
        (".codex", "config.toml") => Some(Source::Codex),
        ("zed" | ".zed", "settings.json") => Some(Source::Zed),
        ("goose", "config.yaml") => Some(Source::Goose),
        _ => None,
    }
}

fn by_content(path: &Path, text: &str) -> Option<Source> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => {
            let document = parse::toml(text, path).ok()?;
            document.get("mcp_servers").map(|_| Source::Codex)
        }
        Some("yaml" | "yml") => {
            let document = parse::yaml(text, path).ok()?;
            document.get("extensions").map(|_| Source::Goose)
        }
        _ => by_json(&parse::jsonc(text, path).ok()?),
    }
}

fn by_json(document: &Value) -> Option<Source> {
    if document.get("context_servers").is_some() {
        return Some(Source::Zed);
    }
    if document.get("servers").is_some() {
        return Some(Source::VsCode);
    }
    if document.get("projects").is_some() {
        return Some(Source::ClaudeCode);
    }
    if let Some(section) = document.get("mcp") {
        let is_theirs = |servers: &Value| {
            any_server(servers, |server| {
                matches!(
                    server.get("type").and_then(Value::as_str),
                    Some("local" | "remote")
                )
            })
        };
        let servers = section.get("servers");
        let opencode = is_theirs(section) || servers.is_some_and(is_theirs);
        return match servers {
            _ if opencode => Some(Source::OpenCode),
            Some(_) => Some(Source::VsCode),
            None => None,
        };
    }
    let servers = document.get("mcpServers")?;
    if any_server(servers, |server| server.get("serverUrl").is_some()) {
        Some(Source::Windsurf)
    } else if any_server(servers, |server| server.get("type").is_some()) {
        Some(Source::ClaudeCode)
    } else if servers.to_string().contains("${env:")
        || any_server(servers, |server| server.get("url").is_some())
    {
        Some(Source::Cursor)
    } else {
        Some(Source::ClaudeDesktop)
    }
}

fn any_server(servers: &Value, is_so: impl Fn(&Value) -> bool) -> bool {
    servers
        .as_object()
        .is_some_and(|servers| servers.values().any(is_so))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_telling_name_is_enough() {
        for (path, source) in [
            ("/x/claude_desktop_config.json", Source::ClaudeDesktop),
            ("/x/.claude.json", Source::ClaudeCode),
            ("/x/.mcp.json", Source::ClaudeCode),
            ("/x/.cursor/mcp.json", Source::Cursor),
            ("/x/.vscode/mcp.json", Source::VsCode),
            ("/x/windsurf/mcp_config.json", Source::Windsurf),
            ("/x/.codex/config.toml", Source::Codex),
            ("/x/opencode.jsonc", Source::OpenCode),
            ("/x/zed/settings.json", Source::Zed),
            ("/x/goose/config.yaml", Source::Goose),
        ] {
            assert_eq!(detect(Path::new(path), ""), Some(source), "{path}");
        }
    }

    #[test]
    fn otherwise_the_content_decides() {
        for (path, text, source) in [
            (
                "a.json",
                r#"{"mcpServers": {"x": {"command": "y"}}}"#,
                Some(Source::ClaudeDesktop),
            ),
            (
                "a.json",
                r#"{"mcpServers": {"x": {"type": "http", "url": "y"}}}"#,
                Some(Source::ClaudeCode),
            ),
            (
                "a.json",
                r#"{"mcpServers": {"x": {"serverUrl": "y"}}}"#,
                Some(Source::Windsurf),
            ),
            (
                "a.json",
                r#"{"mcpServers": {"x": {"url": "y"}}}"#,
                Some(Source::Cursor),
            ),
            ("a.json", r#"{"servers": {}}"#, Some(Source::VsCode)),
            (
                "settings.json",
                r#"{"mcp": {"servers": {"x": {"command": "y"}}}}"#,
                Some(Source::VsCode),
            ),
            (
                "settings.json",
                r#"{"context_servers": {}}"#,
                Some(Source::Zed),
            ),
            (
                "a.json",
                r#"{"mcp": {"x": {"type": "local"}}}"#,
                Some(Source::OpenCode),
            ),
            (
                "a.json",
                r#"{"mcp": {"servers": {"x": {"type": "remote"}}}}"#,
                Some(Source::OpenCode),
            ),
            ("a.toml", "[mcp_servers.x]", Some(Source::Codex)),
            ("a.yml", "extensions: {}", Some(Source::Goose)),
            ("a.json", r#"{"other": 1}"#, None),
            ("a.json", "{broken", None),
        ] {
            assert_eq!(detect(Path::new(path), text), source, "{text}");
        }
    }
}
