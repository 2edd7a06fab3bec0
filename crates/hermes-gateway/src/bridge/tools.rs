//! The tools: their table and dispatch.

use std::sync::Arc;

use rmcp::{
    RoleServer,
    model::{CallToolResult, JsonObject, Tool, ToolAnnotations},
    service::RequestContext,
};

use super::{
    Bridge, ToolAccess,
    arguments::{self, Arguments, Parameter},
    connection::EventStart,
    envelope,
};

mod approvals;
mod attachments;
mod conversations;
mod events;
mod messages;

pub(super) use attachments::{StoredAttachment, attachments_of, find_message};
pub(super) use conversations::{ConversationFilter, find_conversation, list_conversations};
pub(super) use messages::{Transcript, read_transcript};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolId {
    ConversationsList,
    ConversationGet,
    MessagesRead,
    AttachmentsFetch,
    EventsPoll,
    EventsWait,
    MessagesSend,
    ChannelsList,
    PermissionsListOpen,
    PermissionsRespond,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Writes,
}

struct ToolSpec {
    tool: ToolId,
    name: &'static str,
    title: &'static str,
    description: &'static str,
    parameters: &'static [Parameter],
    effect: Effect,
}

const MAX_CURSOR: i64 = 1_000_000_000_000_000_000;

const SESSION_KEY: Parameter = Parameter::text("session_key");
const AFTER_CURSOR: Parameter = Parameter::integer("after_cursor", 0, 0, MAX_CURSOR);
const OPTIONAL_SESSION_KEY: Parameter = Parameter::optional("session_key");
const PLATFORM: Parameter = Parameter::optional("platform");

/// In the order they are listed.
const TOOLS: [ToolSpec; 10] = [
    ToolSpec {
        tool: ToolId::ConversationsList,
        name: "conversations_list",
        title: "List conversations",
        description: "List the open conversations on messaging platforms, most recently active first. `platform` keeps \
            those of one platform, `search` those whose name or key contains a text. Each has a `session_key`, which \
            the other tools take.",
        parameters: &[
            PLATFORM,
            Parameter::integer("limit", 50, 1, 200),
            Parameter::optional("search"),
        ],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::ConversationGet,
        name: "conversation_get",
        title: "Show a conversation",
        description: "Show one conversation: who and where it is, when it began and was last active, and the tokens it \
            has used.",
        parameters: &[SESSION_KEY],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::MessagesRead,
        name: "messages_read",
        title: "Read messages",
        description: "Read the latest messages of a conversation, oldest first: what people and the assistant said, \
            without tool calls. Long messages are cut to 2000 characters.",
        parameters: &[SESSION_KEY, Parameter::integer("limit", 50, 1, 200)],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::AttachmentsFetch,
        name: "attachments_fetch",
        title: "List attachments",
        description: "List what a message carries besides text: images, and files that the platform has stored. \
            `message_id` is an `id` from messages_read or events.",
        parameters: &[SESSION_KEY, Parameter::text("message_id")],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::EventsPoll,
        name: "events_poll",
        title: "Poll for events",
        description: "Return at once what has happened after a cursor: messages, and approvals that were asked for or \
            decided. Pass the returned `next_cursor` next time; 0 means since this connection began.",
        parameters: &[
            AFTER_CURSOR,
            OPTIONAL_SESSION_KEY,
            Parameter::integer("limit", 20, 1, 200),
        ],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::EventsWait,
        name: "events_wait",
        title: "Wait for an event",
        description: "Wait for the next event after a cursor, at most `timeout_ms` (up to 300000). Pass the event's \
            cursor to wait for the one after it.",
        parameters: &[
            AFTER_CURSOR,
            OPTIONAL_SESSION_KEY,
            Parameter::integer("timeout_ms", 30_000, 0, 300_000),
        ],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::MessagesSend,
        name: "messages_send",
        title: "Send a message",
        description: "Send a text as the bot. `target` is `platform:chat`, such as `telegram:123456`, \
            `discord:#general` or `slack:C0123456789`, or a platform alone for its home channel; channels_list has \
            them all.",
        parameters: &[Parameter::text("target"), Parameter::text("message")],
        effect: Effect::Writes,
    },
    ToolSpec {
        tool: ToolId::ChannelsList,
        name: "channels_list",
        title: "List channels",
        description: "List the chats and channels that messages_send can reach, each with its `target`.",
        parameters: &[PLATFORM],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::PermissionsListOpen,
        name: "permissions_list_open",
        title: "List open approvals",
        description: "List what the agent wants to do and waits for a decision on, oldest first.",
        parameters: &[],
        effect: Effect::Reads,
    },
    ToolSpec {
        tool: ToolId::PermissionsRespond,
        name: "permissions_respond",
        title: "Decide on an approval",
        description: "Decide on an open approval: `decision` is `allow-once`, `allow-always` or `deny`. The answer \
            comes when the waiting process has acted on it.",
        parameters: &[Parameter::text("id"), Parameter::text("decision")],
        effect: Effect::Writes,
    },
];

pub(super) fn list_tools(access: ToolAccess) -> Vec<Tool> {
    let output = envelope::output_schema();
    let describe = |tool: &ToolSpec| {
        let input: JsonObject = arguments::arguments_schema(tool.parameters);
        let mut annotations = ToolAnnotations::with_title(tool.title);
        if tool.effect == Effect::Reads {
            annotations = annotations.read_only(true);
        }
        Tool::new(tool.name, tool.description, Arc::new(input))
            .with_raw_output_schema(Arc::clone(&output))
            .with_annotations(annotations)
    };
    offered_tools(access).map(describe).collect()
}

fn offered_tools(access: ToolAccess) -> impl Iterator<Item = &'static ToolSpec> {
    let is_offered =
        move |tool: &&ToolSpec| access == ToolAccess::All || tool.effect == Effect::Reads;
    TOOLS.iter().filter(is_offered)
}

pub(super) async fn call_tool(
    bridge: &Bridge,
    beginning: &EventStart,
    name: &str,
    given: Option<&JsonObject>,
    context: &RequestContext<RoleServer>,
) -> CallToolResult {
    let Some(tool) = offered_tools(bridge.access()).find(|tool| tool.name == name) else {
        return envelope::invalid_call(format!("Unknown tool: {name}"));
    };
    let arguments = match Arguments::check(tool.name, tool.parameters, given) {
        Ok(arguments) => arguments,
        Err(problem) => return envelope::invalid_call(problem),
    };
    let arguments = &arguments;
    tracing::debug!(tool = tool.name, id = %context.id, "bridge tool called");
    let outcome = match tool.tool {
        ToolId::ConversationsList => conversations::conversations_list(bridge, arguments).await,
        ToolId::ConversationGet => conversations::conversation_get(bridge, arguments).await,
        ToolId::MessagesRead => messages::messages_read(bridge, arguments).await,
        ToolId::AttachmentsFetch => attachments::attachments_fetch(bridge, arguments).await,
        ToolId::EventsPoll => events::events_poll(bridge, beginning, arguments).await,
        ToolId::EventsWait => events::events_wait(bridge, beginning, arguments, context).await,
        ToolId::MessagesSend => messages::messages_send(bridge, arguments).await,
        ToolId::ChannelsList => messages::channels_list(bridge, arguments).await,
        ToolId::PermissionsListOpen => approvals::permissions_list_open(bridge).await,
        ToolId::PermissionsRespond => approvals::permissions_respond(bridge, arguments).await,
    };
    let is_refused = outcome.is_err();
    tracing::debug!(tool = tool.name, id = %context.id, is_refused, "bridge tool answered");
    envelope::wrap_result(outcome)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_are_ten_in_their_order_and_eight_that_only_read() {
        let names = |access| -> Vec<_> {
            let tools = list_tools(access).into_iter();
            tools.map(|tool| tool.name.into_owned()).collect()
        };
        let all = names(ToolAccess::All);
        assert_eq!(
            all,
            [
                "conversations_list",
                "conversation_get",
                "messages_read",
                "attachments_fetch",
                "events_poll",
                "events_wait",
                "messages_send",
                "channels_list",
                "permissions_list_open",
                "permissions_respond",
            ]
        );
        let mut reading = all.clone();
        reading.retain(|name| name != "messages_send" && name != "permissions_respond");
        assert_eq!(names(ToolAccess::ReadOnly), reading);
        for tool in list_tools(ToolAccess::All) {
            let hint = tool.annotations.unwrap().read_only_hint;
            assert_eq!(
                hint == Some(true),
                reading.contains(&tool.name.into_owned())
            );
        }
    }

    #[test]
    fn the_schemas_are_exact() {
        let tools = list_tools(ToolAccess::All);
        let input = |name: &str| {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            serde_json::to_value(&*tool.input_schema).unwrap()
        };
        let optional = json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null});
        assert_eq!(
            input("conversations_list"),
            json!({"type": "object", "properties": {
                "platform": optional, "limit": {"type": "integer", "default": 50}, "search": optional,
            }})
        );
        assert_eq!(
            input("events_wait"),
            json!({"type": "object", "properties": {
                "after_cursor": {"type": "integer", "default": 0}, "session_key": optional,
                "timeout_ms": {"type": "integer", "default": 30000},
            }})
        );
        assert_eq!(
            input("permissions_respond"),
            json!({"type": "object", "properties": {"id": {"type": "string"}, "decision": {"type": "string"}},
                "required": ["id", "decision"]})
        );
        let output = serde_json::to_value(&tools[0].output_schema).unwrap();
        assert_eq!(
            output,
            json!({"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]})
        );
    }
}
