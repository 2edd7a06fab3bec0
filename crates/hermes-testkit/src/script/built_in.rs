//! The table of built-in tools, as the list shows them.

use serde_json::{Map, Value, json};

use crate::behaviour::Tool;

/// Name, description, and the names and types of the arguments.
type ToolRow = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const TOOLS: &[ToolRow] = &[
    ("echo", "Returns its text.", &[("text", "string")]),
    (
        "add",
        "Adds two numbers.",
        &[("a", "integer"), ("b", "integer")],
    ),
    ("sleep", "Takes its time.", &[("ms", "integer")]),
    (
        "progress",
        "Reports progress.",
        &[("steps", "integer"), ("interval_ms", "integer")],
    ),
    (
        "fail",
        "Fails, with a code as a protocol error.",
        &[("text", "string"), ("code", "integer")],
    ),
    ("crash", "Ends the process in the middle of the call.", &[]),
    ("environment", "Returns the environment as JSON.", &[]),
    ("cwd", "Returns the working directory.", &[]),
    ("image", "Returns an image.", &[]),
    ("audio", "Returns a sound.", &[]),
    ("blob", "Returns an embedded document.", &[]),
    ("embedded", "Returns an embedded text.", &[]),
    ("link", "Returns a link to a resource.", &[]),
    ("unknown_content", "Returns content of no known kind.", &[]),
    (
        "content",
        "Returns the result it is given.",
        &[("result", "object")],
    ),
    (
        "big",
        "Returns a text of this many bytes.",
        &[("bytes", "integer")],
    ),
    (
        "sample",
        "Asks the client's model.",
        &[
            ("prompt", "string"),
            ("requests", "integer"),
            ("params", "object"),
        ],
    ),
    ("elicit", "Asks the user.", &[("params", "object")]),
    (
        "elicit_url",
        "Sends the user to a page.",
        &[("params", "object")],
    ),
    ("roots", "Asks for the client's roots.", &[]),
    ("change_tools", "Changes the list of tools.", CHANGE),
    ("change_resources", "Changes the list of resources.", CHANGE),
    ("change_prompts", "Changes the list of prompts.", CHANGE),
    (
        "touch_resource",
        "Announces new contents, and changes them if a text is given.",
        &[("uri", "string"), ("text", "string")],
    ),
    (
        "burst",
        "Announces a changed list many times.",
        &[("n", "integer")],
    ),
    (
        "log",
        "Logs a message.",
        &[
            ("level", "string"),
            ("message", "string"),
            ("logger", "string"),
            ("force", "boolean"),
        ],
    ),
    ("counter", "Counts calls, this one included.", &[]),
    (
        "spawn_grandchild",
        "Starts a process and returns its pid.",
        &[("detach", "boolean")],
    ),
    (
        "protocol",
        "Returns what the client said about itself.",
        &[],
    ),
];

const CHANGE: &[(&str, &str)] = &[("add", "array"), ("remove", "array")];

/// The tools of a server whose list was not replaced.
pub(super) fn tools() -> Vec<Tool> {
    TOOLS.iter().map(tool).collect()
}

fn tool((name, description, arguments): &ToolRow) -> Tool {
    let properties: Map<String, Value> = arguments
        .iter()
        .map(|(argument, kind)| ((*argument).to_owned(), json!({ "type": kind })))
        .collect();
    let tool = Tool::defined(json!({
        "name": name,
        "description": description,
        "inputSchema": { "type": "object", "properties": properties },
    }));
    match *name {
        "echo" => tool.with("annotations", json!({ "readOnlyHint": true })),
        "add" => tool.with(
            "outputSchema",
            json!({
                "type": "object",
                "properties": { "sum": { "type": "integer" } },
                "required": ["sum"],
            }),
        ),
        _ => tool,
    }
}
