//! Opening, changing and saving `config.yaml` and `.env` in a home.

use std::fs;

use hermes_config::{
    ConfigFile, ConfigFileError, ReferencePolicy, Settings, SettingsError, Variables,
    remove_variable, write_variable,
};
use serde_json::json;

use crate::home;

const CONFIG: &str = "\
# mine
mcp_servers:
  # issues
  github:
    url: \"https://x.example/mcp\"
    headers: {Authorization: 'Bearer ${GITHUB_TOKEN}'}  # from .env
";

#[test]
fn a_home_without_a_file_has_defaults_and_gets_a_private_file() {
    let (_directory, home) = home(&[]);
    assert!(Settings::load(&home).unwrap().servers.is_empty());
    let mut file = ConfigFile::open(&home).unwrap();
    assert_eq!(file.text(), "");
    file.set_server(
        "time",
        &json!({"command": "uvx", "args": ["mcp-server-time"]}),
    );
    file.save().unwrap();
    assert!(
        Settings::load(&home)
            .unwrap()
            .server("time")
            .unwrap()
            .server
            .is_ok()
    );
    #[cfg(unix)]
    assert_eq!(mode(&home.config_file()), 0o600);
}

#[test]
fn an_edit_never_writes_a_secret() {
    let (_directory, home) = home(&[("config.yaml", CONFIG), (".env", "GITHUB_TOKEN=ghp_real\n")]);
    let settings = Settings::load(&home).unwrap();
    let server = settings.server("github").unwrap().server.clone().unwrap();
    let resolved = server
        .resolve(&home, &settings.variables, ReferencePolicy::owner())
        .unwrap();
    assert!(
        resolved
            .secrets
            .iter()
            .any(|secret| secret.expose() == "ghp_real")
    );

    let mut file = ConfigFile::open(&home).unwrap();
    file.set_server_key("github", &["enabled"], json!(false));
    file.save().unwrap();
    let expected = format!("{CONFIG}    enabled: false\n");
    assert_eq!(fs::read_to_string(home.config_file()).unwrap(), expected);
}

#[cfg(unix)]
#[test]
fn a_linked_file_is_changed_where_it_lies() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (directory, home) = home(&[("real.yaml", CONFIG)]);
    let real = directory.path().join("real.yaml");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
    symlink("real.yaml", home.config_file()).unwrap();
    let mut file = ConfigFile::open(&home).unwrap();
    assert!(file.remove_server("github"));
    file.save().unwrap();
    assert!(
        fs::symlink_metadata(home.config_file())
            .unwrap()
            .is_symlink()
    );
    assert_eq!(mode(&real), 0o644);
    assert!(!fs::read_to_string(real).unwrap().contains("github"));
}

#[test]
fn a_broken_file_is_named_and_not_touched() {
    let (_directory, home) = home(&[(
        "config.yaml",
        "mcp_servers:\n  a: {command: x}\n  a: {command: y}\n",
    )]);
    let error = Settings::load(&home).unwrap_err();
    let SettingsError::Malformed {
        path, line, column, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (path.as_deref(), *line, *column),
        (Some(home.config_file().as_path()), 3, 3)
    );
    assert!(matches!(
        ConfigFile::open(&home),
        Err(ConfigFileError::Malformed(_))
    ));
}

#[test]
fn a_file_that_is_not_text_is_an_error() {
    let (_directory, home) = home(&[]);
    fs::write(home.config_file(), [0xFF, 0xFE, 0x00]).unwrap();
    assert!(matches!(
        Settings::load(&home),
        Err(SettingsError::Unreadable { .. })
    ));
    assert!(matches!(
        ConfigFile::open(&home),
        Err(ConfigFileError::Io { .. })
    ));
}

#[test]
fn the_file_that_nobody_reads_is_pointed_out() {
    let (_directory, home) = home(&[("mcp_servers.yaml", "a: {command: x}\n")]);
    let warnings = Settings::load(&home).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].message.contains("`mcp_servers`"));
}

#[test]
fn variables_are_written_and_removed() {
    let (_directory, home) = home(&[]);
    write_variable(&home, "A_KEY", "one\ntwo").unwrap();
    write_variable(&home, "B_KEY", " padded # ").unwrap();
    write_variable(&home, "A_KEY", "three").unwrap();
    #[cfg(unix)]
    assert_eq!(mode(&home.env_file()), 0o600);
    let (variables, warnings) = Variables::load(&home, None);
    assert_eq!(warnings, []);
    assert_eq!(variables.get("A_KEY"), Some("three"));
    assert_eq!(variables.get("B_KEY"), Some(" padded # "));
    assert!(!format!("{variables:?}").contains("three"));

    remove_variable(&home, "A_KEY").unwrap();
    assert_eq!(
        fs::read_to_string(home.env_file()).unwrap(),
        "B_KEY=' padded # '\n"
    );
    assert!(write_variable(&home, "NOT A NAME", "x").is_err());
    assert!(write_variable(&home, "A=B", "x").is_err());
}

#[test]
fn a_bad_line_in_env_is_a_warning_with_its_number_and_not_its_text() {
    let (_directory, home) = home(&[(".env", "GOOD=1\nhunter2\n")]);
    let (variables, warnings) = Variables::load(&home, None);
    assert_eq!(variables.get("GOOD"), Some("1"));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].message.contains("line 2"));
    assert!(!warnings[0].message.contains("hunter2"));
}

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
