//! `hermes mcp serve --install`: enters the bridge in another program's list of servers.

use std::{env, fs, io, path::Path};

use serde_json::{Value, json};

use super::client_file::{self, FileEdit, FileSyntax};
use crate::{
    cli::ServeArgs, commands::mcp::config::import, context::Context, failure::Failure,
    import::ImportSource,
};

const SERVER_NAME: &str = "hermes";

pub(super) fn run(context: &Context, args: &ServeArgs, client: &str) -> Result<(), Failure> {
    let source = ImportSource::parse(client);
    let environment = import::search_directories()?;
    let client_file = source.and_then(|source| Some((source, source.user_file(&environment)?)));
    let Some((source, path)) = client_file else {
        return Err(Failure::usage(format!("nothing is written for `{client}`")));
    };
    let entry = build_entry(context, args, source)?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::failed(format!("{}: {error}", path.display()))),
    };
    let (syntax, key) = match source {
        // These two read plain JSON: a comment would be an error to them.
        ImportSource::ClaudeCode | ImportSource::ClaudeDesktop => (FileSyntax::Json, "mcpServers"),
        ImportSource::VsCode => (FileSyntax::JsonWithComments, "servers"),
        ImportSource::Codex => (FileSyntax::Toml, "mcp_servers"),
        _ => (FileSyntax::JsonWithComments, "mcpServers"),
    };
    let edit = client_file::put_entry(&text, syntax, key, SERVER_NAME, &entry, &path).map_err(
        |error| {
            Failure::usage(error.to_string())
                .hint("correct the file and try again; nothing was changed")
        },
    )?;
    if let FileEdit::Changed(text) = &edit {
        write_file(&path, text)?;
    }
    print_report(context, source, &path, &entry, &edit);
    Ok(())
}

/// What the client needs to know to start this program for this home.
fn build_entry(
    context: &Context,
    args: &ServeArgs,
    source: ImportSource,
) -> Result<Value, Failure> {
    let program = context.guard_program()?.path;
    let mut words = vec!["mcp", "serve"];
    let platforms = args.platforms.join(",");
    if !platforms.is_empty() {
        words.extend(["--platforms", &platforms]);
    }
    if args.read_only {
        words.push("--read-only");
    }
    if args.claude_channel != "auto" {
        words.extend(["--claude-channel", &args.claude_channel]);
    }
    let mut entry = json!({"command": program.to_string_lossy(), "args": words});
    let home = context.home.path();
    if env::home_dir().is_none_or(|directory| directory.join(".hermes") != home) {
        entry["env"] = json!({"HERMES_HOME": home.to_string_lossy()});
    }
    if matches!(source, ImportSource::ClaudeCode | ImportSource::VsCode) {
        entry["type"] = "stdio".into();
    }
    Ok(entry)
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    hermes_config::replace_file(path, text.as_bytes()).map_err(failed)
}

fn print_report(
    context: &Context,
    source: ImportSource,
    path: &Path,
    entry: &Value,
    edit: &FileEdit,
) {
    let output = context.output;
    let is_changed = matches!(edit, FileEdit::Changed(_));
    output.json(json!({
        "client": source.name(),
        "path": path.to_string_lossy(),
        "name": SERVER_NAME,
        "entry": entry,
        "changed": is_changed,
    }));
    if is_changed {
        output.line(format!(
            "{}: wrote `{SERVER_NAME}` to {}",
            source.title(),
            path.display()
        ));
    } else {
        output.line(format!(
            "{}: `{SERVER_NAME}` is already in {}",
            source.title(),
            path.display()
        ));
    }
    output.line(format!("{entry:#}"));
    if is_changed {
        output.note(format!("restart {} to connect it", source.title()));
    }
}
