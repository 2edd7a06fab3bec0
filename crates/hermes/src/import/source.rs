//! The programs servers can be imported from.

pub(crate) mod codex;
pub(crate) mod editors;
pub(crate) mod goose;
pub(crate) mod opencode;
pub(crate) mod standard_keys;

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

#[cfg(test)]
mod tests {
    use super::ImportSource;

    #[test]
    fn every_name_leads_back_to_its_source() {
        for source in ImportSource::ALL {
            assert_eq!(ImportSource::parse(source.name()), Some(source));
        }
        assert_eq!(ImportSource::parse("emacs"), None);
    }
}
