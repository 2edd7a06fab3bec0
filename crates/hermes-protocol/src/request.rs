//! What is asked of an agent: the input of a run, decisions about its approvals, and what people made of forms.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The input of a run that somebody asks for. A run of a cron job has none: the job says what to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptInput {
    /// A text, or messages ending with the user's turn.
    pub input: Value,
    /// Added to the system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Earlier messages; only used if the session is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_history: Option<Value>,
    /// The session, which may be new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// An earlier run, whose session is continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_response_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What somebody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum ApprovalChoice {
    Once,
    Session,
    Always,
    Deny,
}

/// A word that is not a choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a choice; choices are `once`, `session`, `always` and `deny`")]
pub struct UnknownChoice(String);

impl ApprovalChoice {
    pub const ALL: [Self; 4] = [Self::Once, Self::Session, Self::Always, Self::Deny];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::Deny => "deny",
        }
    }

    /// Reads a choice; `approve`, `approved` and `allow` mean `once`.
    pub fn parse(word: &str) -> Result<Self, UnknownChoice> {
        match word.trim().to_lowercase().as_str() {
            "once" | "approve" | "approved" | "allow" => Ok(Self::Once),
            "session" => Ok(Self::Session),
            "always" => Ok(Self::Always),
            "deny" => Ok(Self::Deny),
            _ => Err(UnknownChoice(word.to_owned())),
        }
    }
}

impl TryFrom<String> for ApprovalChoice {
    type Error = UnknownChoice;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        Self::parse(&word)
    }
}

/// A decision about pending approvals of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalDecision {
    pub choice: ApprovalChoice,
    /// Which approval; the oldest if there is none.
    #[serde(default)]
    pub approval_id: Option<String>,
    /// All pending approvals.
    #[serde(default)]
    pub all: bool,
    /// For the agent.
    #[serde(default)]
    pub reason: Option<String>,
    /// The answers of a form, by the names of its fields; with `once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Map<String, Value>>,
    /// Whether a form is left without a decision; with `deny`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
}

impl ApprovalDecision {
    /// A bare decision about the oldest approval.
    pub fn new(choice: ApprovalChoice) -> Self {
        Self {
            choice,
            approval_id: None,
            all: false,
            reason: None,
            content: None,
            cancel: false,
        }
    }

    /// Adds what was made of a form.
    #[must_use]
    pub fn with_form_answer(mut self, answer: Option<FormAnswer>) -> Self {
        match answer {
            Some(FormAnswer::Content(content)) => self.content = Some(content),
            Some(FormAnswer::Cancel) => self.cancel = true,
            None => {}
        }
        self
    }

    /// What was made of a form.
    pub fn form_answer(&self) -> Result<Option<FormAnswer>, DecisionConflict> {
        FormAnswer::from_decision(self.choice, self.all, self.content.clone(), self.cancel)
    }
}

/// What somebody made of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormAnswer {
    /// The answers by the names of their fields, which go with `once`.
    Content(Map<String, Value>),
    /// It was left without a decision, which goes with `deny`.
    Cancel,
}

/// Members of a decision that do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionConflict {
    #[error(
        "`content` fills in a form: it goes with the choice `once`, and with neither `all` nor `cancel`"
    )]
    Content,
    #[error(
        "`cancel` leaves a form without a decision: it goes with the choice `deny`, and not with `all`"
    )]
    Cancel,
}

impl FormAnswer {
    /// What the members of a decision say about a form.
    pub fn from_decision(
        choice: ApprovalChoice,
        all: bool,
        content: Option<Map<String, Value>>,
        cancel: bool,
    ) -> Result<Option<Self>, DecisionConflict> {
        match (content, cancel) {
            (None, false) => Ok(None),
            (Some(content), false) if choice == ApprovalChoice::Once && !all => {
                Ok(Some(Self::Content(content)))
            }
            (Some(_), _) => Err(DecisionConflict::Content),
            (None, true) if choice == ApprovalChoice::Deny && !all => Ok(Some(Self::Cancel)),
            (None, true) => Err(DecisionConflict::Cancel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_with_a_yes_and_leaving_with_a_no() {
        use ApprovalChoice::{Always, Deny, Once};
        let read = FormAnswer::from_decision;
        assert_eq!(read(Once, true, None, false), Ok(None));
        let content = Some(Map::new());
        assert_eq!(
            read(Once, false, content.clone(), false),
            Ok(Some(FormAnswer::Content(Map::new())))
        );
        assert_eq!(read(Deny, false, None, true), Ok(Some(FormAnswer::Cancel)));
        for (choice, all, cancel) in [
            (Deny, false, false),
            (Always, false, false),
            (Once, true, false),
            (Once, false, true),
        ] {
            let wrong = read(choice, all, content.clone(), cancel);
            assert_eq!(wrong, Err(DecisionConflict::Content));
        }
        for (choice, all) in [(Once, false), (Deny, true)] {
            let wrong = read(choice, all, None, true);
            assert_eq!(wrong, Err(DecisionConflict::Cancel));
        }
    }
}
