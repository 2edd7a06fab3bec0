//! The arguments of `hermes chat`, which may also stand before the word `chat` or without it.

use std::path::PathBuf;

use clap::Args;

/// How a conversation is held.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Chat options")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ChatArgs {
    /// Send TEXT, print tool calls and the answer, and exit. `-` reads the text from stdin.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) query: Option<String>,
    /// Send TEXT and print only the final answer.
    #[arg(short = 'z', long, value_name = "TEXT")]
    pub(crate) oneshot: Option<String>,
    /// With -z: write tokens and calls to this file, as JSON.
    #[arg(long, value_name = "PATH")]
    pub(crate) usage_file: Option<PathBuf>,
    /// With -q: print only the final answer on stdout; stderr ends with `session_id: ID`.
    #[arg(short = 'Q', long)]
    pub(crate) quiet: bool,
    /// The model for this run.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Its provider: `openai`, `anthropic`, `openrouter`, or a name under `providers`.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Offer only these toolsets: built-in ones such as `file`, `mcp-SERVER` or the name of an MCP server, `all`, `no_mcp`.
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    /// Use this skill from the start (repeatable).
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) skills: Vec<String>,
    /// Resume a session: its id, the start of its id, or its title.
    #[arg(short, long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// Continue the newest session of the command line, or the one with this title.
    #[arg(
        id = "continue",
        short = 'c',
        long = "continue",
        value_name = "TITLE",
        num_args = 0..=1
    )]
    #[expect(clippy::option_option, reason = "absent, alone, or with a title")]
    pub(crate) continued: Option<Option<String>>,
    /// Maximum number of model calls for one message (default: `agent.max_turns`, 90).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// Do not ask for approvals. Blocked commands stay blocked.
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Ignore config.yaml; keys in .env still apply.
    #[arg(long)]
    pub(crate) ignore_user_config: bool,
    /// Leave SOUL.md, memories, the list of skills and the rules of the project out of the system prompt.
    #[arg(long)]
    pub(crate) ignore_rules: bool,
    /// Show an image to the model with the first message (repeatable).
    #[arg(long, value_name = "PATH")]
    pub(crate) image: Vec<PathBuf>,
    /// Show arguments and results of tools.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Resume in the current directory instead of the session's own.
    #[arg(long)]
    pub(crate) no_restore_cwd: bool,
    /// Tell the model the id of the session.
    #[arg(long)]
    pub(crate) pass_session_id: bool,
}

impl ChatArgs {
    /// These and those that stood before the command; the later ones win.
    pub(crate) fn merge_over(self, early: Self) -> Self {
        Self {
            query: self.query.or(early.query),
            oneshot: self.oneshot.or(early.oneshot),
            usage_file: self.usage_file.or(early.usage_file),
            quiet: self.quiet || early.quiet,
            model: self.model.or(early.model),
            provider: self.provider.or(early.provider),
            toolsets: if self.toolsets.is_empty() {
                early.toolsets
            } else {
                self.toolsets
            },
            skills: [early.skills, self.skills].concat(),
            resume: self.resume.or(early.resume),
            continued: self.continued.or(early.continued),
            max_turns: self.max_turns.or(early.max_turns),
            yolo: self.yolo || early.yolo,
            ignore_user_config: self.ignore_user_config || early.ignore_user_config,
            ignore_rules: self.ignore_rules || early.ignore_rules,
            image: [early.image, self.image].concat(),
            verbose: self.verbose || early.verbose,
            no_restore_cwd: self.no_restore_cwd || early.no_restore_cwd,
            pass_session_id: self.pass_session_id || early.pass_session_id,
        }
    }
}
