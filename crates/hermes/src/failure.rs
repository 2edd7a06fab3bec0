//! How a command fails: what went wrong, whose fault it is, what to do, and the exit code that says so.

use hermes_config::ServerName;
use serde_json::Value;

/// Longer lists of names are cut.
const MAX_HINT_NAMES: usize = 40;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    pub(crate) server: Option<Box<ServerName>>,
    pub(crate) hints: Vec<String>,
    /// What is known in spite of the failure; a member beside `error` in `--json` output.
    pub(crate) findings: Vec<(&'static str, Value)>,
    /// The member of what was sent that is wrong, as the Hub names it.
    pub(crate) member: Option<Box<str>>,
    /// A line for programs that ends what is printed.
    pub(crate) last_line: Option<Box<str>>,
    /// Whether the output says it already.
    pub(crate) is_printed: bool,
}

/// What kind of failure; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It was tried and did not work, or was refused.
    Failed,
    /// Wrong usage or an invalid configuration.
    Usage,
    /// A service whose configuration cannot be used: starting it again does not help.
    BadConfiguration,
    /// No such server, tool or preset.
    NotFound,
    /// A login is needed first.
    NeedsLogin,
    /// The caller lacks the permission.
    Denied,
    /// A question that nobody is there to answer.
    AnswerNeeded,
    /// What was asked is not there now; trying again may help.
    Unavailable,
    /// Interrupted by the user.
    Interrupted,
    /// It failed, and the output says so already.
    AlreadyPrinted,
}

impl FailureKind {
    /// The word in `--json` output.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Failed | Self::AlreadyPrinted => "failed",
            Self::Usage | Self::BadConfiguration => "usage",
            Self::NotFound => "not_found",
            Self::NeedsLogin => "needs_login",
            Self::Denied => "denied",
            Self::AnswerNeeded => "answer_needed",
            Self::Unavailable => "unavailable",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            server: None,
            hints: Vec::new(),
            findings: Vec::new(),
            member: None,
            last_line: None,
            is_printed: kind == FailureKind::AlreadyPrinted,
        }
    }

    /// The user stopped it.
    pub(crate) fn interrupted() -> Self {
        Self::new(FailureKind::Interrupted, "interrupted")
    }

    /// It was tried and did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// The arguments or the configuration are wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// The server is not in the configuration.
    pub(crate) fn no_such_server(name: &str, known: impl IntoIterator<Item = String>) -> Self {
        let known: Vec<String> = known.into_iter().collect();
        let failure = Self::new(
            FailureKind::NotFound,
            format!("there is no server `{name}`"),
        )
        .about(ServerName::new(name));
        if known.is_empty() {
            return failure.hint("no server is configured; add one with `hermes mcp add`");
        }
        failure.suggest_name(name, "configured servers", &known)
    }

    /// Says which name was probably meant, if one is near.
    pub(crate) fn suggest_nearest(self, typed: &str, known: impl Iterator<Item = String>) -> Self {
        match hermes_config::nearest(typed, known) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None => self,
        }
    }

    /// Says which name was probably meant, or else which there are.
    pub(crate) fn suggest_name(self, typed: &str, title: &str, known: &[String]) -> Self {
        if let Some(name) = hermes_config::nearest(typed, known.iter().cloned()) {
            return self.hint(format!("did you mean `{name}`?"));
        }
        match known.len() {
            0 => self,
            count if count > MAX_HINT_NAMES => self.hint(format!(
                "{title}: {} and {} more",
                known[..MAX_HINT_NAMES].join(", "),
                count - MAX_HINT_NAMES
            )),
            _ => self.hint(format!("{title}: {}", known.join(", "))),
        }
    }

    /// Names the server it is about.
    pub(crate) fn about(mut self, server: ServerName) -> Self {
        self.server = Some(Box::new(server));
        self
    }

    /// Says what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds what is known in spite of the failure.
    pub(crate) fn finding(mut self, key: &'static str, value: Value) -> Self {
        self.findings.push((key, value));
        self
    }

    /// The same failure, after the output has said it.
    pub(crate) fn mark_printed(mut self) -> Self {
        self.is_printed = true;
        self
    }

    /// Ends what is printed with a line for programs.
    pub(crate) fn last_line(mut self, line: String) -> Self {
        self.last_line = Some(line.into());
        self
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Failed | FailureKind::AlreadyPrinted => 1,
            FailureKind::Usage => 2,
            FailureKind::NotFound => 3,
            FailureKind::NeedsLogin | FailureKind::Denied => 4,
            FailureKind::AnswerNeeded => 5,
            FailureKind::Unavailable => 6,
            // EX_CONFIG of sysexits.h, which the service's unit names.
            FailureKind::BadConfiguration => 78,
            FailureKind::Interrupted => 130,
        }
    }
}

impl From<hermes_config::SettingsError> for Failure {
    fn from(error: hermes_config::SettingsError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<hermes_config::ConfigFileError> for Failure {
    fn from(error: hermes_config::ConfigFileError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<hermes_config::HomeError> for Failure {
    fn from(error: hermes_config::HomeError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<hermes_store::StoreError> for Failure {
    fn from(error: hermes_store::StoreError) -> Self {
        use hermes_store::StoreError as Error;
        let kind = match error {
            Error::NoSuchSession { .. } | Error::NoSuchMessage { .. } => FailureKind::NotFound,
            Error::AmbiguousSession { .. }
            | Error::BadSessionId { .. }
            | Error::TitleTooLong { .. }
            | Error::TitleTaken { .. } => FailureKind::Usage,
            _ => FailureKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<hermes_store::cron::CronError> for Failure {
    fn from(error: hermes_store::cron::CronError) -> Self {
        use hermes_store::cron::CronError as Error;
        let kind = match error {
            Error::NoSuchJob { .. } => FailureKind::NotFound,
            Error::Io { .. } | Error::Damaged { .. } => FailureKind::Failed,
            _ => FailureKind::Usage,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<hermes_store::cron::ScheduleError> for Failure {
    fn from(error: hermes_store::cron::ScheduleError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<hermes_store::skills::SkillError> for Failure {
    fn from(error: hermes_store::skills::SkillError) -> Self {
        use hermes_store::skills::SkillError as Error;
        let kind = match error {
            Error::Disabled { .. } => FailureKind::Failed,
            Error::NoSuchSkill { .. } | Error::NoSuchFile { .. } => FailureKind::NotFound,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<hermes_gateway::send::SendError> for Failure {
    fn from(error: hermes_gateway::send::SendError) -> Self {
        let mut failure = Self::failed(error.to_string());
        failure.hints.extend(error.hint());
        match error.sent_chunks() {
            0 => failure,
            sent => failure.finding("sent_chunks", sent.into()),
        }
    }
}

impl From<hermes_hub::storage::data_dir::DataDirError> for Failure {
    fn from(error: hermes_hub::storage::data_dir::DataDirError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<hermes_hub::storage::backup::BackupError> for Failure {
    fn from(error: hermes_hub::storage::backup::BackupError) -> Self {
        let message = error.to_string();
        match error {
            hermes_hub::storage::backup::BackupError::NotEmpty { .. } => Self::usage(message).hint(
                "`--data-dir` names another one; nothing is ever restored over what is there",
            ),
            _ => Self::failed(message),
        }
    }
}
