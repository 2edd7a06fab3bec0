//! Servers that other programs have configured, turned into entries for `mcp_servers`.
//!
//! [`read_servers`] takes the text of one file and gives back a [`Candidate`] for each server in it. Nothing is written here:
//! the caller saves the entries and puts the variables into `.env`. Secrets never stay in an entry; it gets `${NAME}`
//! and the value becomes a [`Variable`].

mod draft;
mod locations;
pub(crate) mod parse;
mod references;
mod secrets;
mod source;

#[cfg(test)]
mod tests;

mod variables;

use std::path::{Path, PathBuf};

use serde_json::Value;

use draft::Draft;
use references::ReferenceRewriter;
use source::standard_keys::set_working_directory;

pub use crate::import::locations::{SearchDirectories, SourceFile, find_source_files};
pub use secrets::move_secrets;
pub use source::{ImportSource, detect_source};
pub(crate) use variables::variable_name;
pub use variables::{Variable, VariableKind, resolve_name_conflicts};

/// One server of another program's file.
#[derive(Debug, Clone, PartialEq)]
pub enum Candidate {
    /// It can be added as it is.
    Usable(Imported),
    /// It cannot be used here.
    Skipped {
        /// Its name in the file.
        name: String,
        reason: String,
    },
}

/// A server ready to be added.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The key under `mcp_servers`.
    pub name: String,
    /// The entry as it will be written. Every secret in it is a `${NAME}`.
    pub entry: Value,
    /// What `.env` has to say for the entry to work.
    pub variables: Vec<Variable>,
    /// What the user should know: settings that have no counterpart, variables still to be set.
    pub notes: Vec<String>,
}

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The text is not what its format asks for. The message never quotes the file, which may hold secrets.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// It can be parsed, but servers cannot be where they should be.
    #[error("{}: `{key}` should be a mapping of server names", path.display())]
    Shape {
        path: PathBuf,
        /// The key that has something else.
        key: String,
    },
}

/// What all servers of one file share.
#[derive(Debug, Default)]
struct FileContext {
    /// The directory the file speaks about, if it belongs to a project.
    project: Option<PathBuf>,
    /// VS Code's `inputs`.
    inputs: Vec<references::VsCodeInput>,
}

/// A server found in a file: its name, and the entry in the making or the reason it cannot be used.
struct ParsedServer {
    name: String,
    draft: Result<Draft, String>,
}

/// What is wrong with a text as its file's name says it should be written; for files that nothing else is known of.
pub fn syntax_problem(text: &str, path: &Path) -> Option<ImportError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let parsed = match extension {
        Some("toml") => parse::parse_toml(text, path),
        Some("yaml" | "yml") => parse::parse_yaml(text, path),
        Some("json" | "jsonc") => parse::parse_jsonc(text, path),
        _ => return None,
    };
    parsed.err()
}

/// Reads the servers of one file. `path` is used for messages and to find the project's directory: make it absolute.
pub fn read_servers(
    source: ImportSource,
    text: &str,
    path: &Path,
) -> Result<Vec<Candidate>, ImportError> {
    let document = match source {
        ImportSource::Codex => parse::parse_toml(text, path)?,
        ImportSource::Goose => parse::parse_yaml(text, path)?,
        _ => parse::parse_jsonc(text, path)?,
    };
    let mut context = FileContext {
        project: locations::project_of(path),
        inputs: Vec::new(),
    };
    let readings = match source {
        ImportSource::ClaudeDesktop => source::standard_keys::read_desktop(&document, path)?,
        ImportSource::ClaudeCode => source::standard_keys::read_code(&document, path)?,
        ImportSource::Cursor => source::editors::read_cursor(&document, path)?,
        ImportSource::Windsurf => source::editors::read_windsurf(&document, path)?,
        ImportSource::VsCode => {
            context.inputs = source::editors::vscode_inputs(&document);
            source::editors::read_vscode(&document, path)?
        }
        ImportSource::Zed => source::editors::read_zed(&document, path)?,
        ImportSource::Codex => source::codex::read_servers(&document, path)?,
        ImportSource::OpenCode => source::opencode::read_servers(&document, path)?,
        ImportSource::Goose => source::goose::read_servers(&document, path)?,
    };
    let candidates = readings.into_iter().map(|ParsedServer { name, draft }| {
        match draft.and_then(|draft| finish_server(&name, draft, &context)) {
            Ok(imported) => Candidate::Usable(imported),
            Err(reason) => Candidate::Skipped { name, reason },
        }
    });
    let mut candidates: Vec<_> = candidates.collect();
    let usable = candidates
        .iter_mut()
        .filter_map(|candidate| match candidate {
            Candidate::Usable(imported) => Some(imported),
            Candidate::Skipped { .. } => None,
        });
    resolve_name_conflicts(usable, |_| None);
    Ok(candidates)
}

/// The servers under `document[key]`, each handed to `read_one`. A missing key means none.
fn servers_under(
    document: &Value,
    key: &str,
    path: &Path,
    read_one: impl Fn(&mut Draft) -> Result<(), String>,
) -> Result<Vec<ParsedServer>, ImportError> {
    let servers = match document.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(servers)) => servers,
        Some(_) => {
            return Err(ImportError::Shape {
                path: path.to_owned(),
                key: key.to_owned(),
            });
        }
    };
    let readings = servers.iter().map(|(name, given)| ParsedServer {
        name: name.clone(),
        draft: Draft::new(given).and_then(|mut draft| read_one(&mut draft).map(|()| draft)),
    });
    Ok(readings.collect())
}

/// The server, or why it cannot be used.
fn finish_server(name: &str, mut draft: Draft, context: &FileContext) -> Result<Imported, String> {
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
