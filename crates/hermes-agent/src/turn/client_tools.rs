//! Tools that whoever asked runs itself: they are offered to the model beside the agent's own, and a call of one ends the
//! turn.

use std::borrow::Cow;

use crate::{
    message::ToolCall,
    model::{ToolChoice, ToolDefinition},
};

/// The tools of a client, and whether they have to be called.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientTools {
    /// What the model is told. A name that a tool of the agent has means the client's.
    pub definitions: Vec<ToolDefinition>,
    /// Whether one has to be called.
    pub choice: ClientToolChoice,
}

/// Whether a client's tool has to be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// One of them, before anything else is done.
    Required,
    /// This one.
    Tool(String),
}

impl ClientTools {
    /// Whether a call is for the client.
    pub fn has(&self, call: &ToolCall) -> bool {
        let is_it = |tool: &ToolDefinition| tool.name == call.name;
        self.definitions.iter().any(is_it)
    }
}

/// What is offered to the model in one request, and whether it has to call something.
pub(super) struct Offer<'a> {
    pub(super) tools: Cow<'a, [ToolDefinition]>,
    pub(super) choice: ToolChoice<'a>,
}

/// The tools of a request: the agent's own and those of the client. A client that wants one of its own called gets that
/// in the first request, where nothing else is offered.
pub(super) fn offer<'a>(
    own: &'a [ToolDefinition],
    client: Option<&'a ClientTools>,
    is_first: bool,
) -> Offer<'a> {
    let Some(client) = client else {
        return Offer {
            tools: Cow::Borrowed(own),
            choice: ToolChoice::Auto,
        };
    };
    match &client.choice {
        ClientToolChoice::Required if is_first => Offer {
            tools: Cow::Borrowed(&client.definitions),
            choice: ToolChoice::Required,
        },
        ClientToolChoice::Tool(name) if is_first => Offer {
            tools: Cow::Borrowed(&client.definitions),
            choice: ToolChoice::Tool(name),
        },
        _ => {
            let is_hidden = |tool: &&ToolDefinition| {
                let mut names = client.definitions.iter().map(|client| &client.name);
                !names.any(|name| *name == tool.name)
            };
            let own = own.iter().filter(is_hidden);
            Offer {
                tools: own.chain(&client.definitions).cloned().collect(),
                choice: ToolChoice::Auto,
            }
        }
    }
}
