//! The arguments of commands about a home as a whole: `config`, `doctor`, `setup`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "\
Without a verb it is `show`. Keys are written with dots, as docs/reference/configuration.md has them; a name in capital
letters, such as OPENAI_API_KEY, is a variable and kept in `.env`. Comments and everything else in config.yaml stay.

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
    /// Also connect to every MCP server.
    #[arg(long)]
    pub(crate) probe: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Asks for a model, a first MCP server and the tokens of messaging platforms; what is there already is kept. Without a
terminal, or with --yes, it asks nothing: it writes config.yaml if there is none, and says what is missing and which
command supplies it.")]
pub(crate) struct SetupArgs {
    /// Only this part.
    #[arg(value_parser = ["model", "server", "platforms"])]
    pub(crate) part: Option<String>,
    /// Do not ask questions.
    #[arg(short, long, visible_alias = "non-interactive")]
    pub(crate) yes: bool,
}
