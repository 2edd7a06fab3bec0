//! The programs servers can be imported from, and which one a file belongs to, for `--file` without a source.

pub(crate) mod codex;
pub(crate) mod editors;
pub(crate) mod goose;
pub(crate) mod opencode;
pub(crate) mod standard_keys;

use std::path::Path;

use serde_json::Value;

use super::parse;

/// A program whose servers can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImportSource {
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Claude Code: `~/.claude.json` and a project's `.mcp.json`.
    ClaudeCode,
    /// Cursor: `mcp.json` in `.cursor`.
    Cursor,
    /// Windsurf: `mcp_config.json`.
    Windsurf,
    /// VS Code: `mcp.json`, or `mcp` in `settings.json`.
    VsCode,
    /// Codex: `config.toml`.
    Codex,
    /// OpenCode: `opencode.json` or `.jsonc`.
    OpenCode,
    /// Zed: `context_servers` in `settings.json`.
    Zed,
    /// Goose: `extensions` in `config.yaml`.
    Goose,
}

impl ImportSource {
    /// All of them, in the order they are shown.
    pub const ALL: [Self; 9] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::Windsurf,
        Self::VsCode,
        Self::Codex,
        Self::OpenCode,
        Self::Zed,
        Self::Goose,
    ];

    /// The source a user names on the command line, such as `claude-desktop`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// The word for the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Windsurf => "windsurf",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Zed => "zed",
            Self::Goose => "goose",
        }
    }

    /// The product's own name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Windsurf => "Windsurf",
            Self::VsCode => "VS Code",
            Self::Codex => "Codex",
            Self::OpenCode => "OpenCode",
            Self::Zed => "Zed",
            Self::Goose => "Goose",
        }
    }
}

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
    fn every_name_leads_back_to_its_source() {
        for source in ImportSource::ALL {
            assert_eq!(ImportSource::parse(source.name()), Some(source));
        }
        assert_eq!(ImportSource::parse("emacs"), None);
    }

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
