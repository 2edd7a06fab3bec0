//! `hermes mcp remove`: the entry goes, with everything the server left in the home.

use hermes_config::ConfigFile;
use serde_json::json;

use super::save;
use crate::{
    cli::RemoveArgs,
    commands::mcp::{config::server_files, requests::probe},
    context::Context,
    failure::Failure,
    question::{DefaultAnswer, Questions},
};

pub(crate) fn run(context: &Context, args: &RemoveArgs) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let name = &probe::find_entry(&settings, &args.name)?.name;
    let question = format!("Remove `{name}` with its logins and caches?");
    let questions = Questions::new(args.yes);
    if !questions.confirm(&question, DefaultAnswer::Yes, "`--yes` removes it")? {
        return Err(Failure::failed(format!("`{name}` stays")).about(name.clone()));
    }
    let mut file = ConfigFile::open(&context.home)?;
    file.remove_server(name.as_str());
    save::save_file(context, &file)?;
    // The running processes have let go of it by now.
    server_files::delete_server_files(&context.home, &settings, name).map_err(|error| {
        Failure::failed(format!(
            "`{name}` is removed, but not all of its files are: {error}"
        ))
    })?;
    context.output.note(format!("Removed `{name}`."));
    context.output.json(json!({"removed": name}));
    Ok(())
}
