//! Whose file is this? For `--file` without a source.

use std::path::Path;

use serde_json::Value;

use super::{ImportSource, parse};

/// The program a file belongs to, by its name and, where that says too little, by its content.
pub fn detect_source(path: &Path, text: &str) -> Option<ImportSource> {
    detect_by_name(path).or_else(|| detect_by_content(path, text))
}

fn detect_by_name(path: &Path) -> Option<ImportSource> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let directory = path.parent().and_then(name).unwrap_or_default();
    match (directory.as_str(), name(path)?.as_str()) {
        (_, "claude_desktop_config.json") => Some(ImportSource::ClaudeDesktop),
        (_, ".claude.json" | ".mcp.json") => Some(ImportSource::ClaudeCode),
        (_, "mcp_config.json") => Some(ImportSource::Windsurf),
        (_, "opencode.json" | "opencode.jsonc") => Some(ImportSource::OpenCode),
        (".cursor", "mcp.json") => Some(ImportSource::Cursor),
        (".vscode", "mcp.json" | "settings.json") => Some(ImportSource::VsCode),
        (".codex", "config.toml") => Some(ImportSource::Codex),
        ("zed" | ".zed", "settings.json") => Some(ImportSource::Zed),
        ("goose", "config.yaml") => Some(ImportSource::Goose),
        _ => None,
    }
}

fn detect_by_content(path: &Path, text: &str) -> Option<ImportSource> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => {
            let document = parse::parse_toml(text, path).ok()?;
            document.get("mcp_servers").map(|_| ImportSource::Codex)
        }
        Some("yaml" | "yml") => {
            let document = parse::parse_yaml(text, path).ok()?;
            document.get("extensions").map(|_| ImportSource::Goose)
        }
        _ => detect_by_json(&parse::parse_jsonc(text, path).ok()?),
    }
}

fn detect_by_json(document: &Value) -> Option<ImportSource> {
    if document.get("context_servers").is_some() {
        return Some(ImportSource::Zed);
    }
    if document.get("servers").is_some() {
        return Some(ImportSource::VsCode);
    }
    if document.get("projects").is_some() {
        return Some(ImportSource::ClaudeCode);
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
            _ if opencode => Some(ImportSource::OpenCode),
            Some(_) => Some(ImportSource::VsCode),
            None => None,
        };
    }
    let servers = document.get("mcpServers")?;
    if any_server(servers, |server| server.get("serverUrl").is_some()) {
        Some(ImportSource::Windsurf)
    } else if any_server(servers, |server| server.get("type").is_some()) {
        Some(ImportSource::ClaudeCode)
    } else if servers.to_string().contains("${env:")
        || any_server(servers, |server| server.get("url").is_some())
    {
        Some(ImportSource::Cursor)
    } else {
        Some(ImportSource::ClaudeDesktop)
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
            ("/x/claude_desktop_config.json", ImportSource::ClaudeDesktop),
            ("/x/.claude.json", ImportSource::ClaudeCode),
            ("/x/.mcp.json", ImportSource::ClaudeCode),
            ("/x/.cursor/mcp.json", ImportSource::Cursor),
            ("/x/.vscode/mcp.json", ImportSource::VsCode),
            ("/x/windsurf/mcp_config.json", ImportSource::Windsurf),
            ("/x/.codex/config.toml", ImportSource::Codex),
            ("/x/opencode.jsonc", ImportSource::OpenCode),
            ("/x/zed/settings.json", ImportSource::Zed),
            ("/x/goose/config.yaml", ImportSource::Goose),
        ] {
            assert_eq!(detect_source(Path::new(path), ""), Some(source), "{path}");
        }
    }

    #[test]
    fn otherwise_the_content_decides() {
        for (path, text, source) in [
            (
                "a.json",
                r#"{"mcpServers": {"x": {"command": "y"}}}"#,
                Some(ImportSource::ClaudeDesktop),
            ),
            (
                "a.json",
                r#"{"mcpServers": {"x": {"type": "http", "url": "y"}}}"#,
                Some(ImportSource::ClaudeCode),
            ),
            (
                "a.json",
                r#"{"mcpServers": {"x": {"serverUrl": "y"}}}"#,
                Some(ImportSource::Windsurf),
            ),
            (
                "a.json",
                r#"{"mcpServers": {"x": {"url": "y"}}}"#,
                Some(ImportSource::Cursor),
            ),
            ("a.json", r#"{"servers": {}}"#, Some(ImportSource::VsCode)),
            (
                "settings.json",
                r#"{"mcp": {"servers": {"x": {"command": "y"}}}}"#,
                Some(ImportSource::VsCode),
            ),
            (
                "settings.json",
                r#"{"context_servers": {}}"#,
                Some(ImportSource::Zed),
            ),
            (
                "a.json",
                r#"{"mcp": {"x": {"type": "local"}}}"#,
                Some(ImportSource::OpenCode),
            ),
            (
                "a.json",
                r#"{"mcp": {"servers": {"x": {"type": "remote"}}}}"#,
                Some(ImportSource::OpenCode),
            ),
            ("a.toml", "[mcp_servers.x]", Some(ImportSource::Codex)),
            ("a.yml", "extensions: {}", Some(ImportSource::Goose)),
            ("a.json", r#"{"other": 1}"#, None),
            ("a.json", "{broken", None),
        ] {
            assert_eq!(detect_source(Path::new(path), text), source, "{text}");
        }
    }
}
