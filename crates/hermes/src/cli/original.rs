//! The commands of Hermes Agent (Python) 0.19, and what replaces each. Typing one that is missing names the nearest;
//! the migration guide has the same list.

/// A command of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginalCommand {
    /// What is typed after `hermes`.
    pub name: &'static str,
    /// Whether this program has it.
    pub support: CommandSupport,
    /// The command to use here, or another way to the same result.
    pub replacement: &'static str,
}

/// Whether a command of the original is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSupport {
    /// Under the same name.
    SameName,
    /// Under another name, or as part of another command.
    OtherName,
    Planned,
    NotPlanned,
}

impl CommandSupport {
    /// The word in the guide.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameName => "yes",
            Self::OtherName => "other name",
            Self::Planned => "planned",
            Self::NotPlanned => "not planned",
        }
    }
}

const fn same_name(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, CommandSupport::SameName, here)
}

const fn other_name(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, CommandSupport::OtherName, here)
}

const fn planned(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, CommandSupport::Planned, here)
}

const fn not_planned(name: &'static str, here: &'static str) -> OriginalCommand {
    row(name, CommandSupport::NotPlanned, here)
}

const fn row(
    name: &'static str,
    support: CommandSupport,
    replacement: &'static str,
) -> OriginalCommand {
    OriginalCommand {
        name,
        support,
        replacement,
    }
}

/// All of them, in the order of its help.
pub const ORIGINAL_COMMANDS: &[OriginalCommand] = &[
    same_name("chat", "`hermes chat`"),
    same_name("model", "`hermes model`"),
    planned("moa", "one model answers; `hermes model` chooses it"),
    other_name("fallback", "`hermes config set fallback_providers '[…]'`"),
    other_name(
        "secrets",
        "`hermes secret`; 1Password and Bitwarden are not read",
    ),
    not_planned("migrate", "`hermes config check` lists unknown keys"),
    same_name(
        "gateway",
        "`hermes gateway`: platforms, cron jobs and the HTTP API",
    ),
    not_planned("proxy", "`hermes gateway run` has an OpenAI-compatible API"),
    planned(
        "lsp",
        "a language server as an MCP server: `hermes mcp add`",
    ),
    same_name("setup", "`hermes setup`"),
    not_planned("postinstall", "there is nothing to install afterwards"),
    planned(
        "whatsapp",
        "`hermes send` reaches Telegram, Discord and Slack",
    ),
    planned(
        "whatsapp-cloud",
        "`hermes send` reaches Telegram, Discord and Slack",
    ),
    other_name(
        "slack",
        "`hermes gateway setup --platform slack`; `--manifest` prints the manifest",
    ),
    same_name("send", "`hermes send`"),
    planned(
        "login",
        "keys of providers: `hermes model`; MCP servers: `hermes mcp login`",
    ),
    other_name(
        "logout",
        "`hermes config unset NAME_API_KEY`; MCP servers: `hermes mcp logout`",
    ),
    planned("auth", "one key for each provider: `hermes model`"),
    same_name("status", "`hermes status`"),
    same_name("cron", "`hermes cron`"),
    planned(
        "webhook",
        "`hermes gateway run` has an HTTP API that starts runs",
    ),
    not_planned("portal", "`hermes model` with a provider of your own"),
    planned(
        "kanban",
        "`hermes tenant` and `hermes share` for agents that work together",
    ),
    planned("project", "start `hermes` in the directory of the project"),
    planned(
        "hooks",
        "no hooks around tools; see approvals in docs/guide/chat.md",
    ),
    same_name("doctor", "`hermes doctor`"),
    other_name("security", "`hermes mcp doctor` checks MCP servers"),
    other_name("dump", "`hermes doctor --json`"),
    other_name(
        "debug",
        "`hermes doctor` and `hermes logs`; nothing is uploaded",
    ),
    other_name("backup", "copy the home; `hermes hub backup` for a Hub"),
    planned("checkpoints", "`git` for files; `/undo` for a conversation"),
    planned(
        "import",
        "unpack a copy of the home; `hermes mcp import` imports MCP servers",
    ),
    same_name("config", "`hermes config`"),
    other_name("console", "`hermes` alone, and `/help` in it"),
    same_name("pairing", "`hermes pairing`"),
    same_name("skills", "`hermes skills`: list and view"),
    planned("bundles", "`hermes -s ONE,TWO` uses several skills"),
    not_planned("plugins", "tools come from MCP servers: `hermes mcp add`"),
    planned("curator", "`hermes skills list`"),
    not_planned("pets", "nothing"),
    planned("journey", "`hermes sessions list`"),
    planned("learning", "`hermes sessions list`"),
    planned("memory-graph", "`hermes sessions list`"),
    planned(
        "memory",
        "`memories/MEMORY.md` and `USER.md` in the home; an MCP server for more",
    ),
    other_name(
        "tools",
        "`/tools` in a chat, `hermes mcp tools`, `platform_toolsets` in `config.yaml`",
    ),
    planned(
        "computer-use",
        "an MCP server that does it: `hermes mcp add`",
    ),
    same_name("mcp", "`hermes mcp`"),
    same_name("sessions", "`hermes sessions`"),
    planned("insights", "`/usage` in a chat"),
    not_planned("claw", "`hermes mcp import` imports MCP servers"),
    same_name("version", "`hermes version`"),
    other_name("update", "install the new version over the old one"),
    other_name(
        "uninstall",
        "delete the program, and the home if you no longer need it",
    ),
    planned("acp", "`hermes mcp serve` for other agents"),
    other_name("profile", "`hermes -p NAME …`"),
    other_name("completion", "`hermes completions SHELL`"),
    other_name(
        "dashboard",
        "`hermes up` and `hermes hub serve` have a web console",
    ),
    other_name("serve", "`hermes gateway run`, `hermes hub serve`"),
    not_planned("desktop", "`hermes` at the terminal"),
    not_planned("gui", "`hermes` at the terminal"),
    same_name("logs", "`hermes logs`"),
    planned("prompt-size", "`/usage` in a chat"),
];

/// The command of the original with this name.
pub(crate) fn find_original(name: &str) -> Option<&'static OriginalCommand> {
    ORIGINAL_COMMANDS
        .iter()
        .find(|command| command.name == name)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// The words of a command line up to the first that is not of the program: a name, a file, a value.
    fn check_words(line: &str, original: &OriginalCommand) {
        let mut command = Cli::command();
        command.build();
        let mut at = &command;
        for word in line.split_whitespace() {
            let is_option = |argument: &&clap::Arg| {
                let long = argument.get_long().map(|long| format!("--{long}"));
                let short = argument.get_short().map(|short| format!("-{short}"));
                long.as_deref() == Some(word) || short.as_deref() == Some(word)
            };
            match at.find_subcommand(word) {
                Some(inner) => at = inner,
                None if word.starts_with('-') => {
                    assert!(
                        at.get_arguments().any(|it| is_option(&it)),
                        "{original:?}: {word}"
                    );
                }
                None => {
                    assert!(
                        !at.has_subcommands() || at.get_name() == "hermes",
                        "{original:?}: {word}"
                    );
                    return;
                }
            }
        }
    }

    #[test]
    fn commands_listed_under_the_same_name_exist_and_no_others() {
        assert_eq!(ORIGINAL_COMMANDS.len(), 62);
        let command = Cli::command();
        let ours: Vec<&str> = command
            .get_subcommands()
            .flat_map(clap::Command::get_name_and_visible_aliases)
            .collect();
        for original in ORIGINAL_COMMANDS {
            let is_there = original.support == CommandSupport::SameName;
            assert_eq!(ours.contains(&original.name), is_there, "{original:?}");
            // Commands that are named are ours.
            for named in original.replacement.split("`hermes ").skip(1) {
                let word = named.split([' ', '`']).next().unwrap();
                let is_ours = ours.contains(&word) || word.starts_with('-');
                assert!(is_ours, "{original:?}");
                check_words(named.split('`').next().unwrap(), original);
            }
        }
    }
}
