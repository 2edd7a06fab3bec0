//! Goose: `extensions` in `config.yaml`.

use std::path::Path;

use serde_json::Value;

use crate::import::{ImportError, ParsedServer, draft::Draft, servers_under};

pub(crate) fn read_servers(
    document: &Value,
    path: &Path,
) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(document, "extensions", path, convert_server)
}

fn convert_server(draft: &mut Draft) -> Result<(), String> {
    draft.ignore(&["name", "display_name", "description", "bundled"]);
    let kind = draft.take_text("type").unwrap_or_default();
    let known_to_goose = draft.take_list("env_keys");
    let stored = known_to_goose
        .iter()
        .map(|name| (name.clone(), format!("${{{name}}}")));
    match kind.as_str() {
        "stdio" => {
            let command = draft.take_text("cmd");
            draft.set_text("command", command);
            let args = draft.take_list("args");
            draft.set_list("args", args);
            let env = draft.take_texts("envs");
            draft.add_texts("env", env);
            draft.add_texts("env", stored);
        }
        "streamable_http" | "sse" => {
            let uri = draft.take_text("uri");
            draft.set_text("url", uri);
            if kind == "sse" {
                draft.set("transport", "sse");
            }
            let headers = draft.take_texts("headers").into_iter();
            draft.add_texts(
                "headers",
                headers.map(|(name, text)| (name, with_braces(&text))),
            );
        }
        "builtin" | "platform" | "frontend" | "inline_python" => {
            return Err(format!(
                "it is a part of Goose itself (`{kind}`), not an MCP server of its own"
            ));
        }
        other => return Err(format!("servers of type `{other}` are not supported")),
    }
    for name in known_to_goose {
        draft.notes.push(format!(
            "set `{name}` in `.env`: Goose keeps it in its own secret store"
        ));
    }
    let enabled = draft.take_flag("enabled");
    draft.set_enabled(enabled);
    if let Some(seconds) = draft.take("timeout").as_ref().and_then(Value::as_f64) {
        draft.set_seconds("timeout", seconds);
    }
    let tools = draft.take_list("available_tools");
    draft.set_tools((!tools.is_empty()).then_some(tools), &[]);
    Ok(())
}

/// In headers Goose reads `$NAME` like `${NAME}`.
fn with_braces(text: &str) -> String {
    let mut braced = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        braced.push_str(before);
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let length = after
            .find(|character| !is_part(character))
            .unwrap_or(after.len());
        let (name, remainder) = after.split_at(length);
        if name.is_empty() || name.starts_with(|character: char| character.is_ascii_digit()) {
            braced.push('$');
            braced.push_str(name);
        } else {
            braced.push_str("${");
            braced.push_str(name);
            braced.push('}');
        }
        rest = remainder;
    }
    braced + rest
}

#[cfg(test)]
mod tests {
    use super::with_braces;

    #[test]
    fn bare_names_get_braces() {
        for (theirs, ours) in [
            ("Bearer $TOKEN", "Bearer ${TOKEN}"),
            ("${TOKEN}", "${TOKEN}"),
            ("$A/$B", "${A}/${B}"),
            ("5$ or $1", "5$ or $1"),
        ] {
            assert_eq!(with_braces(theirs), ours);
        }
    }
}
