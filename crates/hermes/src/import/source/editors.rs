//! Cursor, Windsurf, VS Code and Zed.

use std::path::Path;

use serde_json::{Value, json};

use crate::import::{
    ImportError, ParsedServer, draft::Draft, references::VsCodeInput, servers_under,
    source::standard_keys,
};

/// Cursor's `mcp.json`.
pub(crate) fn read_cursor(document: &Value, path: &Path) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(document, "mcpServers", path, |draft| {
        standard_keys::convert_server(draft)?;
        note_env_file(draft);
        if let Some(client) = draft.take_object("auth") {
            draft.set_oauth(&client);
        }
        Ok(())
    })
}

/// Windsurf's `mcp_config.json`, which says `serverUrl`.
pub(crate) fn read_windsurf(
    document: &Value,
    path: &Path,
) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(document, "mcpServers", path, |draft| {
        let url = draft.take_text("serverUrl");
        standard_keys::convert_server(draft)?;
        draft.set_text("url", url);
        let exclude = draft.take_list("disabledTools");
        draft.set_tools(None, &exclude);
        Ok(())
    })
}

/// VS Code's `mcp.json`, or the `mcp` section of its `settings.json`.
pub(crate) fn read_vscode(document: &Value, path: &Path) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(vscode_section(document), "servers", path, |draft| {
        // What the gallery and the debugger keep there.
        draft.ignore(&["gallery", "version", "dev"]);
        standard_keys::convert_server(draft)?;
        note_env_file(draft);
        if let Some(client) = draft.take_object("oauth") {
            draft.set_oauth(&client);
        }
        Ok(())
    })
}

/// The questions VS Code asks for `${input:…}`.
pub(crate) fn vscode_inputs(document: &Value) -> Vec<VsCodeInput> {
    let inputs = vscode_section(document)
        .get("inputs")
        .and_then(Value::as_array);
    let inputs = inputs.into_iter().flatten().filter_map(|input| {
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(VsCodeInput {
            id: text("id")?,
            description: text("description"),
            default: text("default").filter(|default| !default.is_empty()),
        })
    });
    inputs.collect()
}

fn vscode_section(document: &Value) -> &Value {
    match document.get("mcp") {
        Some(section) if document.get("servers").is_none() => section,
        _ => document,
    }
}

/// `context_servers` of Zed's `settings.json`. Older files have the command, its arguments and its environment in one
/// object.
pub(crate) fn read_zed(document: &Value, path: &Path) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(document, "context_servers", path, |draft| {
        let source = draft.take_text("source");
        if let Some(command) = draft.take_object("command") {
            let mut inner = Draft::new(&json!(command))?;
            let program = inner
                .take_text("path")
                .or_else(|| inner.take_text("command"));
            draft.set_text("command", program);
            draft.set_list("args", inner.take_list("args"));
            draft.add_texts("env", inner.take_texts("env"));
        }
        standard_keys::convert_server(draft)?;
        let has_target = draft.entry.contains_key("command") || draft.entry.contains_key("url");
        if source.as_deref() == Some("extension")
            || (!has_target && draft.take("settings").is_some())
        {
            return Err("it comes with a Zed extension, which only Zed can start".to_owned());
        }
        draft.ignore(&["settings"]);
        Ok(())
    })
}

fn note_env_file(draft: &mut Draft) {
    if let Some(file) = draft.take_text("envFile") {
        draft.notes.push(format!(
            "`envFile` ({file}) is not read: copy what the server needs to `.env` and name it under `env`"
        ));
    }
}
