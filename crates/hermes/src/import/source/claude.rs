//! Claude Desktop and Claude Code.

use std::path::Path;

use serde_json::Value;

use crate::import::{
    ImportError, ParsedServer, draft::Draft, servers_under, source::standard_keys,
};

/// `claude_desktop_config.json`.
pub(crate) fn read_desktop(
    document: &Value,
    path: &Path,
) -> Result<Vec<ParsedServer>, ImportError> {
    servers_under(document, "mcpServers", path, standard_keys::convert_server)
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
                standard_keys::set_working_directory(draft, project);
            }
            readings.push(reading);
        }
    }
    Ok(readings)
}

fn convert_code_server(draft: &mut Draft) -> Result<(), String> {
    standard_keys::convert_server(draft)?;
    let timeout = draft.take("timeout");
    draft.set_milliseconds("timeout", timeout.as_ref());
    if let Some(oauth) = draft.take_object("oauth") {
        draft.set_oauth(&oauth);
    }
    Ok(())
}
