//! The shape most programs share: `command`, `args`, `env`, `cwd`, or `url` and `headers`, and perhaps a `type`; Claude
//! Desktop and Claude Code, which use it as it is.

use std::path::Path;

use serde_json::Value;

use crate::import::{ImportError, ParsedServer, draft::Draft, servers_under};

/// Carries the usual keys over.
pub(crate) fn convert_server(draft: &mut Draft) -> Result<(), String> {
    draft.ignore(&["description", "name"]);
    let kind = draft.take_text("type");
    let kind = kind.or_else(|| draft.take_text("transport"));
    let kind = kind.unwrap_or_default().to_lowercase();

    let command = draft.take_text("command");
    draft.set_text("command", command);
    let args = draft.take_list("args");
    draft.set_list("args", args);
    let env = draft.take_texts("env");
    draft.add_texts("env", env);
    let cwd = draft.take_text("cwd");
    draft.set_text("cwd", cwd);
    let url = draft.take_text("url");
    draft.set_text("url", url);
    match kind.as_str() {
        "" | "stdio" | "http" | "streamable-http" | "streamable_http" | "streamablehttp" => {}
        "sse" => draft.set("transport", "sse"),
        other => return Err(format!("servers of type `{other}` are not supported")),
    }
    let headers = draft.take_texts("headers");
    draft.add_texts("headers", headers);

    let disabled = draft.take_flag("disabled").map(|disabled| !disabled);
    let enabled = draft.take_flag("enabled").or(disabled);
    draft.set_enabled(enabled);
    Ok(())
}

/// A project's server was started in the project's directory; that matters where it is named by a relative path.
pub(crate) fn set_working_directory(draft: &mut Draft, project: &str) {
    let is_relative = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        ["./", "../", ".\\", "..\\"]
            .iter()
            .any(|start| text.starts_with(start))
    };
    let args = draft.entry.get("args").and_then(Value::as_array);
    let relative = draft.entry.get("command").is_some_and(is_relative)
        || args.is_some_and(|args| args.iter().any(is_relative));
    if relative && !draft.entry.contains_key("cwd") {
        draft.set("cwd", project);
    }
}

/// `claude_desktop_config.json`.
pub(crate) fn read_desktop(
    document: &Value,
    path: &Path,
) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(document, "mcpServers", path, convert_server)
}

/// `~/.claude.json`, where each project can have servers of its own, or a project's `.mcp.json`.
pub(crate) fn read_code(document: &Value, path: &Path) -> Result<Vec<ParsedServer>, ImportError> {
    let mut readings = servers_under(document, "mcpServers", path, convert_code_server)?;
    let Some(Value::Object(projects)) = document.get("projects") else {
        return Ok(readings);
    };
    for (project, settings) in projects {
        for mut reading in servers_under(settings, "mcpServers", path, convert_code_server)? {
            let is_taken = |name: &str| readings.iter().any(|other| other.name == name);
            if is_taken(&reading.name) {
                let directory = Path::new(project).file_name().unwrap_or_default();
                reading.name = format!("{}-{}", reading.name, directory.to_string_lossy());
            }
            if is_taken(&reading.name) {
                reading.draft = Err(format!(
                    "a server of that name is there already; this one is of {project}"
                ));
            }
            if let Ok(draft) = &mut reading.draft {
                draft.notes.push(format!("was used in {project} only"));
                set_working_directory(draft, project);
            }
            readings.push(reading);
        }
    }
    Ok(readings)
}

fn convert_code_server(draft: &mut Draft) -> Result<(), String> {
    convert_server(draft)?;
    let timeout = draft.take("timeout");
    draft.set_milliseconds("timeout", timeout.as_ref());
    if let Some(oauth) = draft.take_object("oauth") {
        draft.set_oauth(&oauth);
    }
    Ok(())
}
