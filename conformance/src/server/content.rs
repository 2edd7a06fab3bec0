//! Tools that answer at once, with every kind of content.

use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ResourceContents, Tool};
use serde_json::{Value, json};

/// One red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A sound file without a sound.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// A tool with that input schema.
pub(super) fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let schema = match schema {
        Value::Object(schema) => schema,
        _ => serde_json::Map::new(),
    };
    Tool::new(name, description, schema)
}

/// A tool without arguments.
pub(super) fn tool_without_arguments(name: &'static str, description: &'static str) -> Tool {
    tool(
        name,
        description,
        json!({"type": "object", "properties": {}}),
    )
}

/// A result of one sentence.
pub(super) fn text_result(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool_without_arguments("test_simple_text", "Returns a sentence"),
        tool_without_arguments("test_image_content", "Returns an image"),
        tool_without_arguments("test_audio_content", "Returns a sound"),
        tool_without_arguments("test_embedded_resource", "Returns a resource"),
        tool_without_arguments(
            "test_multiple_content_types",
            "Returns several kinds of content",
        ),
        tool_without_arguments("test_error_handling", "Always fails"),
        tool(
            "greet",
            "Greets somebody",
            json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
        ),
        tool(
            "test_argument_in_header",
            "Returns an argument that a header repeats",
            json!({"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
            }}),
        ),
        tool(
            "json_schema_2020_12_tool",
            "Has an input schema with many keywords",
            many_keywords(),
        ),
    ]
}

fn many_keywords() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// The answer, if the tool is one of these.
pub(super) fn call(request: &CallToolRequestParams) -> Option<CallToolResult> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let value = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        value.unwrap_or_default()
    };
    let content = match &*request.name {
        "test_simple_text" => {
            vec![ContentBlock::text(
                "This is a simple text response for testing.",
            )]
        }
        "test_image_content" => vec![ContentBlock::image(PNG, "image/png")],
        "test_audio_content" => vec![ContentBlock::audio(WAV, "audio/wav")],
        "test_embedded_resource" => vec![embedded(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )],
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            embedded(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ],
        "test_error_handling" => {
            let problem = "This tool intentionally returns an error for testing";
            return Some(CallToolResult::error(vec![ContentBlock::text(problem)]));
        }
        "greet" => vec![ContentBlock::text(format!("Hello, {}!", argument("name")))],
        "test_argument_in_header" => vec![ContentBlock::text(argument("region"))],
        "json_schema_2020_12_tool" => vec![ContentBlock::text("The arguments were taken.")],
        _ => return None,
    };
    Some(CallToolResult::success(content))
}

fn embedded(uri: &str, mime_type: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(mime_type))
}
