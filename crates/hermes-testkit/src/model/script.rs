//! What a model says, as data: it travels to the program `testkit-model` as one JSON argument.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A model's whole behaviour. The default repeats what the user says.
///
/// ```
/// use hermes_testkit::model::{ScriptedAnswer, ModelScript};
/// use serde_json::json;
///
/// let script = ModelScript::new([
///     ScriptedAnswer::call("get_weather", &json!({"city": "Bern"})),
///     ScriptedAnswer::text("It rains."),
/// ])
/// .rule("weather", ScriptedAnswer::status(503, "busy"));
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelScript {
    /// Used before the answers: the first one that fits.
    pub rules: Vec<ModelRule>,
    /// One for each request, in order; when they are used up, the model echoes.
    pub answers: Vec<ScriptedAnswer>,
    /// The key that requests must have.
    pub key: Option<String>,
    /// The models it lists, and with `refuse_others` the only ones it has.
    pub models: Vec<String>,
    /// Answers 404 to requests for models it does not list.
    pub refuse_others: bool,
    /// The models Ollama would have in memory.
    pub loaded: Vec<String>,
    /// Whether it also lists its models the way Ollama does.
    pub ollama: bool,
    /// The context it claims, in its lists and when it is full.
    pub context_length: Option<u32>,
    /// Answers whole even where a stream is asked for.
    pub never_streams: bool,
    /// One for each request for a transcript, in order; when they are used up, the words in the sound file.
    pub transcripts: Vec<ScriptedAnswer>,
}

/// An answer for messages that hold a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRule {
    /// What the last message must hold.
    pub contains: String,
    /// What is answered then.
    pub answer: ScriptedAnswer,
    /// How often; forever if absent.
    #[serde(default)]
    pub times: Option<u32>,
}

/// What happens to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedAnswer {
    /// The text of the last message of the user.
    Echo,
    Reply(ScriptedReply),
    /// A refusal.
    Status {
        status: u16,
        /// What it says.
        message: String,
        /// The error's code, in OpenAI's protocol.
        #[serde(default)]
        code: Option<String>,
        /// The header `Retry-After`.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// The refusal of a conversation that is too long, in the protocol's own words.
    Overflow,
    /// Nothing, ever.
    Silence,
}

/// A reply and how it arrives.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedReply {
    /// Thoughts before the answer.
    pub reasoning: Vec<String>,
    /// The text, in pieces.
    pub text: Vec<String>,
    /// Calls, whose arguments arrive interleaved.
    pub calls: Vec<ScriptedCall>,
    /// Token counts.
    pub usage: Option<ScriptedUsage>,
    /// Replaces the reason that fits, in the protocol's own word.
    pub finish: Option<String>,
    /// Before the first piece.
    pub delay_ms: u64,
    /// Before every further piece.
    pub pause_ms: u64,
    pub ending: ReplyEnding,
    /// An error in the place of the end, as an event in the stream.
    pub error: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedCall {
    /// Its id; without one a server that forgets ids is played.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments as text, in pieces; they need not be JSON.
    pub arguments: Vec<String>,
    /// Sends the name with the last piece instead of the first.
    pub name_last: bool,
}

/// Token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedUsage {
    /// The prompt, cached part included.
    pub prompt: u64,
    /// The part of it that was cached.
    pub cached: u64,
    /// The reply.
    pub completion: u64,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyEnding {
    /// With its terminator.
    #[default]
    Proper,
    /// Properly closed, but without the terminator.
    Early,
    /// With a broken connection.
    Cut,
    /// Never: nothing more comes.
    Stalled,
}

impl ModelScript {
    /// A model that gives these answers, in order.
    pub fn new(answers: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        Self {
            answers: answers.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A model that repeats what the user says, at once.
    pub fn echo() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn rule(mut self, contains: &str, answer: ScriptedAnswer) -> Self {
        self.rules.push(ModelRule {
            contains: contains.into(),
            answer,
            times: None,
        });
        self
    }

    /// Gives these transcripts, in order.
    #[must_use]
    pub fn with_transcripts(mut self, all: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        self.transcripts = all.into_iter().collect();
        self
    }

    /// Demands this key.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Lists these models.
    #[must_use]
    pub fn with_models<'m>(mut self, models: impl IntoIterator<Item = &'m str>) -> Self {
        self.models = models.into_iter().map(str::to_owned).collect();
        self
    }

    /// Reads a script as the program gets it: JSON, or `@` and the path of a file that holds JSON.
    pub fn from_argument(argument: &str) -> io::Result<Self> {
        let text = match argument.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path)?,
            None => argument.to_owned(),
        };
        Ok(serde_json::from_str(&text)?)
    }
}

impl ScriptedAnswer {
    /// A text in one piece.
    pub fn text(text: &str) -> Self {
        Self::pieces([text])
    }

    /// A text in pieces.
    pub fn pieces<'t>(pieces: impl IntoIterator<Item = &'t str>) -> Self {
        Self::Reply(ScriptedReply {
            text: pieces.into_iter().map(str::to_owned).collect(),
            ..ScriptedReply::default()
        })
    }

    pub fn call(name: &str, arguments: &Value) -> Self {
        Self::calls([(name, arguments.clone())])
    }

    /// Calls of several tools in one reply, each with its arguments in two pieces.
    pub fn calls<'n>(calls: impl IntoIterator<Item = (&'n str, Value)>) -> Self {
        let calls = calls
            .into_iter()
            .enumerate()
            .map(|(index, (name, arguments))| {
                let text = arguments.to_string();
                let (first, second) = text.split_at(text.len() / 2);
                ScriptedCall {
                    id: Some(format!("call_{index}")),
                    name: name.into(),
                    arguments: vec![first.into(), second.into()],
                    name_last: false,
                }
            });
        Self::Reply(ScriptedReply {
            calls: calls.collect(),
            ..ScriptedReply::default()
        })
    }

    /// A refusal.
    pub fn status(status: u16, message: &str) -> Self {
        Self::Status {
            status,
            message: message.into(),
            code: None,
            retry_after: None,
        }
    }

    /// 429 with this `Retry-After`.
    pub fn too_many_requests(retry_after: &str) -> Self {
        Self::Status {
            status: 429,
            message: "too many requests".into(),
            code: Some("rate_limit_exceeded".into()),
            retry_after: Some(retry_after.into()),
        }
    }

    /// Changes a scripted reply.
    ///
    /// # Panics
    ///
    /// If it is none.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ScriptedReply)) -> Self {
        match &mut self {
            Self::Reply(reply) => change(reply),
            other => panic!("{other:?} is not a reply"),
        }
        self
    }
}
