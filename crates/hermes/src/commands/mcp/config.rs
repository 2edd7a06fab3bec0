//! Commands that change which servers are configured, and how.

pub(crate) mod add;
pub(crate) mod catalog;
pub(crate) mod configure;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod pins;
pub(crate) mod reload;
pub(crate) mod remove;
pub(crate) mod save;
pub(crate) mod secrets;

use hermes_config::ConfigFile;
use serde_json::json;

use crate::{cli::NameArgs, commands::mcp::requests::probe, context::Context, failure::Failure};

/// What the key is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnableState {
    On,
    Off,
}

/// `hermes mcp enable` and `disable`: flips one key of an entry.
pub(crate) fn set_enabled(
    context: &Context,
    args: &NameArgs,
    switch: EnableState,
) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let entry = probe::find_entry(&settings, &args.name)?;
    let is_on = switch == EnableState::On;
    let word = if is_on { "enabled" } else { "disabled" };
    // An entry that cannot be used can still be switched off.
    let is_done = entry
        .server
        .as_ref()
        .is_ok_and(|server| server.enabled == is_on);
    if is_done {
        context
            .output
            .note(format!("`{}` is {word} already.", entry.name));
    } else {
        let mut file = ConfigFile::open(&context.home)?;
        file.set_server_key(entry.name.as_str(), &["enabled"], is_on.into());
        save::save_file(context, &file)?;
        context
            .output
            .note(format!("`{}` is now {word}.", entry.name));
    }
    if let (true, Err(problem)) = (is_on, &entry.server) {
        context
            .output
            .warning(format!("`{}` cannot be used: {problem}", entry.name));
    }
    context
        .output
        .json(json!({"server": entry.name, "enabled": is_on}));
    Ok(())
}
