//! The last steps for a server of any source: is it usable, do its references mean something here, where are secrets.

use serde_json::Value;

use super::{FileContext, Imported, draft::Draft, references::ReferenceRewriter, secrets};
use crate::import::source::standard_keys::set_working_directory;

/// The server, or why it cannot be used.
pub(super) fn finish_server(
    name: &str,
    mut draft: Draft,
    context: &FileContext,
) -> Result<Imported, String> {
    if name.trim().is_empty() {
        return Err("it has no name".to_owned());
    }
    check_target(&draft)?;
    draft.note_what_is_left();
    if let Some(project) = context
        .project
        .as_ref()
        .and_then(|project| project.to_str())
    {
        set_working_directory(&mut draft, project);
    }

    let mut references = ReferenceRewriter::new(context);
    for value in draft.entry.values_mut() {
        references.rewrite(value);
    }
    let moved = secrets::move_out(name, &mut draft.entry);

    let mut variables = references.variables;
    variables.extend(moved.variables);
    let notes = [draft.notes, references.notes, moved.notes].concat();
    Ok(Imported {
        name: name.to_owned(),
        entry: Value::Object(draft.entry),
        variables,
        notes,
    })
}

fn check_target(draft: &Draft) -> Result<(), String> {
    let text = |key: &str| draft.entry.get(key).and_then(Value::as_str).map(str::trim);
    let (command, url) = (text("command"), text("url"));
    match (
        command.filter(|text| !text.is_empty()),
        url.filter(|text| !text.is_empty()),
    ) {
        (Some(_), Some(_)) => Err("it has both a command and a URL".to_owned()),
        (None, None) => Err("it has neither a command nor a URL".to_owned()),
        (Some(_), None) => Ok(()),
        (None, Some(url)) => {
            let scheme = url.split_once("://").map(|(scheme, _)| scheme);
            match scheme {
                Some("http" | "https") => Ok(()),
                _ if url.starts_with("${") => Ok(()),
                Some(scheme) => Err(format!("`{scheme}://` addresses are not supported")),
                None => Err("its URL has no `https://`".to_owned()),
            }
        }
    }
}
