//! `hermes config edit`: the file in an editor, and a look at it afterwards.

use std::{env, io::IsTerminal, process::Command};

use hermes_config::Settings;
use serde_json::json;

use super::super::{mcp, up};
use crate::{
    context::Context,
    failure::{Failure, FailureKind},
};

/// Editors to fall back on.
const FALLBACK_EDITORS: [&str; 3] = ["nano", "vim", "vi"];

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let path = context.home.config_file();
    let chosen = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.trim().is_empty()));
    if chosen.is_none() && !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            FailureKind::AnswerNeeded,
            "there is no terminal for an editor, and neither $VISUAL nor $EDITOR is set",
        )
        .hint(format!(
            "`hermes config set KEY VALUE` changes {}",
            path.display()
        )));
    }
    up::write_first_config(context)?;
    let editors = match chosen {
        Some(editor) => vec![editor],
        None => FALLBACK_EDITORS.map(str::to_owned).to_vec(),
    };
    for editor in &editors {
        // Editors are set with their options, as in `code --wait`.
        let mut words = editor.split_whitespace();
        let program = words.next().unwrap_or_default();
        match Command::new(program).args(words).arg(&path).status() {
            Ok(status) if status.success() => return check_saved(context),
            Ok(status) => {
                return Err(Failure::failed(format!("`{editor}` ended with {status}")));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::failed(format!("`{editor}`: {error}"))),
        }
    }
    Err(
        Failure::failed(format!("no editor was found: {}", editors.join(", ")))
            .hint("set $EDITOR to one that is installed"),
    )
}

/// Whether what was saved can be used.
fn check_saved(context: &Context) -> Result<(), Failure> {
    let settings = Settings::load(&context.home).map_err(|error| {
        Failure::from(error).hint("running processes go on with what they had; edit it again")
    })?;
    for warning in &settings.warnings {
        context.output.warning(warning.to_string());
    }
    mcp::reload_running(context);
    let path = context.home.config_file();
    let warnings: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
    context
        .output
        .json(json!({"path": path.to_string_lossy(), "warnings": warnings}));
    Ok(())
}
