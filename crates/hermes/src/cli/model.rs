//! The arguments of `hermes model`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Without a name it asks: which provider, its key, which of its models. The key is kept in .env, the rest becomes the
`model` of config.yaml.

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
