//! Changes which tools of a server are offered, and nothing else of its entry.

use hermes_config::{ConfigFile, ServerEntry};
use hermes_mcp::tools::filter::ToolFilter;
use serde_json::{Map, Value, json};

use super::save;
use crate::{context::Context, failure::Failure};

/// Writes the filter into the configuration; `resources`, `prompts` and the like stay as they are.
pub(crate) fn write_filter(
    context: &Context,
    entry: &ServerEntry,
    filter: &ToolFilter,
) -> Result<(), Failure> {
    let mut file = ConfigFile::open(&context.home)?;
    let name = entry.name.as_str();
    let (set, unset): (Option<(&str, &Vec<String>)>, &[&str]) = match filter {
        ToolFilter::All => (None, &["include", "exclude"]),
        ToolFilter::Only(patterns) => (Some(("include", patterns)), &["exclude"]),
        // With `include` beside it, `exclude` would not be looked at.
        ToolFilter::AllBut(patterns) => (Some(("exclude", patterns)), &["include"]),
    };
    if let Some((key, patterns)) = set {
        file.set_server_key(name, &["tools", key], json!(patterns));
    }
    let tools = entry.template.get("tools").and_then(Value::as_object);
    let is_all_of_it = |tools: &Map<String, Value>| {
        !tools.is_empty() && tools.keys().all(|key| unset.contains(&key.as_str()))
    };
    if set.is_none() && tools.is_some_and(is_all_of_it) {
        file.unset_server_key(name, &["tools"]);
    } else {
        for key in unset {
            file.unset_server_key(name, &["tools", key]);
        }
    }
    save::save_file(context, &file)
}
