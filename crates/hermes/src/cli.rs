//! The arguments of `hermes`, with the help texts that teach them.

use clap::{Args, Parser, Subcommand};

mod chat;
mod cron;
mod deferred;
mod home;
mod hub;
mod mcp;
mod messaging;
pub mod original;
mod sessions;
mod unknown;

use crate::failure::Failure;

use crate::cli::deferred::{Deferred, SubcommandArgs};
pub(crate) use crate::cli::{
    home::{
        GatewayArgs, GatewayCommand, GatewayInstallArgs, GatewayRunArgs, GatewaySetupArgs,
        ModelArgs, SecretArgs, SecretCommand, SkillViewArgs, SkillsCommand,
    },
    hub::{
        ConfirmArgs, HubArgs, PageArgs, VersionArgs,
        feed::{
            HubEventsArgs, HubJobsArgs, HubRunsArgs, HubUsageArgs, HubWebhookArgs,
            HubWebhookCommand, WebhookCreateArgs, WebhookUpdateArgs,
        },
        group::{GroupArgs, GroupCommand, GroupMembers, GroupSkillCommand, MemberCommand},
        policy::{
            PolicyArgs, PolicyCommand, RevisionArgs, SpecializationArgs, SpecializationCommand,
        },
        share::{
            FileFindArgs, FileGrepArgs, ShareArgs, ShareCommand, ShareRmArgs, ShareUploadArgs,
            ShareWriteArgs,
        },
        skill_library::{SkillLibraryArgs, SkillLibraryCommand},
        tenant::{
            JobMembers, RotateKeyArgs, TenantApplyArgs, TenantApproveArgs, TenantArgs,
            TenantCommand, TenantCreateArgs, TenantCronCommand, TenantEnvCommand, TenantFilesArgs,
            TenantFilesCommand, TenantLimitArgs, TenantMcpAddArgs, TenantMcpArgs,
            TenantMcpCallArgs, TenantMcpCommand, TenantMembers, TenantMemoryArgs, TenantModelArgs,
            TenantPairingArgs, TenantPairingCommand, TenantPlatformArgs, TenantPlatformCommand,
            TenantPlatformSetArgs, TenantRunArgs, TenantRunsArgs, TenantSessionsArgs,
            TenantSessionsCommand, TenantSkillCommand, TenantSkillInstallArgs, TenantSoulArgs,
            TenantSyncArgs, TenantUpdateArgs,
        },
        token::{HubSessionArgs, HubSessionCommand, TokenArgs, TokenCommand},
    },
    messaging::{ChannelsCommand, ChannelsListArgs},
};
pub(crate) use chat::ChatArgs;
pub(crate) use cron::{
    CronCommand, CronCreateArgs, CronEditArgs, CronJobArgs, CronListArgs, CronPauseArgs,
    CronRunsArgs, JobOptions,
};
pub(crate) use home::{ConfigArgs, ConfigCommand, ConfigSetArgs, HomeDoctorArgs, SetupArgs};
pub(crate) use hub::{
    AuditFilter, BackupArgs, DataDirArgs, HubAuditArgs, HubAuditCommand, HubCommand, HubConfigArgs,
    HubConfigCommand, HubConnectArgs, HubDoctorArgs, HubMigrateArgs, HubNodeArgs, HubNodeCommand,
    HubServeArgs, HubStatusArgs, RestoreArgs,
};
pub(crate) use mcp::{
    AddArgs, CallArgs, CatalogArgs, ConfigureArgs, DoctorArgs, ImportArgs, InstallArgs, LoginArgs,
    LogoutArgs, McpCommand, NameArgs, PromptsArgs, PsArgs, ReauthArgs, ReloadArgs, RemoveArgs,
    ResourcesArgs, ServeArgs, StatusArgs, TestArgs, ToolsArgs,
};
pub(crate) use messaging::{PairingApproveArgs, PairingCommand, PairingRevokeArgs, SendArgs};
pub(crate) use sessions::{
    DeleteArgs, ExportArgs, ExportFormat, RenameArgs, SearchArgs, SessionArgs, SessionsCommand,
    SessionsListArgs,
};
pub(crate) use unknown::{UnknownCommand, interpret_unknown};

/// An AI agent whose tools come from MCP servers.
#[derive(Debug, Parser)]
#[command(
    name = "hermes",
    version,
    propagate_version = true,
    after_help = "\
`hermes` alone is `hermes chat`. Chat options may come before or after the command. A question in quotes is sent to \
the agent: hermes \"What time is it in Bern?\"
To start with servers: `hermes up` writes a configuration if there is none, connects every MCP server and shows their \
tools.
The home is $HERMES_HOME, else ~/.hermes."
)]
pub struct Cli {
    /// Use the profile NAME: the home `profiles/NAME` below the usual one.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Do not start MCP servers; `chat` also ignores config.yaml and your own instructions (also:
    /// HERMES_SAFE_MODE=1).
    #[arg(long, global = true)]
    pub(crate) safe_mode: bool,

    /// Print one JSON object on stdout, for scripts.
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    chat: ChatArgs,

    #[command(subcommand)]
    command: Option<CliCommand>,
}

impl Cli {
    /// Whether the outcome is to be an object on stdout. Not where stdout is for a protocol.
    pub(crate) fn wants_json(&self) -> bool {
        let mcp = match &self.command {
            Some(CliCommand::Mcp(mcp)) => mcp.command.as_ref(),
            _ => None,
        };
        self.json && !mcp.is_some_and(McpCommand::speaks_on_stdout)
    }

    /// The command that is meant, with what stood before its name.
    pub(crate) fn into_command(self) -> Result<CliCommand, Failure> {
        let mut early = self.chat;
        // In `hermes -c chat` the word is the command, not a title.
        if self.command.is_none() && early.continued == Some(Some("chat".into())) {
            early.continued = Some(None);
        }
        match self.command {
            None => Ok(CliCommand::Chat(Box::new(early))),
            Some(CliCommand::Chat(late)) => Ok(CliCommand::Chat(Box::new(late.merge_over(early)))),
            Some(other) if early == ChatArgs::default() => Ok(other),
            Some(_) => Err(Failure::usage(
                "options of `hermes chat` do not apply to another command",
            )
            .hint("`hermes --help` lists them under `Chat options`")),
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Talk to the agent. This is what `hermes` alone does.
    #[command(after_help = "\
Examples:
  hermes                                        a conversation at the terminal
  hermes chat -q \"What time is it in Bern?\"     one question; tool calls are shown
  hermes -q \"Sum this up\" -Q --image plan.png   the answer alone, about an image
  git diff | hermes -q -                        the question comes from stdin
  hermes -c                                     continue the newest session
  hermes -q '/call time.get_current_time {}'    call a tool, without any model

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.")]
    Chat(Box<ChatArgs>),
    /// Run everything: connect all MCP servers and show them live until Ctrl-C.
    Up(UpArgs),
    /// Set up: choose a model, add a first server, enter tokens of messaging platforms.
    Setup(Deferred<SetupArgs>),
    /// Check every part of this home: what is wrong, and how to fix it.
    Doctor(Deferred<HomeDoctorArgs>),
    /// Show the state of every part of this home.
    Status,
    /// The background process of this home: messaging platforms, cron jobs, the local HTTP API.
    Gateway(Deferred<GatewayArgs>),
    /// MCP servers: add, list, test, call and more.
    Mcp(Deferred<McpArgs>),
    /// Show or choose the model.
    Model(Deferred<ModelArgs>),
    /// Show and change the configuration.
    Config(Deferred<ConfigArgs>),
    /// Conversations: list, show, search, export and delete.
    Sessions(Deferred<SubcommandArgs<SessionsCommand>>),
    /// Send a message to a chat on Telegram, Discord or Slack.
    Send(Deferred<SendArgs>),
    /// Chats that messages can be sent to.
    Channels(Deferred<SubcommandArgs<ChannelsCommand>>),
    /// Who may write to the bots: approve users by pairing codes.
    Pairing(Deferred<SubcommandArgs<PairingCommand>>),
    /// Scheduled jobs, once or repeating.
    Cron(Deferred<SubcommandArgs<CronCommand>>),
    /// Skills: instructions for certain kinds of work.
    Skills(Deferred<SubcommandArgs<SkillsCommand>>),
    /// Secrets that the configuration refers to by name.
    Secret(Deferred<SubcommandArgs<SecretCommand>>),
    /// A Hub: many homes, each a tenant, managed in one place.
    Hub(Deferred<SubcommandArgs<Box<HubCommand>>>),
    /// Tenants of a Hub.
    Tenant(Deferred<TenantArgs>),
    /// Files that tenants of a Hub share.
    Share(Deferred<ShareArgs>),
    /// Skills that tenants of a Hub can take.
    SkillLibrary(Deferred<SkillLibraryArgs>),
    /// Groups of a Hub's tenants, which share files.
    Group(Deferred<GroupArgs>),
    /// What agents of a Hub may do.
    Policy(Deferred<PolicyArgs>),
    /// The text before every hosted agent's own instructions.
    Specialization(Deferred<SpecializationArgs>),
    /// Access tokens of a Hub.
    Token(Deferred<TokenArgs>),
    /// Show logs of this home.
    Logs(LogsArgs),
    /// Print the version of this program, and which home it uses.
    Version,
    /// Print a completion script for a shell.
    #[command(after_help = "\
Names of servers, tools, sessions, jobs, profiles and tenants are looked up when you press Tab.

Examples:
  hermes completions bash > ~/.local/share/bash-completion/completions/hermes
  hermes completions zsh > ~/.zfunc/_hermes
  hermes completions fish > ~/.config/fish/completions/hermes.fish")]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Stop when every server is ready or has failed, instead of at Ctrl-C. Does not run a Hub.
    #[arg(long)]
    pub(crate) once: bool,
    /// The port of the Hub on 127.0.0.1 (default: 7878); 0 takes any free port.
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Do not open a browser.
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Which log: `mcp` is the stderr of local servers, `hermes` the log of hermes itself.
    #[arg(value_parser = ["mcp", "hermes"], default_value = "mcp")]
    pub(crate) log: String,
    /// How many lines from the end.
    #[arg(short = 'n', long, default_value_t = 100)]
    pub(crate) lines: usize,
    /// Follow the log as it grows.
    #[arg(short, long)]
    pub(crate) follow: bool,
}
