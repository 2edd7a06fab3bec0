//! The arguments of `hermes mcp …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What can be done with MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server: probe it, list its tools, write it to config.yaml.
    Add(AddArgs),
    /// List the configured servers; connects to none.
    #[command(visible_alias = "ls")]
    List,
    /// Remove a server with its tokens and caches.
    #[command(visible_alias = "rm")]
    Remove(RemoveArgs),
    /// Connect to a server, list what it offers, disconnect.
    Test(TestArgs),
    /// Call a tool.
    Call(CallArgs),
    /// List tools, or choose which are offered.
    Tools(ToolsArgs),
    /// Choose a server's tools from a checklist.
    Configure(ConfigureArgs),
    /// Connect a server again that was disabled.
    Enable(NameArgs),
    /// Keep a server's entry but do not connect it.
    Disable(NameArgs),
    /// Take over servers from another program.
    Import(ImportArgs),
    /// List the presets of `add --preset`.
    Presets,
    /// List servers that `install` knows.
    Catalog(CatalogArgs),
    /// Install a server from the catalog.
    Install(InstallArgs),
    /// Show the processes of local servers.
    Ps(PsArgs),
    /// Look for trouble: configuration, programs, files, processes.
    Doctor(DoctorArgs),
    /// Show the state of the servers, live if a hermes process runs.
    Status(StatusArgs),
    /// Make running hermes processes read the configuration again.
    Reload(ReloadArgs),
    /// Run the built-in MCP server on stdio.
    Demo,
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The server's name under `mcp_servers`.
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes mcp add time --command uvx --args mcp-server-time
  hermes mcp add fs --command npx --args -y @modelcontextprotocol/server-filesystem /tmp
  hermes mcp add docs --url https://docs.example.com/mcp --auth header
  hermes mcp add codex --preset codex")]
pub(crate) struct AddArgs {
    /// The name to give it.
    pub(crate) name: String,
    /// The address of a remote server.
    #[arg(long, conflicts_with_all = ["command", "preset"])]
    pub(crate) url: Option<String>,
    /// The program of a local server.
    #[arg(long)]
    pub(crate) command: Option<String>,
    /// Take command and arguments from a preset; other flags win over it.
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// An environment variable for a local server, K=V (repeatable).
    #[arg(long, value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// A header for a remote server, K=V (repeatable).
    #[arg(long, value_name = "K=V")]
    pub(crate) header: Vec<String>,
    /// How to log in: `oauth`, or `header` to be asked for a token that is kept in .env.
    #[arg(long, value_parser = ["oauth", "header"])]
    pub(crate) auth: Option<String>,
    /// The working directory of a local server.
    #[arg(long)]
    pub(crate) cwd: Option<String>,
    /// Seconds that one tool call may take.
    #[arg(long)]
    pub(crate) timeout: Option<f64>,
    /// Seconds that starting and listing may take.
    #[arg(long)]
    pub(crate) connect_timeout: Option<f64>,
    /// Offer only tools that match (repeatable; `*` is a wildcard).
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Offer all tools but those that match (repeatable).
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Its tools may run at the same time.
    #[arg(long)]
    pub(crate) parallel: bool,
    /// Save it disabled.
    #[arg(long)]
    pub(crate) disabled: bool,
    /// Save it without connecting first.
    #[arg(long)]
    pub(crate) no_test: bool,
    /// Replace an entry of that name; save (disabled) even if the probe fails.
    #[arg(long)]
    pub(crate) force: bool,
    /// Take the default answer to every question.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// The arguments of the program; everything after this flag belongs to it.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, trailing_var_arg = false, value_name = "ARG")]
    pub(crate) args: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The server's name.
    pub(crate) name: String,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The server's name.
    #[arg(required_unless_present = "all")]
    pub(crate) name: Option<String>,
    /// Test every enabled server.
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    /// Seconds to wait (default: the server's `connect_timeout` if set, else 30).
    #[arg(long)]
    pub(crate) timeout: Option<f64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes mcp call filesystem.read_text_file '{\"path\": \"/tmp/a.txt\"}'
  hermes mcp call filesystem read_text_file --arg path=/tmp/a.txt
  echo '{\"path\": \"/tmp\"}' | hermes mcp call filesystem.list_directory --args-json -")]
pub(crate) struct CallArgs {
    /// SERVER.TOOL, or SERVER with the tool as the next word.
    pub(crate) target: String,
    /// The tool (after a bare SERVER) and the arguments as JSON.
    #[arg(num_args = 0..=2)]
    pub(crate) rest: Vec<String>,
    /// One argument, k=v (repeatable); a value that is JSON is taken as JSON where the tool wants it so.
    #[arg(long = "arg", value_name = "K=V")]
    pub(crate) arg: Vec<String>,
    /// All arguments as JSON: the text itself, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) args_json: Option<String>,
    /// Seconds that the call may take.
    #[arg(long)]
    pub(crate) timeout: Option<f64>,
    /// Print the result as the server sent it.
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// The server; without one the tools of all servers are listed.
    pub(crate) name: Option<String>,
    /// From now on offer only tools that match (repeatable).
    #[arg(long, value_name = "PATTERN", requires = "name")]
    pub(crate) include: Vec<String>,
    /// From now on offer all but these (repeatable).
    #[arg(long, value_name = "PATTERN", requires = "name")]
    pub(crate) exclude: Vec<String>,
    /// From now on offer all tools.
    #[arg(long, requires = "name", conflicts_with_all = ["include", "exclude"])]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigureArgs {
    /// The server's name.
    pub(crate) name: String,
    /// Without a terminal: the tools to offer (repeatable).
    #[arg(long, value_name = "TOOL")]
    pub(crate) select: Vec<String>,
    /// Take the present choice without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Sources: claude-desktop, claude-code, cursor, windsurf, vscode, codex, opencode, zed, goose.
Without a source every usual place is looked at.")]
pub(crate) struct ImportArgs {
    /// The program to import from.
    pub(crate) source: Option<String>,
    /// Read this file instead of the usual places.
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// Show what would be imported and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Import only this server (repeatable).
    #[arg(long, value_name = "NAME")]
    pub(crate) select: Vec<String>,
    /// Replace servers that exist already.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Take the default answer to every question.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    /// Show only entries with this word.
    pub(crate) word: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The entry's id; see `hermes mcp catalog`.
    pub(crate) id: String,
    /// The name to give it (default: its id).
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// An answer to one of its questions, VARIABLE=VALUE (repeatable).
    #[arg(long = "set", value_name = "K=V")]
    pub(crate) set: Vec<String>,
    /// Save it without connecting first.
    #[arg(long)]
    pub(crate) no_test: bool,
    /// Replace an entry of that name; save (disabled) even if the probe fails.
    #[arg(long)]
    pub(crate) force: bool,
    /// Take the default answer to every question.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// End the process of this server, with all it has started.
    #[arg(long, value_name = "NAME")]
    pub(crate) kill: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also connect to every enabled server.
    #[arg(long)]
    pub(crate) probe: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only this server.
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// Try this server again at once.
    pub(crate) name: Option<String>,
}
