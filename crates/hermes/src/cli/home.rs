//! The arguments of commands about a home: `config`, `doctor`, `setup`, `gateway`, `model`, `secret`, `skills`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "\
`hermes config` alone is `hermes config show`. Keys are written with dots, as in docs/reference/configuration.md. A \
name in capital letters, such as OPENAI_API_KEY, is a variable and is kept in `.env`. Comments and all other keys in \
config.yaml stay as they are.

Examples:
  hermes config set agent.max_turns 40
  hermes config set mcp_servers.time.enabled false
  printf %s \"$KEY\" | hermes config set OPENAI_API_KEY -
  hermes config get model")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ConfigCommand>,
}

/// What can be done with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what config.yaml and .env say; secrets are masked.
    Show,
    /// Print one value as it is written; secrets are masked.
    Get {
        /// The key, such as `agent.max_turns`.
        key: String,
    },
    /// Write one value.
    Set(ConfigSetArgs),
    /// Remove a value.
    Unset {
        /// The key, or the name of a variable.
        key: String,
    },
    /// Open config.yaml in an editor ($VISUAL, $EDITOR), then check it.
    Edit,
    /// Check config.yaml for errors and unknown keys.
    Check,
    /// Print where config.yaml is.
    Path,
    /// Print where .env is.
    EnvPath,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigSetArgs {
    /// The key, or the name of a variable.
    pub(crate) key: String,
    /// The value: text, or YAML for numbers, flags and lists. `-` reads it from stdin.
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,
    /// Do not warn about an unknown key.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HomeDoctorArgs {
    /// Also connect to every MCP server, and ask every messaging platform about its bot.
    #[arg(long)]
    pub(crate) probe: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Asks for a model, a first MCP server and the tokens of messaging platforms. Existing settings are kept. Without a \
terminal, or with --yes, it does not ask: it writes config.yaml if there is none, and lists what is missing and the \
command that sets it.")]
pub(crate) struct SetupArgs {
    /// Only this part.
    #[arg(value_parser = ["model", "server", "platforms"])]
    pub(crate) part: Option<String>,
    /// Do not ask questions.
    #[arg(short, long, visible_alias = "non-interactive")]
    pub(crate) yes: bool,
}

/// What can be done with skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills the agent knows.
    #[command(visible_alias = "ls")]
    List,
    /// Print a skill's instructions, or one of its files.
    View(SkillViewArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SkillViewArgs {
    /// The skill; `category/name` where a name is not enough.
    pub(crate) name: String,
    /// A file of the skill, such as `references/api.md`.
    pub(crate) file: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a secret: typed without echo, or read from stdin.
    #[command(after_help = "\
Write `${keyring:NAME}` in the configuration where the value belongs.

Examples:
  hermes secret set github
  printf %s \"$TOKEN\" | hermes secret set github")]
    Set(SecretArgs),
    /// List the names of secrets, where they are kept and which servers use them. Values are not shown.
    #[command(visible_alias = "ls")]
    List,
    /// Remove a secret.
    #[command(visible_alias = "rm")]
    Remove(SecretArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// The secret's name.
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without a name it asks for a provider, its key and one of its models. The key is kept in .env, the rest under `model` \
in config.yaml.

Examples:
  hermes model
  hermes model claude-sonnet-5 --provider anthropic
  hermes model qwen3:8b --base-url http://127.0.0.1:11434/v1
  hermes model --list
  hermes model --show")]
pub(crate) struct ModelArgs {
    /// The model to use from now on.
    pub(crate) name: Option<String>,
    /// Its provider: `openai`, `anthropic`, `gemini` and many others, or an entry under `providers`.
    #[arg(long, requires = "name")]
    pub(crate) provider: Option<String>,
    /// The address of a server that speaks OpenAI's protocol.
    #[arg(
        long,
        value_name = "URL",
        requires = "name",
        conflicts_with = "provider"
    )]
    pub(crate) base_url: Option<String>,
    /// Only show which model is used, its provider and address, and where that is configured.
    #[arg(long, conflicts_with = "name")]
    pub(crate) show: bool,
    /// Only list the providers with a key and the servers of this machine, with the models of each.
    #[arg(long, conflicts_with_all = ["name", "show"])]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
While the gateway runs, the agent answers on Telegram, Discord and Slack, and cron jobs run. With API_SERVER_KEY set \
(16 characters or more), programs reach the agent over HTTP on 127.0.0.1:8642.

Examples:
  hermes gateway setup            connect a bot: its token, and who may write to it
  hermes gateway                  run it here, until Ctrl-C
  hermes gateway install          run it as a service, from now on
  hermes gateway status           how it is, with every platform
  hermes gateway run --replace    stop the running one and take its place")]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) run: GatewayRunArgs,
    #[command(subcommand)]
    pub(crate) command: Option<GatewayCommand>,
}

/// What can be done with a gateway.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run it here, until Ctrl-C. This is what `hermes gateway` alone does.
    Run(GatewayRunArgs),
    /// Show whether it runs, and how each platform is.
    Status,
    /// Start it in the background: the service if it is installed.
    Start,
    /// Stop it: runs under way get `agent.restart_drain_timeout` seconds.
    Stop,
    /// Stop it if it runs, and start it.
    Restart,
    /// Install it as a service of the user (systemd, launchd), and start it.
    Install(GatewayInstallArgs),
    /// Stop the service and remove it.
    Uninstall,
    /// Connect a bot: check its token, say who may write to it, write `.env`.
    Setup(GatewaySetupArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GatewayInstallArgs {
    /// Replace a service of that name that another program wrote.
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not start it now.
    #[arg(long)]
    pub(crate) no_start: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without options it asks, and explains where each token comes from. Tokens and lists are kept in `.env`.

Examples:
  hermes gateway setup
  hermes gateway setup --platform slack --manifest > manifest.json
  printf %s \"$TOKEN\" | hermes gateway setup --platform telegram --token-stdin --allow 123456789
  printf '%s\\n%s' \"$BOT\" \"$APP\" | hermes gateway setup --platform slack --token-stdin --allow U012ABCDEF")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct GatewaySetupArgs {
    /// Which platform.
    #[arg(long, value_parser = ["telegram", "discord", "slack"])]
    pub(crate) platform: Option<String>,
    /// A further bot of the platform, under this name.
    #[arg(long, value_name = "NAME", requires = "platform")]
    pub(crate) account: Option<String>,
    /// Read the token from stdin; for Slack the app token (xapp-…) is the second line.
    #[arg(long, requires = "platform")]
    pub(crate) token_stdin: bool,
    /// Who may write to the bot: ids of users, with commas; `*` is everybody.
    #[arg(long, value_name = "IDS", requires = "platform", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
    /// The chat that messages without a target go to.
    #[arg(
        long,
        value_name = "CHAT",
        requires = "platform",
        allow_hyphen_values = true
    )]
    pub(crate) home_channel: Option<String>,
    /// Write the token without asking the platform about it.
    #[arg(long, requires = "token_stdin")]
    pub(crate) no_check: bool,
    /// Print the manifest for a Slack app, and do nothing else.
    #[arg(long, requires = "platform")]
    pub(crate) manifest: bool,
    /// Wait for the first message to the bot, up to 5 minutes.
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct GatewayRunArgs {
    /// Log to stderr instead of `logs/hermes.log`; twice for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Stop the running gateway of this home and take its place.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Leave the terminal: for `hermes gateway start`.
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}
