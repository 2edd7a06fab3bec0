//! `hermes secret …` and what comes of it.

mod real_servers;

use std::{fs, os::unix::fs::PermissionsExt};

use hermes_testkit::Behaviour;
use serde_json::{Value, json};

use crate::harness::program::{Hermes, assert_private, entry, run};

const VALUE: &str = "plain words, no pattern knows them";

/// A home without a keyring, with a server that is given the secret `db`.
fn hermes() -> Hermes {
    let mut server = entry(&Behaviour::new());
    server["env"] = json!({"DB": "${keyring:db}"});
    Hermes::with_config(&json!({"mcp_servers": {"kit": server}}).to_string())
}

#[test]
fn a_secret_is_kept_sealed_listed_by_name_and_removed() {
    let hermes = hermes();
    let set = hermes.run_with_input(&["secret", "set", "db", "--json"], &format!("{VALUE}\n"));
    let set = set.ok().hides(&[VALUE]);
    assert_eq!(
        set.json(),
        json!({"ok": true, "secret": "db", "kept_in": "file"})
    );
    assert!(set.stderr.contains("no system keyring"), "{set:?}");
    for file in ["secrets.json", "secrets.key"] {
        assert!(!hermes.read(file).contains("plain words"));
        assert_private(&hermes.home.path().join(file));
    }
    let listed = hermes.run(&["secret", "list", "--json"]).ok();
    let expected = json!([{"name": "db", "kept_in": "file", "used_by": ["kit"]}]);
    assert_eq!(listed.json()["secrets"], expected);
    let shown = hermes.run(&["secret", "ls"]).ok().hides(&[VALUE]);
    assert!(shown.stdout.contains("db"), "{shown:?}");

    let removed = hermes.run(&["secret", "remove", "db", "--json"]).ok();
    assert_eq!(removed.json(), json!({"ok": true, "removed": "db"}));
    assert!(removed.stderr.contains("`kit` still refers"), "{removed:?}");
    hermes
        .run(&["secret", "rm", "db", "--json"])
        .refused(3, "not_found");
    assert_eq!(
        hermes.run(&["secret", "list", "--json"]).ok().json(),
        json!({"ok": true, "secrets": []})
    );
}

#[test]
fn a_server_gets_it_and_no_error_shows_it() {
    let hermes = hermes();
    hermes
        .run(&["mcp", "test", "kit", "--json"])
        .refused(2, "usage");
    hermes.run_with_input(&["secret", "set", "db"], VALUE).ok();
    let told = hermes.run(&["mcp", "call", "kit.environment"]).ok();
    let environment: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(environment["DB"], VALUE);
    let text = json!({"text": format!("wrong: {VALUE}")}).to_string();
    for arguments in [
        vec!["mcp", "call", "kit.fail", &text],
        vec!["mcp", "call", "kit.fail", &text, "--json"],
    ] {
        let failed = hermes.run(&arguments).exits_with(1).hides(&[VALUE]);
        assert!(
            failed.stdout.contains("[REDACTED]") || failed.stderr.contains("[REDACTED]"),
            "{failed:?}"
        );
    }
    let doctor = hermes
        .run(&["mcp", "doctor", "--json"])
        .ok()
        .hides(&[VALUE]);
    assert_eq!(doctor.json()["ok"], true);
    // It has been connected to; that its tools cannot be remembered is not reported.
    assert!(!doctor.stdout.contains("not known yet"), "{doctor:?}");
}

#[test]
fn a_missing_secret_is_named_with_what_to_do() {
    let hermes = hermes();
    let failed = hermes.run(&["mcp", "call", "kit.echo"]).exits_with(2);
    let all = format!("{}{}", failed.stdout, failed.stderr);
    assert!(all.contains("${keyring:db}"), "{failed:?}");
    assert!(all.contains("hermes secret set db"), "{failed:?}");
    let doctor = hermes.run(&["mcp", "doctor"]).exits_with(1);
    assert!(doctor.stdout.contains("${keyring:db}"), "{doctor:?}");
}

#[test]
fn bad_names_and_empty_values_are_refused() {
    let hermes = Hermes::new();
    hermes
        .run_with_input(&["secret", "set", "a b", "--json"], "x")
        .refused(2, "usage");
    // The name comes first: nobody types a value for nothing.
    hermes
        .run(&["secret", "set", "a b", "--json"])
        .refused(2, "usage");
    hermes
        .run_with_input(&["secret", "set", "a", "--json"], "\n")
        .refused(5, "answer_needed");
    // A value never stands among the arguments, where others could read it.
    hermes
        .run(&["secret", "set", "a", "value", "--json"])
        .refused(2, "usage");
    assert_eq!(hermes.read("secrets.json"), "");
}

#[test]
fn where_there_is_a_keyring_it_is_used_and_only_noted_in_the_home() {
    let hermes = hermes();
    let tool = hermes.home.write(
        "bin/secret-tool",
        "#!/bin/sh\nK=$(dirname \"$0\")/kept\necho \"$@\" >>\"$K.log\"\n\
         case \"$1\" in\nstore) cat >\"$K\" ;;\nlookup) cat \"$K\" 2>/dev/null || exit 1 ;;\nclear) rm \"$K\" ;;\nesac\n",
    );
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let bin = tool.parent().unwrap().to_str().unwrap().to_owned();
    let with_keyring = |arguments: &[&str], input: &str| {
        let mut command = hermes.command(arguments);
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        command
            .env("PATH", path)
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
        run(command, input)
    };
    let set = with_keyring(&["secret", "set", "db", "--json"], VALUE).ok();
    assert_eq!(set.json()["kept_in"], "keyring");
    assert!(!hermes.home.path().join("secrets.key").exists());
    assert_eq!(fs::read_to_string(format!("{bin}/kept")).unwrap(), VALUE);
    let told = with_keyring(&["mcp", "call", "kit.environment"], "").ok();
    let environment: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(environment["DB"], VALUE);
    let log = fs::read_to_string(format!("{bin}/kept.log")).unwrap();
    assert!(!log.contains("plain words"), "{log}");
    // Elsewhere, without the keyring, it is known that there is one.
    let failed = hermes.run(&["mcp", "call", "kit.echo"]).exits_with(2);
    let all = format!("{}{}", failed.stdout, failed.stderr);
    assert!(all.contains("there is none in this session"), "{all}");
    with_keyring(&["secret", "remove", "db"], "").ok();
    assert!(!fs::exists(format!("{bin}/kept")).unwrap());
}
