//! The arguments of `hermes mcp …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::deferred::Deferred;

mod requests;

pub(crate) use requests::{CallArgs, PromptsArgs, ResourcesArgs};

/// What can be done with MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server: connect to it, list its tools, write it to config.yaml.
    Add(Deferred<Box<AddArgs>>),
    /// List the configured servers; connects to none.
    #[command(visible_alias = "ls")]
    List,
    /// Remove a server with its tokens and caches.
    #[command(visible_alias = "rm")]
    Remove(RemoveArgs),
    /// Connect to a server, list what it offers, disconnect.
    Test(Deferred<TestArgs>),
    /// Log in to a remote server.
    Login(Deferred<LoginArgs>),
    /// Forget a login.
    Logout(LogoutArgs),
    /// Log in again, to one server or to all.
    Reauth(Deferred<ReauthArgs>),
    /// Call a tool.
    Call(Deferred<CallArgs>),
    /// List tools, or choose which are offered.
    Tools(Deferred<ToolsArgs>),
    /// Choose a server's tools from a checklist.
    Configure(ConfigureArgs),
    /// Enable a disabled server.
    Enable(NameArgs),
    /// Disable a server; its entry is kept.
    Disable(NameArgs),
    /// Import servers from another program.
    Import(Deferred<ImportArgs>),
    /// List the presets of `add --preset`.
    Presets,
    /// List servers that `install` knows.
    Catalog(CatalogArgs),
    /// Install a server from the catalog.
    Install(Deferred<InstallArgs>),
    /// Show the processes of local servers.
    Ps(PsArgs),
    /// Check for problems: configuration, programs, files, processes.
    Doctor(DoctorArgs),
    /// Show the state of the servers, live if a hermes process runs.
    Status(StatusArgs),
    /// Show one server's entry as it is in effect.
    Get(NameArgs),
    /// List the resources of servers, or read one.
    Resources(ResourcesArgs),
    /// List the prompts of servers, or fill one in.
    Prompts(PromptsArgs),
    /// Make running hermes processes read the configuration again.
    Reload(ReloadArgs),
    /// Run the built-in MCP server on stdio.
    Demo,
    /// Run an MCP server that lets other agents read your conversations, answer them and decide on approvals.
    Serve(Deferred<ServeArgs>),
}

impl McpCommand {
    /// Whether this is a server with a client at the other end of stdout.
    pub(crate) fn speaks_on_stdout(&self) -> bool {
        match self {
            Self::Demo => true,
            Self::Serve(args) => args.install.is_none() && args.http.is_none(),
            _ => false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The server's name under `mcp_servers`.
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The server is started or called first, and its tools are shown. If that fails, nothing is saved.
Secrets never reach config.yaml: values named like KEY, TOKEN or PASSWORD move to .env.

Examples:
  hermes mcp add docs https://docs.example.com/mcp
  hermes mcp add time -- uvx mcp-server-time
  hermes mcp add api --env API_KEY=abc --env REGION=eu -- api-server
  hermes mcp add fs --command npx --args -y @modelcontextprotocol/server-filesystem /tmp
  hermes mcp add docs --url https://docs.example.com/mcp --auth header
  hermes mcp add codex --preset codex")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct AddArgs {
    /// The name to give it: the key under `mcp_servers`.
    pub(crate) name: String,
    /// The address of a remote server.
    #[arg(value_name = "URL", conflicts_with_all = ["url", "command", "preset"])]
    pub(crate) target: Option<String>,
    /// After `--`: the program of a local server and its arguments.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = ["target", "url", "command", "preset", "args"])]
    pub(crate) program: Vec<String>,
    /// The address of a remote server, as the word after the name.
    #[arg(long, conflicts_with_all = ["command", "preset"])]
    pub(crate) url: Option<String>,
    /// The program of a local server; its arguments come last, after `--args`.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) command: Option<String>,
    /// Take program and arguments from a preset (see `hermes mcp presets`); other flags win over it.
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// An environment variable for a local server (repeatable). It inherits only PATH, HOME and the like.
    #[arg(long, value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// A header for a remote server, K=V or "K: V" (repeatable).
    #[arg(long, value_name = "K=V")]
    pub(crate) header: Vec<String>,
    /// `header`: a bearer token, typed without echo or read from stdin, kept in .env. `oauth`: a login in the browser.
    #[arg(long, value_parser = ["oauth", "header"])]
    pub(crate) auth: Option<String>,
    /// The working directory of a local server.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) cwd: Option<String>,
    /// Timeout of a tool call in seconds (default 120).
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// Timeout of connecting and listing in seconds (default 60).
    #[arg(long, value_name = "SECONDS")]
    pub(crate) connect_timeout: Option<f64>,
    /// Offer only tools that match (repeatable; `*` is a wildcard).
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Offer all tools but those that match (repeatable; `--include` wins over it).
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
    /// Replace an entry of that name; save it disabled if it cannot be connected.
    #[arg(long)]
    pub(crate) force: bool,
    /// Take the default answer to every question.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// The arguments of the program. Everything after this flag belongs to it, flags included: put it last.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "ARG")]
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
#[command(group = clap::ArgGroup::new("which").args(["name", "all"]).required(true))]
pub(crate) struct TestArgs {
    /// The server's name.
    pub(crate) name: Option<String>,
    /// Test every enabled server.
    #[arg(long)]
    pub(crate) all: bool,
    /// Seconds to wait (default: the server's `connect_timeout` if set, else 30).
    #[arg(long)]
    pub(crate) timeout: Option<f64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Opens a browser and waits for its redirect. Without a browser here, open the address on any machine and paste the \
address that the browser ends at, even if it shows an error. Without a terminal, pass it with `--code`.

Examples:
  hermes mcp login docs
  hermes mcp login docs --no-browser
  hermes mcp login docs --code 'http://127.0.0.1:8765/callback?code=…&state=…'
  hermes mcp login docs --flow device")]
pub(crate) struct LoginArgs {
    /// The server's name.
    pub(crate) name: String,
    /// Do not open a browser here.
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// The address that the browser ended at, for a login that was started before.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["no_browser", "flow"])]
    pub(crate) code: Option<String>,
    /// The login flow to use instead of the default.
    #[arg(long, value_parser = ["browser", "paste", "device", "client_credentials"])]
    pub(crate) flow: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The server's name.
    pub(crate) name: String,
    /// Forget the registered client too: the next login registers a new one.
    #[arg(long)]
    pub(crate) client: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").args(["name", "all"]).required(true))]
pub(crate) struct ReauthArgs {
    /// The server's name.
    pub(crate) name: Option<String>,
    /// Every enabled server with `auth: oauth`, one after the other.
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not open a browser here.
    #[arg(long)]
    pub(crate) no_browser: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without a flag it lists the tools. A running hermes process that has the server is asked; otherwise the server is \
connected for the list. The tools of a disabled or lazy server are those of its last session.
Patterns match the names the server uses; `*` is a wildcard.
A tool is pinned when it is first seen. With `pin_tools: block`, a tool that has changed is withheld until approved.

Examples:
  hermes mcp tools github
  hermes mcp tools github.create_issue
  hermes mcp tools github --diff
  hermes mcp tools github --approve create_issue
  hermes mcp tools github --include 'list_*' --include get_issue
  hermes mcp tools stripe --exclude delete_customer
  hermes mcp tools stripe --all")]
pub(crate) struct ToolsArgs {
    /// The server, or SERVER.TOOL for what one tool takes; without one the tools of all servers are listed.
    pub(crate) name: Option<String>,
    /// From now on offer only tools that match (repeatable).
    #[arg(long, value_name = "PATTERN", requires = "name")]
    pub(crate) include: Vec<String>,
    /// From now on offer all tools but those that match (repeatable).
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "name",
        conflicts_with = "include"
    )]
    pub(crate) exclude: Vec<String>,
    /// From now on offer all tools.
    #[arg(long, requires = "name", conflicts_with_all = ["include", "exclude"])]
    pub(crate) all: bool,
    /// Show which tools changed since they were accepted, and how.
    #[arg(long, requires = "name", conflicts_with_all = ["include", "exclude", "all"])]
    pub(crate) diff: bool,
    /// Accept a changed tool, or all of them.
    #[arg(
        long,
        value_name = "TOOL",
        requires = "name",
        num_args = 0..=1,
        conflicts_with_all = ["include", "exclude", "all", "diff"]
    )]
    #[expect(clippy::option_option, reason = "absent, alone, or with a tool")]
    pub(crate) approve: Option<Option<String>>,
    /// Connect to the server for this, even if a running hermes process has it.
    #[arg(long, conflicts_with_all = ["include", "exclude", "all", "diff", "approve"])]
    pub(crate) fresh: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The tools offered now are marked. The choice is saved as `tools.include`; with all tools marked, the filter is \
removed. `hermes mcp tools` takes patterns instead.

Example:
  hermes mcp configure github --select list_issues --select create_issue")]
pub(crate) struct ConfigureArgs {
    /// The server's name.
    pub(crate) name: String,
    /// Offer just this tool, without a checklist (repeatable).
    #[arg(long, value_name = "TOOL")]
    pub(crate) select: Vec<String>,
    /// Keep the current choice without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without a source all standard locations are searched, including the current project. Secrets in those files are moved \
to .env. No server is connected: `hermes mcp test --all` does that.

Examples:
  hermes mcp import --dry-run
  hermes mcp import claude-desktop
  hermes mcp import --file ~/project/.mcp.json --select github")]
pub(crate) struct ImportArgs {
    /// The program to import from.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(crate::import::ImportSource::ALL.map(crate::import::ImportSource::name)))]
    pub(crate) source: Option<String>,
    /// Read this file instead of the standard locations.
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// Show what would be imported and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Import only this server (repeatable).
    #[arg(long, value_name = "NAME")]
    pub(crate) select: Vec<String>,
    /// Replace servers that are configured already.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Import all that was found without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Your own manifests in <home>/catalog/*.yaml are listed too.

Example:
  hermes mcp catalog database")]
pub(crate) struct CatalogArgs {
    /// Show only entries that contain this word.
    pub(crate) word: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
You are asked for the values the server needs; `--set` gives them in advance. Secrets are kept in .env.

Examples:
  hermes mcp install filesystem --set FILESYSTEM_ROOT=/home/me/notes
  hermes mcp install github --name work-github")]
pub(crate) struct InstallArgs {
    /// The entry's id; see `hermes mcp catalog`.
    pub(crate) id: String,
    /// The name to give it (default: its id).
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A value that the server needs (repeatable).
    #[arg(long = "set", value_name = "VARIABLE=VALUE")]
    pub(crate) set: Vec<String>,
    /// Save it without connecting first.
    #[arg(long)]
    pub(crate) no_test: bool,
    /// Replace an entry of that name; save it disabled if it cannot be connected.
    #[arg(long)]
    pub(crate) force: bool,
    /// Take the default answer to every question.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Kill the process of this server and its descendants.
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
#[command(after_help = "\
Without a flag it speaks MCP on stdin and stdout: a client starts it. `--install` adds it to a client's configuration.

Over HTTP every request needs the token of --token-file, $HERMES_BRIDGE_TOKEN or `bridge.http.token`. If none is set, \
a token is generated and kept in <home>/bridge/token.

Examples:
  hermes mcp serve --install claude-code
  hermes mcp serve --platforms messaging,cli,api
  hermes mcp serve --http
  hermes mcp serve --http 127.0.0.1:9000 --read-only")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ServeArgs {
    /// Log to stderr.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Serve over HTTP instead, at /mcp of this address.
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:8765")]
    pub(crate) http: Option<String>,
    /// The file that holds the token clients present.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// Allow an address that other machines can reach.
    #[arg(long, requires = "http")]
    pub(crate) allow_remote: bool,
    /// Leave out the tools that send messages and decide on approvals.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Whose conversations to show: messaging platforms by name, `cli`, `api`, `cron`, `messaging` for all messaging
    /// platforms (the default), `all`.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) platforms: Vec<String>,
    /// Push new messages to the client as a channel of Claude Code; `auto`: if it is Claude Code.
    #[arg(long, value_name = "WHEN", value_parser = ["off", "on", "auto"], default_value = "auto")]
    pub(crate) claude_channel: String,
    /// Add this server to a client's configuration and exit.
    #[arg(
        long,
        value_name = "CLIENT",
        value_parser = ["claude-code", "claude-desktop", "cursor", "vscode", "codex"],
        conflicts_with = "http"
    )]
    pub(crate) install: Option<String>,
    /// Accepted for compatibility and ignored.
    #[arg(long, hide = true)]
    pub(crate) accept_hooks: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// Retry this server at once.
    pub(crate) name: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::{Cli, CliCommand};

    fn add(arguments: &[&str]) -> AddArgs {
        let arguments = ["hermes", "mcp", "add", "fs"].iter().chain(arguments);
        match Cli::try_parse_from(arguments).unwrap().command {
            Some(CliCommand::Mcp(mcp)) => match mcp.into_inner().command {
                Some(McpCommand::Add(args)) => *args.into_inner(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn args_takes_everything_after_it() {
        let line = [
            "-y",
            "@scope/pkg",
            "--json",
            "--",
            "--force",
            "--yes",
            "/tmp",
        ];
        let args = add(&[&["--command", "npx", "--args"], line.as_slice()].concat());
        assert_eq!(args.args, line);
        assert!(!args.yes && !args.force);
    }

    #[test]
    fn repeated_flags_are_all_kept() {
        let args = add(&[
            "--env",
            "A=1",
            "--env",
            "B=2",
            "--include",
            "x",
            "--include",
            "y",
        ]);
        assert_eq!(args.env, ["A=1", "B=2"]);
        assert_eq!(args.include, ["x", "y"]);
    }
}
