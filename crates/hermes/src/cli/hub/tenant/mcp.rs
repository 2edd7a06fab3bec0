//! The arguments of `hermes tenant model` and `hermes tenant mcp …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::ConfirmArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
The model is a setting of the tenant's home. `agent.model` (`hermes tenant update --model`) wins over its name.
An option with an empty value removes the setting.

Examples:
  hermes tenant model acme
  hermes tenant model acme gpt-5 --provider openai --key-env OPENAI_API_KEY --test")]
pub(crate) struct TenantModelArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    /// The model to use from now on.
    pub(crate) name: Option<String>,
    /// The provider that offers it.
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// The address of its endpoint.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The tenant's variable that holds the key.
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<String>,
    /// The protocol: `chat_completions`, `anthropic_messages` or `auto`.
    #[arg(long, value_name = "MODE")]
    pub(crate) api_mode: Option<String>,
    /// How many tokens fit into one request with its reply.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context_length: Option<u32>,
    /// Test it with a short request.
    #[arg(long)]
    pub(crate) test: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes tenant mcp acme add time -- uvx mcp-server-time
  hermes tenant mcp acme add github https://api.githubcopilot.com/mcp --header 'Authorization=Bearer ${GITHUB_TOKEN}'
  hermes tenant mcp acme call time get_current_time timezone=UTC
  hermes tenant mcp acme login linear")]
pub(crate) struct TenantMcpArgs {
    /// The tenant's id.
    pub(crate) tenant: String,
    #[command(subcommand)]
    pub(crate) command: TenantMcpCommand,
}

/// What can be done with a tenant's MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantMcpCommand {
    /// List the servers.
    List,
    /// Add a server, or replace it.
    Add(Box<TenantMcpAddArgs>),
    /// Show a server, without secrets.
    Get(TenantServerArgs),
    /// Remove a server, with its login.
    Remove {
        /// The server's name.
        server: String,
        #[command(flatten)]
        sure: ConfirmArgs,
    },
    /// Connect to a server and show what it offers.
    Test(TenantServerArgs),
    /// List the tools of a server.
    Tools(TenantServerArgs),
    /// Accept changed tools as they are now, so that the agent gets them again.
    Accept {
        /// The server's name.
        server: String,
        /// The tools, by the server's own names for them.
        #[arg(required = true, value_name = "TOOL")]
        tools: Vec<String>,
    },
    /// Call a tool of a server.
    Call(TenantMcpCallArgs),
    /// Show what a local server has printed on stderr.
    Logs {
        /// The server's name.
        server: String,
        /// How many of the last lines.
        #[arg(short = 'n', long, value_name = "COUNT")]
        lines: Option<u32>,
    },
    /// Log in to a remote server: shows the address to open in a browser.
    Login {
        /// The server's name.
        server: String,
        /// The address that the browser ended at, if it could not reach the Hub: this ends the login.
        #[arg(long, value_name = "ADDRESS")]
        code: Option<String>,
    },
    /// Let the agent connect to a server.
    Enable(TenantServerArgs),
    /// Keep a server without connecting to it.
    Disable(TenantServerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TenantServerArgs {
    /// The server's name.
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct TenantMcpAddArgs {
    /// The name to give it.
    pub(crate) server: String,
    /// The address of a remote server.
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// After `--`: the program of a local server and its arguments.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "url")]
    pub(crate) program: Vec<String>,
    /// A variable for a local server (repeatable); `${NAME}` stands for a variable of the tenant.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header for a remote server (repeatable); `${NAME}` stands for a variable of the tenant.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) header: Vec<String>,
    /// `oauth`: a login, which `login` begins.
    #[arg(long, value_parser = ["oauth"])]
    pub(crate) auth: Option<String>,
    /// Save it disabled.
    #[arg(long)]
    pub(crate) disabled: bool,
    /// More keys, as JSON from a file or `-` for stdin; other options win.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TenantMcpCallArgs {
    /// The server's name.
    pub(crate) server: String,
    /// The tool.
    pub(crate) tool: String,
    /// Its arguments: name=value, name:=JSON, or one JSON object.
    #[arg(value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
    /// Timeout in seconds, 1 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) timeout: u64,
}
