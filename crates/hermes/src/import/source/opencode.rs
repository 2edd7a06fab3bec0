//! OpenCode: `mcp` in `opencode.json`, or `mcp.servers` from its second version on.

use std::path::Path;

use serde_json::{Map, Value};

use crate::import::{ImportError, ParsedServer, draft::Draft, servers_under};

pub(crate) fn read_servers(
    document: &Value,
    path: &Path,
) -> Result<Vec<ParsedServer>, ImportError> {
    let read_one = |draft: &mut Draft| convert_server(draft, path.parent());
    match document.get("mcp") {
        Some(section) if is_second_version(section) => {
            servers_under(section, "servers", path, read_one)
        }
        _ => servers_under(document, "mcp", path, read_one),
    }
}

/// A server of the first version may itself be called `servers`; it has a `type`.
fn is_second_version(section: &Value) -> bool {
    let servers = section.get("servers").and_then(Value::as_object);
    servers.is_some_and(|servers| !servers.get("type").is_some_and(Value::is_string))
}

fn convert_server(draft: &mut Draft, directory: Option<&Path>) -> Result<(), String> {
    let kind = draft.take_text("type").unwrap_or_default();
    let references = |text: &str| convert_references(text, directory);
    match kind.as_str() {
        "local" => {
            let mut words = draft
                .take_list("command")
                .into_iter()
                .map(|word| references(&word));
            draft.set_text("command", words.next());
            let mut args: Vec<_> = words.collect();
            args.extend(draft.take_list("args").iter().map(|arg| references(arg)));
            draft.set_list("args", args);
            let env = draft.take_texts("environment").into_iter();
            draft.add_texts("env", env.map(|(name, text)| (name, references(&text))));
            let cwd = draft.take_text("cwd").map(|cwd| references(&cwd));
            draft.set_text("cwd", cwd);
        }
        "remote" => {
            let url = draft.take_text("url").map(|url| references(&url));
            draft.set_text("url", url);
            let headers = draft.take_texts("headers").into_iter();
            draft.add_texts(
                "headers",
                headers.map(|(name, text)| (name, references(&text))),
            );
            // `false` only switches OpenCode's own attempt off.
            if let Some(Value::Object(client)) = draft.take("oauth") {
                let client = client.into_iter().map(|(key, value)| match value {
                    Value::String(text) => (key, references(&text).into()),
                    other => (key, other),
                });
                draft.set_oauth(&client.collect::<Map<_, _>>());
            }
        }
        "" => return Err("it has no `type`; OpenCode knows `local` and `remote`".to_owned()),
        other => return Err(format!("servers of type `{other}` are not supported")),
    }
    let disabled = draft.take_flag("disabled").map(|disabled| !disabled);
    let enabled = draft.take_flag("enabled").or(disabled);
    draft.set_enabled(enabled);
    match draft.take("timeout") {
        Some(Value::Object(limits)) => {
            draft.set_milliseconds("connect_timeout", limits.get("startup"));
            draft.set_milliseconds("timeout", limits.get("request"));
        }
        limit => draft.set_milliseconds("timeout", limit.as_ref()),
    }
    Ok(())
}

/// `{env:NAME}` → `${NAME}`; `{file:PATH}` → `${file:PATH}`, relative paths taken from OpenCode's directory.
fn convert_references(text: &str, directory: Option<&Path>) -> String {
    let mut ours = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        ours.push_str(before);
        let (inner, remainder) = after.split_once('}').unwrap_or((after, ""));
        if let Some(reference) = convert_reference(inner, directory) {
            ours.push_str(&reference);
            rest = remainder;
        } else {
            ours.push('{');
            rest = after;
        }
    }
    ours + rest
}

fn convert_reference(inner: &str, directory: Option<&Path>) -> Option<String> {
    match inner.split_once(':')? {
        ("env", name) => Some(format!("${{{name}}}")),
        ("file", path) => {
            let path = path.strip_prefix("./").unwrap_or(path);
            let path = match directory {
                Some(directory) if !path.starts_with('~') => directory.join(path),
                _ => path.into(),
            };
            Some(format!("${{file:{}}}", path.display()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_references_become_ours() {
        let directory = Some(Path::new("/etc/opencode"));
        for (theirs, ours) in [
            ("{env:TOKEN}", "${TOKEN}"),
            ("Bearer {env:A}-{env:B}", "Bearer ${A}-${B}"),
            ("{file:key.txt}", "${file:/etc/opencode/key.txt}"),
            ("{file:/run/key}", "${file:/run/key}"),
            ("{file:~/key}", "${file:~/key}"),
            ("{\"a\":1} {open", "{\"a\":1} {open"),
        ] {
            assert_eq!(convert_references(theirs, directory), ours);
        }
    }
}
