//! The commands of Hermes Agent (Python) 0.19, and what replaces each. Typing one that is missing names the nearest;
//! the migration guide has the same list.

/// A command of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginalCommand {
    /// What is typed after `hermes`.
    pub name: &'static str,
    /// Where it stands.
    pub standing: Standing,
    /// What there is here: a command, or how the same is reached.
    pub here: &'static str,
}

/// Whether a command of the original is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Under the same name.
    There,
    /// Under another name, or as part of something else.
    Otherwise,
    /// Wanted, and not done.
    Later,
    /// Not wanted.
    NotPlanned,
}

impl Standing {
    /// The word in the guide.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::There => "there",
            Self::Otherwise => "there, otherwise",
            Self::Later => "later",
            Self::NotPlanned => "not planned",
        }
    }
}

const fn there(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, Standing::There, here)
}

const fn otherwise(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, Standing::Otherwise, here)
}

const fn later(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, Standing::Later, here)
}

const fn not_planned(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, Standing::NotPlanned, here)
}

const fn row(name: &'static str, standing: Standing, here: &'static str) -> OriginalCommand {
    OriginalCommand {
        name,
        standing,
        here,
    }
}

/// All of them, in the order of its help.
pub const ORIGINAL_COMMANDS: &[OriginalCommand] = &[
    there("chat", "`hermes chat`"),
    there("model", "`hermes model`"),
    later("moa", "one model answers; `hermes model` chooses it"),
    otherwise("fallback", "`hermes config set fallback_providers '[…]'`"),
    otherwise(
        "secrets",
        "`hermes secret`; 1Password and Bitwarden are not read",
    ),
    not_planned(
        "migrate",
        "`hermes config check` names keys that are not known",
    ),
    there("gateway", "`hermes gateway`: cron jobs and the HTTP API"),
    not_planned(
        "proxy",
        "`hermes gateway run` has an OpenAI-compatible API of its own",
    ),
    later(
        "lsp",
        "a language server as an MCP server: `hermes mcp add`",
    ),
    there("setup", "`hermes setup`"),
    not_planned("postinstall", "there is nothing to install afterwards"),
    later(
        "whatsapp",
        "`hermes send` reaches Telegram, Discord and Slack",
    ),
    later(
        "whatsapp-cloud",
        "`hermes send` reaches Telegram, Discord and Slack",
    ),
    otherwise(
        "slack",
        "`SLACK_BOT_TOKEN` in `.env`, then `hermes send slack:…`",
    ),
    there("send", "`hermes send`"),
    later(
        "login",
        "keys of providers: `hermes model`; MCP servers: `hermes mcp login`",
    ),
    otherwise(
        "logout",
        "`hermes config unset NAME_API_KEY`; MCP servers: `hermes mcp logout`",
    ),
    later("auth", "one key for each provider: `hermes model`"),
    there("status", "`hermes status`"),
    there("cron", "`hermes cron`"),
    later(
        "webhook",
        "`hermes gateway run` has an HTTP API that starts runs",
    ),
    not_planned("portal", "`hermes model` with a provider of your own"),
    later(
        "kanban",
        "`hermes tenant` and `hermes share` for agents that work together",
    ),
    later("project", "start `hermes` in the directory of the project"),
    later(
        "hooks",
        "nothing is run around tools; approvals are in docs/guide/chat.md",
    ),
    there("doctor", "`hermes doctor`"),
    otherwise("security", "`hermes mcp doctor` looks at MCP servers"),
    otherwise("dump", "`hermes doctor --json`"),
    otherwise(
        "debug",
        "`hermes doctor` and `hermes logs`; nothing is uploaded",
    ),
    otherwise("backup", "copy the home; `hermes hub backup` for a Hub"),
    later("checkpoints", "`git` for files; `/undo` for a conversation"),
    later(
        "import",
        "unpack a copy of the home; `hermes mcp import` takes over MCP servers",
    ),
    there("config", "`hermes config`"),
    otherwise("console", "`hermes` alone, and `/help` in it"),
    later(
        "pairing",
        "the allow lists of the platforms, in `config.yaml`",
    ),
    there("skills", "`hermes skills`: list and view"),
    later("bundles", "`hermes -s ONE,TWO` uses several skills"),
    not_planned("plugins", "tools come from MCP servers: `hermes mcp add`"),
    later("curator", "`hermes skills list`"),
    not_planned("pets", "nothing"),
    later("journey", "`hermes sessions list`"),
    later("learning", "`hermes sessions list`"),
    later("memory-graph", "`hermes sessions list`"),
    later(
        "memory",
        "`memories/MEMORY.md` and `USER.md` in the home; an MCP server for more",
    ),
    otherwise(
        "tools",
        "`/tools` in a chat, `hermes mcp tools`, `platform_toolsets` in `config.yaml`",
    ),
    later(
        "computer-use",
        "an MCP server that does it: `hermes mcp add`",
    ),
    there("mcp", "`hermes mcp`"),
    there("sessions", "`hermes sessions`"),
    later("insights", "`/usage` in a chat"),
    not_planned("claw", "`hermes mcp import` takes over MCP servers"),
    there("version", "`hermes version`"),
    otherwise("update", "install the new version over the old one"),
    otherwise(
        "uninstall",
        "delete the program, and the home if you no longer want it",
    ),
    later("acp", "`hermes mcp serve` for other agents"),
    otherwise("profile", "`hermes -p NAME …`"),
    otherwise("completion", "`hermes completions SHELL`"),
    otherwise("dashboard", "`hermes up` has a page in the browser"),
    otherwise("serve", "`hermes gateway run`, `hermes hub serve`"),
    not_planned("desktop", "`hermes up` has a page in the browser"),
    not_planned("gui", "`hermes up` has a page in the browser"),
    there("logs", "`hermes logs`"),
    later("prompt-size", "`/usage` in a chat"),
];

/// The command of the original with this name.
pub(crate) fn original(name: &str) -> Option<&'static OriginalCommand> {
    ORIGINAL_COMMANDS
        .iter()
        .find(|command| command.name == name)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn what_is_said_to_be_there_is_there_and_the_rest_is_not() {
        assert_eq!(ORIGINAL_COMMANDS.len(), 62);
        let command = Cli::command();
        let ours: Vec<&str> = command
            .get_subcommands()
            .flat_map(clap::Command::get_name_and_visible_aliases)
            .collect();
        for original in ORIGINAL_COMMANDS {
            let is_there = original.standing == Standing::There;
            assert_eq!(ours.contains(&original.name), is_there, "{original:?}");
            // Commands that are named are ours.
            for named in original.here.split("`hermes ").skip(1) {
                let word = named.split([' ', '`']).next().unwrap();
                let is_ours = ours.contains(&word) || word.starts_with('-');
                assert!(is_ours, "{original:?}");
            }
        }
    }
}
