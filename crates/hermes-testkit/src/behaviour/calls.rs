//! How tool calls are answered, late, wrongly or never.

use serde::{Deserialize, Serialize};

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
