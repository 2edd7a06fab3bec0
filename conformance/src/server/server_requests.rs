//! Tools that send requests to the client while they run. Only MCP sessions have a way for that; requests without one are
//! answered in `rounds`.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, ContentBlock, CreateMessageRequestParams,
        ElicitRequestParams, SamplingMessage, Tool,
    },
    service::{RequestContext, ServiceError},
};
use serde_json::{Value, json};

use super::content::{text_result, tool, tool_without_arguments};

pub(super) fn tools() -> Vec<Tool> {
    let one = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    vec![
        tool(
            "test_sampling",
            "Has the client's model answer",
            one("prompt"),
        ),
        tool(
            "test_elicitation",
            "Asks the user for a name and an address",
            one("message"),
        ),
        tool_without_arguments(
            "test_elicitation_sep1034_defaults",
            "Asks the user with defaults of every kind",
        ),
        tool_without_arguments(
            "test_elicitation_sep1330_enums",
            "Asks the user to choose in every way",
        ),
    ]
}

/// The answer, if the tool is one of these.
pub(super) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResult, ErrorData>> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let value = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        value.unwrap_or_default().to_owned()
    };
    Some(match &*request.name {
        "test_sampling" => Ok(sample(argument("prompt"), context).await),
        "test_elicitation" => elicit(&argument("message"), contact_schema(), context).await,
        "test_elicitation_sep1034_defaults" => {
            elicit("Change what is wrong", defaults_schema(), context).await
        }
        "test_elicitation_sep1330_enums" => elicit("Choose", choices_schema(), context).await,
        _ => return None,
    })
}

async fn sample(prompt: String, context: &RequestContext<RoleServer>) -> CallToolResult {
    let messages = vec![SamplingMessage::user_text(prompt)];
    let asked = CreateMessageRequestParams::new(messages, 100);
    match context.peer.create_message(asked).await {
        Ok(answer) => {
            let texts = answer.message.content.iter().filter_map(|part| {
                let text = part.as_text()?;
                Some(text.text.as_str())
            });
            text_result(format!("LLM response: {}", texts.collect::<String>()))
        }
        Err(error) => refused_result(&error),
    }
}

async fn elicit(
    message: &str,
    schema: Value,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let asked = form_request(message, schema)?;
    Ok(match context.peer.create_elicitation(asked).await {
        Ok(answer) => text_result(format!("Elicitation completed: {}", json!(answer))),
        Err(error) => refused_result(&error),
    })
}

fn refused_result(error: &ServiceError) -> CallToolResult {
    let problem = format!("the client did not answer: {error}");
    CallToolResult::error(vec![ContentBlock::text(problem)])
}

/// A form for the user to fill in.
pub(super) fn form_request(message: &str, schema: Value) -> Result<ElicitRequestParams, ErrorData> {
    let requested_schema = serde_json::from_value(schema)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema,
    })
}

fn contact_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    })
}

fn defaults_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        },
    })
}

fn choices_schema() -> Value {
    let titled = json!([
        {"const": "value1", "title": "First"},
        {"const": "value2", "title": "Second"},
        {"const": "value3", "title": "Third"},
    ]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {
                "type": "array",
                "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
            },
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    })
}
