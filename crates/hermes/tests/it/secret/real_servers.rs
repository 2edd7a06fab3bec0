//! Secrets in the keyring of GNOME, on a session bus of their own.

use std::path::PathBuf;

use super::*;
use crate::harness::program::installed;

/// Unlocks a keyring, then runs a command. A copy of the daemon has no file capabilities, which containers do not allow.
const SESSION: &str = r#"cp "$KEYRING" "$HOME/keyring" &&
printf password | "$HOME/keyring" --unlock --components=secrets >/dev/null 2>&1
"$HOME/keyring" --start --components=secrets >/dev/null 2>&1
exec "$@""#;

/// Commands of hermes one after the other, each in a session with the same keyring.
struct KeyringDesktop {
    hermes: Hermes,
    keyring: PathBuf,
}

impl KeyringDesktop {
    fn run(&self, arguments: &[&str], input: &str) -> crate::harness::program::CommandOutput {
        let inner = self.hermes.command(arguments);
        let mut command = std::process::Command::new("dbus-run-session");
        command
            .args(["--", "sh", "-c", SESSION, "sh"])
            .arg(inner.get_program())
            .args(inner.get_args())
            .env_clear();
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
            .env("XDG_RUNTIME_DIR", self.hermes.user().join("run"))
            .env("KEYRING", &self.keyring);
        run(command, input)
    }
}

#[test]
fn a_secret_is_kept_by_the_keyring_over_sessions_and_reaches_its_server() {
    let Some(keyring) = installed("HERMES_TEST_KEYRING", "") else {
        return;
    };
    let hermes = hermes();
    for directory in [".cache", "run"] {
        let path = hermes.user().join(directory);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let desktop = KeyringDesktop { hermes, keyring };
    let value = "words & signs: \"ü\" 'x' \\ $HOME";
    let set = desktop.run(&["secret", "set", "db", "--json"], value).ok();
    assert_eq!(set.json()["kept_in"], "keyring", "{set:?}");
    for file in ["secrets.json", "secrets.key"] {
        assert!(!desktop.hermes.read(file).contains("words"), "{file}");
    }
    // The session of the command before is over, and its keyring with it.
    let told = desktop.run(&["mcp", "call", "kit.environment"], "").ok();
    let environment: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(environment["DB"], value);
    let listed = desktop.run(&["secret", "list", "--json"], "").ok();
    assert_eq!(listed.json()["secrets"][0]["kept_in"], "keyring");

    let text = json!({"text": format!("wrong: {value}")}).to_string();
    let failed = desktop.run(&["mcp", "call", "kit.fail", &text], "");
    failed.exits_with(1).hides(&[value]);
    desktop.run(&["secret", "remove", "db"], "").ok();
    let missing = desktop.run(&["mcp", "call", "kit.echo"], "").exits_with(2);
    let all = format!("{}{}", missing.stdout, missing.stderr);
    assert!(all.contains("hermes secret set db"), "{all}");
}
