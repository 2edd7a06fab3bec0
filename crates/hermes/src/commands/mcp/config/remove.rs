//! `hermes mcp remove`: the entry goes, with everything the server left in the home: tokens, pins, the cache of its lists.

use std::{fs, io};

use hermes_config::{ConfigFile, Home, ReferencePolicy, Server, ServerName, Settings};
use hermes_mcp::{connection::manifest, oauth::TokenFiles, tools::pins::Pins};
use serde_json::json;

use super::save;
use crate::{
    cli::RemoveArgs,
    commands::mcp::requests::probe,
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
    delete_server_files(&context.home, &settings, name).map_err(|error| {
        Failure::failed(format!(
            "`{name}` is removed, but not all of its files are: {error}"
        ))
    })?;
    context.output.note(format!("Removed `{name}`."));
    context.output.json(json!({"removed": name}));
    Ok(())
}

/// Deletes all of it. Call it while the server is still in `settings`.
pub(crate) fn delete_server_files(
    home: &Home,
    settings: &Settings,
    name: &ServerName,
) -> io::Result<()> {
    for path in TokenFiles::new(home, &settings.server_names(), name).list_files()? {
        fs::remove_file(path)?;
    }
    Pins::for_home(home).forget(name)?;
    let server = settings.server(name.as_str());
    if let Some(server) = server.and_then(|entry| entry.server.as_ref().ok()) {
        delete_caches(home, settings, server)?;
    }
    Ok(())
}

/// The cache is found by what the server runs with, which differs for an enabled and a disabled one.
fn delete_caches(home: &Home, settings: &Settings, server: &Server) -> io::Result<()> {
    let server = Server {
        enabled: true,
        ..server.clone()
    };
    let resolved = server.resolve(home, &settings.variables, ReferencePolicy::owner());
    let Ok(resolved) = resolved else {
        return Ok(());
    };
    match fs::remove_file(manifest::manifest_path(home, &resolved.fingerprint)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::Variables;

    use super::*;

    #[test]
    fn tokens_of_a_server_with_a_longer_name_stay() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        fs::create_dir(home.tokens_dir()).unwrap();
        let write = |name: &str| fs::write(home.tokens_dir().join(name), "{}").unwrap();
        for name in ["git.json", "git.client.json", "github.json"] {
            write(name);
        }
        let text = "mcp_servers: {git: {command: x}}";
        let settings = Settings::parse(text, Variables::default()).unwrap();
        delete_server_files(&home, &settings, &ServerName::new("git")).unwrap();
        let left = fs::read_dir(home.tokens_dir()).unwrap();
        let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["github.json"]);
    }

    #[test]
    fn only_the_servers_own_pins_go() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let pins = r#"{"a": {}, "b": {"t": {"sha256": "2", "definition": {}}}}"#;
        fs::write(home.pins_file(), pins).unwrap();
        let settings = Settings::parse("mcp_servers: {a: {command: x}}", Variables::default());
        delete_server_files(&home, &settings.unwrap(), &ServerName::new("a")).unwrap();
        let pins: serde_json::Value =
            serde_json::from_slice(&fs::read(home.pins_file()).unwrap()).unwrap();
        assert!(pins.get("a").is_none() && pins.get("b").is_some(), "{pins}");
    }
}
