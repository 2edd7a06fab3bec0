//! Tools that the client runs itself: they are offered to the model besides the agent's own, and a call of one ends the
//! turn.

use std::borrow::Cow;

use crate::{
    message::ToolCall,
    model::{ToolChoice, ToolDefinition},
};

/// The tools of a client, and whether they have to be called.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientTools {
    /// A client's tool hides one of the agent with the same name.
    pub definitions: Vec<ToolDefinition>,
    pub choice: ClientToolChoice,
}

/// Whether a client's tool has to be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientToolChoice {
    #[default]
    Auto,
    /// One of them, first of all.
    Required,
    Tool(String),
}

impl ClientTools {
    /// Whether a call is for the client.
    pub fn owns_call(&self, call: &ToolCall) -> bool {
        let is_it = |tool: &ToolDefinition| tool.name == call.name;
        self.definitions.iter().any(is_it)
    }
}

/// The tools of one request, and whether the model has to call one.
pub(super) struct ToolOffer<'a> {
    pub(super) tools: Cow<'a, [ToolDefinition]>,
    pub(super) choice: ToolChoice<'a>,
}

/// The tools of a request: the agent's own and those of the client. A client that requires a call of its own tools gets
/// that in the first request, where nothing else is offered.
pub(super) fn build_offer<'a>(
    own: &'a [ToolDefinition],
    client: Option<&'a ClientTools>,
    is_first: bool,
) -> ToolOffer<'a> {
    let Some(client) = client else {
        return ToolOffer {
            tools: Cow::Borrowed(own),
            choice: ToolChoice::Auto,
        };
    };
    match &client.choice {
        ClientToolChoice::Required if is_first => ToolOffer {
            tools: Cow::Borrowed(&client.definitions),
            choice: ToolChoice::Required,
        },
        ClientToolChoice::Tool(name) if is_first => ToolOffer {
            tools: Cow::Borrowed(&client.definitions),
            choice: ToolChoice::Tool(name),
        },
        _ => {
            let is_hidden = |tool: &&ToolDefinition| {
                let mut names = client.definitions.iter().map(|client| &client.name);
                !names.any(|name| *name == tool.name)
            };
            let own = own.iter().filter(is_hidden);
            ToolOffer {
                tools: own.chain(&client.definitions).cloned().collect(),
                choice: ToolChoice::Auto,
            }
        }
    }
}
