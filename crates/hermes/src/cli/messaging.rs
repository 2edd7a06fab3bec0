//! The arguments of `hermes send`, `hermes channels …` and `hermes pairing …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "\
A target is PLATFORM (its home channel) or PLATFORM:CHAT. A chat is an id, or a name that `hermes channels list` \
shows. A thread or topic follows after another colon. `MEDIA:/path/to/file.png` in the message uploads the file.

Examples:
  hermes send -t telegram \"The build is done\"
  hermes send -t telegram:-1001234567890:17 \"To a topic of a group\"
  hermes send -t discord:#general -s \"[CI]\" -f build.log
  df -h | hermes send -t slack:ops

Exit codes: 0 sent, 1 not sent, 2 wrong usage.")]
pub(crate) struct SendArgs {
    /// The target: `telegram`, `discord:#general`, `slack:C0123456789`.
    #[arg(
        short = 't',
        long = "to",
        value_name = "TARGET",
        required_unless_present = "list"
    )]
    pub(crate) to: Option<String>,
    /// The message; without it, stdin is sent.
    #[arg(conflicts_with_all = ["file", "list"])]
    pub(crate) message: Option<String>,
    /// Send the text of a file; `-` is stdin.
    #[arg(short, long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) file: Option<PathBuf>,
    /// A line to put first.
    #[arg(short, long, conflicts_with = "list")]
    pub(crate) subject: Option<String>,
    /// List the known chats, of one platform or of all, and send nothing.
    #[arg(short, long, value_name = "PLATFORM", num_args = 0..=1, conflicts_with = "to")]
    #[expect(
        clippy::option_option,
        reason = "not given, given alone, given with a platform"
    )]
    pub(crate) list: Option<Option<String>>,
    /// Print nothing on success.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What can be done with chats.
#[derive(Debug, Subcommand)]
pub(crate) enum ChannelsCommand {
    /// List the known chats.
    #[command(visible_alias = "ls")]
    List(ChannelsListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ChannelsListArgs {
    /// Only those of this platform: `telegram`, `discord`, `slack`.
    pub(crate) platform: Option<String>,
}

/// What can be done with pairings.
#[derive(Debug, Subcommand)]
pub(crate) enum PairingCommand {
    /// List waiting and approved users.
    #[command(visible_alias = "ls")]
    List,
    /// Approve a user by the code that the bot gave them.
    #[command(after_help = "\
A code is valid for one hour. After five wrong codes none is accepted for an hour.

Examples:
  hermes pairing approve telegram ABCD2345
  hermes pairing approve telegram@work ABCD2345   for the bot account `work`")]
    Approve(PairingApproveArgs),
    /// Revoke the approval of a user. This works at once, also in a running gateway.
    Revoke(PairingRevokeArgs),
    /// Delete all codes that are not used yet.
    ClearPending,
}

#[derive(Debug, Args)]
pub(crate) struct PairingApproveArgs {
    /// The platform: `telegram`, `discord`, `slack`; `telegram@work` for a further account.
    pub(crate) platform: String,
    /// The code of eight letters and digits.
    pub(crate) code: String,
}

#[derive(Debug, Args)]
pub(crate) struct PairingRevokeArgs {
    /// The platform, as `hermes pairing list` shows it.
    pub(crate) platform: String,
    /// The user's id, as `hermes pairing list` shows it.
    pub(crate) user: String,
}
