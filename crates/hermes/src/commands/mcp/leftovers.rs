//! What a server leaves in a home besides its entry: tokens, pins, the cache of its lists.

use std::{fs, io, path::Path};

use hermes_config::{Home, ReferencePolicy, Server, ServerName, Settings};
use hermes_mcp::{manifest, oauth::TokenFiles};
use serde_json::Value;

/// Deletes all of it. Call it while the server is still in `settings`.
pub(super) fn delete(home: &Home, settings: &Settings, name: &ServerName) -> io::Result<()> {
    let names = settings.servers.iter().map(|entry| &entry.name);
    for path in TokenFiles::new(home, names, name).all()? {
        fs::remove_file(path)?;
    }
    delete_pins(&home.path().join("mcp-pins.json"), name)?;
    let server = settings.server(name.as_str());
    if let Some(server) = server.and_then(|entry| entry.server.as_ref().ok()) {
        delete_caches(home, settings, server)?;
    }
    Ok(())
}

fn delete_pins(path: &Path, name: &ServerName) -> io::Result<()> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    let mut pins: Value = serde_json::from_slice(&text)?;
    let entries = pins.as_object_mut();
    if entries.is_some_and(|entries| entries.shift_remove(name.as_str()).is_some()) {
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&temporary, serde_json::to_vec_pretty(&pins)?)?;
        fs::set_permissions(&temporary, fs::metadata(path)?.permissions())?;
        fs::rename(&temporary, path)?;
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
    match fs::remove_file(manifest::path(home, &resolved.fingerprint)) {
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
        delete(&home, &settings, &ServerName::new("git")).unwrap();
        let left = fs::read_dir(home.tokens_dir()).unwrap();
        let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["github.json"]);
    }

    #[test]
    fn only_the_servers_own_pins_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp-pins.json");
        fs::write(&path, r#"{"a": {"t": "1"}, "b": {"t": "2"}}"#).unwrap();
        delete_pins(&path, &ServerName::new("a")).unwrap();
        let pins: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(pins, serde_json::json!({"b": {"t": "2"}}));
    }
}
