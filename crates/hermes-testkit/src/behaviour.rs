//! What a test server does, as data: the same description drives the stdio and the HTTP front end, and
//! travels to the binaries as one JSON argument.

mod http;
mod lists;

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use http::{Fault, FaultKind, HttpBehaviour, HttpTransport, ReplyFormat, Tls};
pub use lists::{ListBehaviour, OddTool, Tool};

/// A server's whole behaviour. The default is a well-behaved server that speaks both eras.
///
/// ```
/// use hermes_testkit::{Behaviour, DiscoverBehaviour, Era};
///
/// let behaviour = Behaviour::new()
///     .era(Era::Legacy)
///     .discover(DiscoverBehaviour::Silent)
///     .calls(|calls| calls.die_after = Some(3));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own and they combine freely"
)]
pub struct Behaviour {
    /// The name in the server's own description of itself.
    pub name: String,
    /// Guidance sent with the handshake.
    pub instructions: Option<String>,
    /// Which generation of the protocol is spoken.
    pub era: Era,
    /// Replaces the list of revisions that the era implies.
    pub supported_versions: Option<Vec<String>>,
    /// How `server/discover` is answered.
    pub discover: DiscoverBehaviour,
    /// Refuses `initialize` on a connection that has seen `server/discover`.
    pub refuse_initialize_after_discover: bool,
    /// Refuses `initialize` from a client that declares `sampling.tools`.
    pub reject_sampling_tools: bool,
    /// Speaks another era once it was started often enough.
    pub era_change: Option<EraChange>,
    /// Replaces the built-in tools.
    pub tools: Option<Vec<Tool>>,
    /// Adds this many tools `tool_0`, `tool_1`, …, each an echo.
    pub generate_tools: usize,
    pub resources: bool,
    pub prompts: bool,
    /// Appends every received message to this file, one JSON document per line.
    pub record: Option<PathBuf>,
    /// Misbehaviour of the process: start, streams, signals, descendants.
    pub process: ProcessBehaviour,
    /// Misbehaviour in answering calls.
    pub calls: CallBehaviour,
    /// Misbehaviour in listing and in announcing changes.
    pub lists: ListBehaviour,
    /// Everything particular to HTTP.
    pub http: HttpBehaviour,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            name: "testkit".to_owned(),
            instructions: Some("A server for tests.".to_owned()),
            era: Era::default(),
            supported_versions: None,
            discover: DiscoverBehaviour::default(),
            refuse_initialize_after_discover: false,
            reject_sampling_tools: false,
            era_change: None,
            tools: None,
            generate_tools: 0,
            resources: true,
            prompts: true,
            record: None,
            process: ProcessBehaviour::default(),
            calls: CallBehaviour::default(),
            lists: ListBehaviour::default(),
            http: HttpBehaviour::default(),
        }
    }
}

impl Behaviour {
    /// A well-behaved server that speaks both eras.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a behaviour as the binaries get it: JSON, or `@` and the path of a file that holds JSON.
    pub fn from_argument(argument: &str) -> io::Result<Self> {
        let text = match argument.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path)?,
            None => argument.to_owned(),
        };
        Ok(serde_json::from_str(&text)?)
    }

    /// The command and arguments that start this server on stdio.
    pub fn stdio_command(&self, binary: &Path) -> (String, Vec<String>) {
        let argument = serde_json::to_value(self).unwrap_or_default().to_string();
        (binary.display().to_string(), vec![argument])
    }

    #[must_use]
    pub fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }

    /// Sets the answer to `server/discover`.
    #[must_use]
    pub fn discover(mut self, discover: DiscoverBehaviour) -> Self {
        self.discover = discover;
        self
    }

    /// Refuses `initialize` on a connection that has seen `server/discover`.
    #[must_use]
    pub fn refuse_initialize_after_discover(mut self) -> Self {
        self.refuse_initialize_after_discover = true;
        self
    }

    /// Refuses `initialize` from a client that declares `sampling.tools`.
    #[must_use]
    pub fn reject_sampling_tools(mut self) -> Self {
        self.reject_sampling_tools = true;
        self
    }

    /// Speaks `to` from the start after the first `after_starts`; `state` is a file that counts them.
    #[must_use]
    pub fn change_era(mut self, after_starts: u32, to: Era, state: impl Into<PathBuf>) -> Self {
        self.era_change = Some(EraChange {
            after_starts,
            to,
            state: state.into(),
        });
        self
    }

    /// Replaces the built-in tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools = Some(tools.into_iter().collect());
        self
    }

    #[must_use]
    pub fn generate_tools(mut self, count: usize) -> Self {
        self.generate_tools = count;
        self
    }

    #[must_use]
    pub fn without_resources(mut self) -> Self {
        self.resources = false;
        self
    }

    #[must_use]
    pub fn without_prompts(mut self) -> Self {
        self.prompts = false;
        self
    }

    /// Records every received message in a file.
    #[must_use]
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    #[must_use]
    pub fn process(mut self, change: impl FnOnce(&mut ProcessBehaviour)) -> Self {
        change(&mut self.process);
        self
    }

    #[must_use]
    pub fn calls(mut self, change: impl FnOnce(&mut CallBehaviour)) -> Self {
        change(&mut self.calls);
        self
    }

    #[must_use]
    pub fn lists(mut self, change: impl FnOnce(&mut ListBehaviour)) -> Self {
        change(&mut self.lists);
        self
    }

    /// Changes the behaviour over HTTP.
    #[must_use]
    pub fn http(mut self, change: impl FnOnce(&mut HttpBehaviour)) -> Self {
        change(&mut self.http);
        self
    }
}

/// The generation of the protocol that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// Stateless and legacy clients are both served.
    #[default]
    Both,
    /// Only `initialize`; `server/discover` is an unknown method.
    Legacy,
    /// Only 2026-07-28; `initialize` is refused.
    Stateless,
}

/// What happens on `server/discover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscoverBehaviour {
    /// A proper answer; from a legacy server the proper answer is -32601.
    #[default]
    Ok,
    Exit,
    /// No answer, now or later.
    Silent,
    /// No answer, and none to anything that follows on the connection.
    Mute,
    /// No answer to anything, whether it was asked or not.
    Deaf,
    /// The result is `{}`.
    EmptyObject,
    /// Unknown method.
    #[serde(rename = "error_-32601")]
    MethodNotFound,
    /// Invalid parameters, as older Python servers say.
    #[serde(rename = "error_-32602")]
    InvalidParams,
    /// -32022 with the list of supported revisions.
    UnsupportedVersion,
}

/// A change of era between two starts of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EraChange {
    /// How many starts keep the first era.
    pub after_starts: u32,
    /// The era from then on.
    pub to: Era,
    /// The file that counts starts.
    pub state: PathBuf,
}

impl EraChange {
    /// Counts one start and says which era it has.
    pub(crate) fn count_start(&self, first: Era) -> io::Result<Era> {
        let before: u32 = match std::fs::read_to_string(&self.state) {
            Ok(text) => text.trim().parse().map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        std::fs::write(&self.state, (before + 1).to_string())?;
        Ok(if before < self.after_starts {
            first
        } else {
            self.to
        })
    }
}

/// Misbehaviour in answering calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a misbehaviour of its own and they combine freely"
)]
pub struct CallBehaviour {
    /// Exits with code 3 once it has answered this many tool calls.
    pub die_after: Option<u32>,
    pub never_answer: Vec<String>,
    /// What a cancellation does to a running call.
    pub on_cancel: OnCancel,
    /// The `progress` tool reports forever and never ends.
    pub progress_forever: bool,
    /// Tool calls are answered under an id nobody asked for.
    pub wrong_id: Option<WrongId>,
    /// Replaces the text of `fail` with one full of secrets; see [`crate::SECRETS`].
    pub secrets_in_errors: bool,
    /// The `resultType` of tool results, where the era has one.
    pub result_type: Option<String>,
    /// The structured content of every result is nested this deep.
    pub nested_levels: Option<usize>,
    /// A stateless tool that needs input never has enough of it.
    pub endless_input: bool,
    /// How many sampling requests `sample` makes at once.
    pub sampling_flood: Option<u32>,
    /// Asks the client even for what it did not declare.
    pub ask_undeclared: bool,
}

/// What a cancellation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCancel {
    /// The call stops and is not answered.
    #[default]
    Stop,
    /// The call goes on as if nothing had happened, and is answered at its end.
    Ignore,
    /// The call stops and is answered all the same, 100 ms later.
    LateReply,
}

/// An id that does not belong to the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrongId {
    /// A number that was never used.
    Unknown,
    /// The right number, as a string.
    Text,
    Null,
}

/// Misbehaviour of the process, for `testkit-stdio`. Of these an HTTP server knows only `start_delay_ms`
/// and `oversized_line`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessBehaviour {
    /// Waits before it reads or writes anything.
    pub start_delay_ms: u64,
    /// Exits instead of serving.
    pub exit_at_start: Option<ExitAtStart>,
    /// Lines written to stdout before the first message.
    pub junk_stdout: Vec<String>,
    /// Bytes of text written to stderr at start, in lines of 100.
    pub stderr_flood: usize,
    /// What `server/discover` makes it say on stderr, as servers do that check what they are asked.
    pub stderr_on_discover: String,
    /// One line of this size on stdout, at a chosen moment.
    pub oversized_line: Option<OversizedLine>,
    /// Goes on living when stdin is closed.
    pub ignore_stdin_close: bool,
    /// Goes on living on SIGTERM.
    pub ignore_sigterm: bool,
    /// Processes started before serving.
    pub grandchildren: Vec<Grandchild>,
    /// Appends one pid per line at start: its own, then those of `grandchildren`.
    pub pid_file: Option<PathBuf>,
}

/// An early end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExitAtStart {
    pub code: i32,
    /// What is said on stderr first.
    pub stderr: String,
}

/// A line of `x`, far beyond what a client should hold in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OversizedLine {
    /// Its length.
    pub bytes: usize,
    /// The method, or the name of the tool, whose answer it replaces.
    pub instead_of: String,
}

/// How a process started by the server is related to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grandchild {
    /// An ordinary child, in the server's process group.
    Attached,
    /// In a session of its own, its parent gone.
    Detached,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_description_is_the_default() {
        assert_eq!(
            Behaviour::from_argument("{}").unwrap(),
            Behaviour::default()
        );
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        assert!(Behaviour::from_argument(r#"{"discovr":"ok"}"#).is_err());
        assert!(Behaviour::from_argument(r#"{"calls":{"die_afer":1}}"#).is_err());
    }

    #[test]
    fn a_behaviour_survives_the_way_to_the_binary() {
        let behaviour = Behaviour::new()
            .era(Era::Legacy)
            .discover(DiscoverBehaviour::InvalidParams)
            .tools([Tool::named("one")])
            .http(|http| http.faults.push(Fault::always(FaultKind::Html)));
        let (command, arguments) = behaviour.stdio_command(Path::new("/bin/server"));
        assert_eq!(command, "/bin/server");
        assert_eq!(Behaviour::from_argument(&arguments[0]).unwrap(), behaviour);
    }

    #[test]
    fn a_behaviour_can_come_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("behaviour.json");
        std::fs::write(&path, r#"{"discover":"error_-32602"}"#).unwrap();
        let behaviour = Behaviour::from_argument(&format!("@{}", path.display())).unwrap();
        assert_eq!(behaviour.discover, DiscoverBehaviour::InvalidParams);
    }

    #[test]
    fn the_era_changes_after_the_given_number_of_starts() {
        let directory = tempfile::tempdir().unwrap();
        let change = EraChange {
            after_starts: 2,
            to: Era::Stateless,
            state: directory.path().join("starts"),
        };
        let eras: Vec<Era> = (0..3)
            .map(|_| change.count_start(Era::Legacy).unwrap())
            .collect();
        assert_eq!(eras, [Era::Legacy, Era::Legacy, Era::Stateless]);
    }
}
