//! Codex: `[mcp_servers.NAME]` in `config.toml`.

use std::path::Path;

use serde_json::{Value, json};

use crate::import::{
    ImportError, ParsedServer, draft::Draft, servers_under, source::standard_keys,
};

pub(crate) fn read_servers(
    document: &Value,
    path: &Path,
) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(document, "mcp_servers", path, convert_server)
}

fn convert_server(draft: &mut Draft) -> Result<(), String> {
    standard_keys::convert_server(draft)?;
    let passed_on = variables_passed_on(draft);
    draft.add_texts("env", passed_on);

    let headers = draft.take_texts("http_headers");
    draft.add_texts("headers", headers);
    let headers = draft.take_texts("env_http_headers");
    let headers = headers
        .into_iter()
        .map(|(header, variable)| (header, format!("${{{variable}}}")));
    draft.add_texts("headers", headers);
    if let Some(variable) = draft.take_text("bearer_token_env_var") {
        let header = (
            "Authorization".to_owned(),
            format!("Bearer ${{{variable}}}"),
        );
        draft.add_texts("headers", [header]);
    }

    if let Some(seconds) = draft
        .take("tool_timeout_sec")
        .as_ref()
        .and_then(Value::as_f64)
    {
        draft.set_seconds("timeout", seconds);
    }
    let milliseconds = draft.take("startup_timeout_ms");
    match draft
        .take("startup_timeout_sec")
        .as_ref()
        .and_then(Value::as_f64)
    {
        Some(seconds) => draft.set_seconds("connect_timeout", seconds),
        None => draft.set_milliseconds("connect_timeout", milliseconds.as_ref()),
    }
    if draft.take_flag("supports_parallel_tool_calls") == Some(true) {
        draft.set("supports_parallel_tool_calls", true);
    }
    let include = match draft.take("enabled_tools") {
        Some(Value::Array(tools)) => Some(tools),
        _ => None,
    };
    let include = include.map(|tools| {
        let names = tools.iter().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    });
    let exclude = draft.take_list("disabled_tools");
    draft.set_tools(include, &exclude);

    let scopes = draft.take("scopes");
    let client = draft.take_object("oauth");
    if scopes.is_some() || client.is_some() {
        let mut client = client.unwrap_or_default();
        client.insert("scopes".to_owned(), scopes.unwrap_or_else(|| json!(null)));
        draft.set_oauth(&client);
    }
    Ok(())
}

/// `env_vars`: names, or `{name = …}`, whose values come from Codex's own environment.
fn variables_passed_on(draft: &mut Draft) -> Vec<(String, String)> {
    let Some(Value::Array(names)) = draft.take("env_vars") else {
        return Vec::new();
    };
    let names = names
        .iter()
        .filter_map(|name| name.as_str().or_else(|| name.get("name")?.as_str()));
    names
        .map(|name| (name.to_owned(), format!("${{{name}}}")))
        .collect()
}
