//! Parses a client's own tools, in the format of OpenAI's protocols.

use std::sync::Arc;

use hermes_agent::{
    model::ToolDefinition,
    turn::{ClientToolChoice, ClientTools},
};
use serde_json::{Value, json};

use super::error::ApiError;

const MAX_TOOLS: usize = 128;
const MAX_NAME_CHARS: usize = 64;

/// Parses `tools` and `tool_choice`. `None` if the client has none, or disables calls.
pub(super) fn parse_client_tools(
    tools: Option<&Value>,
    choice: Option<&Value>,
) -> Result<Option<Arc<ClientTools>>, ApiError> {
    let tools = match tools {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(tools)) if tools.len() <= MAX_TOOLS => tools,
        Some(_) => {
            let message = format!("`tools` is a list of at most {MAX_TOOLS} functions");
            return Err(ApiError::invalid_member("tools", message));
        }
    };
    let mut definitions: Vec<ToolDefinition> = Vec::with_capacity(tools.len());
    for tool in tools {
        let definition = parse_definition(tool)?;
        if definitions
            .iter()
            .any(|known| known.name == definition.name)
        {
            let message = format!("`tools` has two functions `{}`", definition.name);
            return Err(ApiError::invalid_member("tools", message));
        }
        definitions.push(definition);
    }
    let choice = match parse_choice(choice)? {
        Some(choice) if !definitions.is_empty() => choice,
        _ => return Ok(None),
    };
    if let ClientToolChoice::Tool(name) = &choice
        && !definitions.iter().any(|tool| tool.name == *name)
    {
        let message = format!("`tool_choice` names `{name}`, which is not in `tools`");
        return Err(ApiError::invalid_member("tool_choice", message));
    }
    Ok(Some(Arc::new(ClientTools {
        definitions,
        choice,
    })))
}

/// One function. Chat completions put its members into `function`, responses next to the type.
fn parse_definition(tool: &Value) -> Result<ToolDefinition, ApiError> {
    if tool["type"] != "function" {
        let message = format!(
            "`tools`: only functions are supported, not {}; the agent has its own tools for everything else",
            tool["type"]
        );
        return Err(ApiError::invalid_member("tools", message));
    }
    let function = tool.get("function").unwrap_or(tool);
    let name = function["name"].as_str().unwrap_or_default();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_letter) {
        let message = format!(
            "`tools`: a function's name has 1 to {MAX_NAME_CHARS} letters, digits, `_` and `-`"
        );
        return Err(ApiError::invalid_member("tools", message));
    }
    let parameters = match function.get("parameters") {
        None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => {
            let message = format!("`tools`: the parameters of `{name}` are a JSON Schema");
            return Err(ApiError::invalid_member("tools", message));
        }
    };
    let description = function["description"].as_str().unwrap_or_default();
    Ok(ToolDefinition {
        name: name.to_owned(),
        description: description.into(),
        parameters: parameters.into(),
    })
}

/// `None` if no function of the client may be called.
fn parse_choice(choice: Option<&Value>) -> Result<Option<ClientToolChoice>, ApiError> {
    let choice = match choice {
        None | Some(Value::Null) => return Ok(Some(ClientToolChoice::Auto)),
        Some(choice) => choice,
    };
    match choice.as_str() {
        Some("auto") => return Ok(Some(ClientToolChoice::Auto)),
        Some("required") => return Ok(Some(ClientToolChoice::Required)),
        Some("none") => return Ok(None),
        _ => {}
    }
    let function = choice.get("function").unwrap_or(choice);
    match (choice["type"].as_str(), function["name"].as_str()) {
        (Some("function"), Some(name)) => Ok(Some(ClientToolChoice::Tool(name.to_owned()))),
        _ => Err(ApiError::invalid_member(
            "tool_choice",
            "`tool_choice` is `auto`, `none`, `required`, or names a function",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weather() -> Value {
        json!({"type": "function", "function": {"name": "weather", "description": "Tells it"}})
    }

    #[test]
    fn both_shapes_of_a_function_are_read() {
        let flat = json!({"type": "function", "name": "weather", "description": "Tells it"});
        for tool in [weather(), flat] {
            let tools = parse_client_tools(Some(&json!([tool])), None)
                .unwrap()
                .unwrap();
            assert_eq!(tools.definitions[0].name, "weather");
            assert_eq!(tools.definitions[0].parameters["type"], "object");
            assert_eq!(tools.choice, ClientToolChoice::Auto);
        }
    }

    #[test]
    fn the_choice_is_read_and_none_leaves_the_tools_out() {
        let tools = json!([weather()]);
        let choice = |choice: Value| parse_client_tools(Some(&tools), Some(&choice)).unwrap();
        let named = json!({"type": "function", "function": {"name": "weather"}});
        assert_eq!(
            choice(named).unwrap().choice,
            ClientToolChoice::Tool("weather".into())
        );
        let required = choice(json!("required")).unwrap();
        assert_eq!(required.choice, ClientToolChoice::Required);
        assert_eq!(choice(json!("none")), None);
        assert_eq!(
            parse_client_tools(None, Some(&json!("auto"))).unwrap(),
            None
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for tools in [
            json!("x"),
            json!([{"type": "web_search"}]),
            json!([{"type": "function", "function": {"name": "a b"}}]),
            json!([weather(), weather()]),
        ] {
            assert!(parse_client_tools(Some(&tools), None).is_err(), "{tools}");
        }
        let other = json!({"type": "function", "name": "other"});
        assert!(parse_client_tools(Some(&json!([weather()])), Some(&other)).is_err());
    }
}
