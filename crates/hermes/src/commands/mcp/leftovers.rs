//! What a server leaves in a home besides its entry: tokens, pins, the cache of its lists.

use std::{fs, io, path::PathBuf};

use hermes_config::{Home, ReferencePolicy, Server, ServerName, Settings};
use hermes_mcp::{manifest, pins::Pins};
use sha2::{Digest, Sha256};

/// The longest name of a token file, without its extension.
const LONGEST_NAME: usize = 128;

/// Deletes all of it. Call it while the server is still in `settings`.
pub(super) fn delete(home: &Home, settings: &Settings, name: &ServerName) -> io::Result<()> {
    for path in token_files(home, settings, name)? {
        fs::remove_file(path)?;
    }
    Pins::of(home).forget(name)?;
    let server = settings.server(name.as_str());
    if let Some(server) = server.and_then(|entry| entry.server.as_ref().ok()) {
        delete_caches(home, settings, server)?;
    }
    Ok(())
}

/// `<name>.json`, `<name>.client.json` and so on.
fn token_files(home: &Home, settings: &Settings, name: &ServerName) -> io::Result<Vec<PathBuf>> {
    let listing = match fs::read_dir(home.tokens_dir()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing?,
    };
    let start = format!("{}.", token_name(settings, name));
    let mut files = Vec::new();
    for file in listing {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(&start) {
            files.push(file.path());
        }
    }
    Ok(files)
}

/// The name of a server's token files. Where an earlier server has the same, a hash tells them apart.
fn token_name(settings: &Settings, name: &ServerName) -> String {
    let plain = plain_token_name(name.as_str());
    let servers = settings.servers.iter().map(|entry| &entry.name);
    let mut earlier = servers.take_while(|other| *other != name);
    if earlier.any(|other| plain_token_name(other.as_str()) == plain) {
        let hash = Sha256::digest(name.as_str().as_bytes());
        let number = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        return format!("{plain}_{number:08x}");
    }
    plain
}

fn plain_token_name(name: &str) -> String {
    let safe = |character: char| match character {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    name.chars().take(LONGEST_NAME).map(safe).collect()
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
    fn servers_whose_files_would_have_one_name_keep_them_apart() {
        let text = "mcp_servers: {my.api: {command: x}, my api: {command: x}, git: {command: x}}";
        let settings = Settings::parse(text, Variables::default()).unwrap();
        let name = |name: &str| token_name(&settings, &ServerName::new(name));
        assert_eq!(name("my.api"), "my_api");
        assert!(name("my api").starts_with("my_api_"));
        assert_eq!(name("git"), "git");
    }

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
        let home = Home::at(directory.path());
        let pins = r#"{"a": {}, "b": {"t": {"sha256": "2", "definition": {}}}}"#;
        fs::write(home.pins_file(), pins).unwrap();
        let settings = Settings::parse("mcp_servers: {a: {command: x}}", Variables::default());
        delete(&home, &settings.unwrap(), &ServerName::new("a")).unwrap();
        let pins: serde_json::Value =
            serde_json::from_slice(&fs::read(home.pins_file()).unwrap()).unwrap();
        assert!(pins.get("a").is_none() && pins.get("b").is_some(), "{pins}");
    }
}
