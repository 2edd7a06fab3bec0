//! The arguments of verbs that send a request to a server.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
If a running hermes process (`hermes up`, a gateway, a chat) has the server, it makes the call in its own session.

Examples:
  hermes mcp call filesystem.read_text_file path=/tmp/a.txt head:=3
  hermes mcp call mcp_filesystem_read_text_file path=/tmp/a.txt
  hermes mcp call filesystem.read_text_file '{\"path\": \"/tmp/a.txt\"}'
  echo '{\"path\": \"/tmp\"}' | hermes mcp call filesystem.list_directory --args-json -")]
pub(crate) struct CallArgs {
    /// SERVER.TOOL, a registered name like mcp_SERVER_TOOL, or SERVER with the tool as the next word.
    pub(crate) target: String,
    /// The arguments: name=value, name:=JSON, or one JSON object. After a bare SERVER the tool comes first.
    #[arg(value_name = "ARGUMENT")]
    pub(crate) rest: Vec<String>,
    /// One argument, k=v (repeatable); a value that is JSON is sent as JSON where the tool takes it.
    #[arg(long = "arg", value_name = "K=V")]
    pub(crate) arg: Vec<String>,
    /// All arguments as JSON: the text itself, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) args_json: Option<String>,
    /// Timeout of the call in seconds.
    #[arg(long)]
    pub(crate) timeout: Option<f64>,
    /// Print the result as the server sent it, and send the arguments unchecked.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Connect to the server for this call, even if a running hermes process has it.
    #[arg(long)]
    pub(crate) fresh: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes mcp resources
  hermes mcp resources notes file:///notes/today.md")]
pub(crate) struct ResourcesArgs {
    /// The server; without one, those of all servers are listed.
    pub(crate) name: Option<String>,
    /// Read this one.
    #[arg(requires = "name")]
    pub(crate) uri: Option<String>,
    /// Connect to the server for this, even if a running hermes process has it.
    #[arg(long)]
    pub(crate) fresh: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hermes mcp prompts
  hermes mcp prompts review code_review language=rust")]
pub(crate) struct PromptsArgs {
    /// The server; without one, those of all servers are listed.
    pub(crate) name: Option<String>,
    /// Fill in this one.
    #[arg(requires = "name")]
    pub(crate) prompt: Option<String>,
    /// Its arguments: name=value.
    #[arg(value_name = "ARGUMENT", requires = "prompt")]
    pub(crate) arguments: Vec<String>,
    /// Connect to the server for this, even if a running hermes process has it.
    #[arg(long)]
    pub(crate) fresh: bool,
}
