//! The file that stands in for a keyring where there is none, and lists what is in one where there is.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

fn home() -> (tempfile::TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path().join("home"));
    (directory, home)
}

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

#[test]
fn a_secret_is_kept_replaced_listed_and_removed() {
    let (_directory, home) = home();
    let store = SecretStore::file_only(&home);
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(
        store.set("git", &secret("one")).unwrap(),
        SecretLocation::File
    );
    store.set("api/work", &secret("two")).unwrap();
    store.set("git", &secret("three")).unwrap();
    assert_eq!(store.get("git").unwrap(), secret("three"));
    // Another process sees the same.
    let other = SecretStore::file_only(&home);
    assert_eq!(other.get("api/work").unwrap(), secret("two"));
    let names = [
        ("api/work".to_owned(), SecretLocation::File),
        ("git".to_owned(), SecretLocation::File),
    ];
    assert_eq!(store.list().unwrap(), names);
    assert!(store.remove("git").unwrap());
    assert!(!store.remove("git").unwrap());
    let error = store.get("git").unwrap_err().to_string();
    assert!(error.contains("hermes secret set git"), "{error}");
}

#[test]
fn files_are_private_and_hold_no_value() {
    let (_directory, home) = home();
    let store = SecretStore::file_only(&home);
    store.set("git", &secret("hunter2-hunter2")).unwrap();
    for path in [home.secrets_file(), home.secret_key_file()] {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    assert!(!format!("{store:?}").contains("hunter2"));
}

#[test]
fn a_value_opens_only_under_its_own_name_and_unchanged() {
    let (_directory, home) = home();
    let store = SecretStore::file_only(&home);
    store.set("one", &secret("first")).unwrap();
    store.set("two", &secret("second")).unwrap();
    let text = fs::read_to_string(home.secrets_file()).unwrap();
    let swapped = text
        .replace("\"one\"", "\"x\"")
        .replace("\"two\"", "\"one\"");
    fs::write(home.secrets_file(), swapped).unwrap();
    let error = store.get("one").unwrap_err();
    assert!(matches!(error, SecretStoreError::Damaged { .. }), "{error}");
    fs::write(home.secrets_file(), r#"{"one": {"sealed": "1:abc"}}"#).unwrap();
    assert!(store.get("one").is_err());
}

#[test]
fn a_lost_key_is_told_and_not_replaced() {
    let (_directory, home) = home();
    let store = SecretStore::file_only(&home);
    store.set("one", &secret("first")).unwrap();
    fs::remove_file(home.secret_key_file()).unwrap();
    for error in [
        store.get("one").unwrap_err(),
        store.set("two", &secret("x")).unwrap_err(),
    ] {
        assert!(
            matches!(error, SecretStoreError::KeyMissing { .. }),
            "{error}"
        );
    }
    fs::write(home.secret_key_file(), "not a key").unwrap();
    let error = store.get("one").unwrap_err();
    assert!(
        matches!(error, SecretStoreError::InvalidKeyFile { .. }),
        "{error}"
    );
    // With nothing left that it would have opened, a new one is made.
    fs::remove_file(home.secret_key_file()).unwrap();
    store.remove("one").unwrap();
    store.set("two", &secret("x")).unwrap();
    assert_eq!(store.get("two").unwrap(), secret("x"));
}

#[test]
fn a_damaged_list_is_an_error_and_stays() {
    let (_directory, home) = home();
    let store = SecretStore::file_only(&home);
    home.create().unwrap();
    fs::write(home.secrets_file(), "{").unwrap();
    assert!(store.set("one", &secret("x")).is_err());
    assert!(store.list().is_err());
    assert_eq!(fs::read_to_string(home.secrets_file()).unwrap(), "{");
}

#[test]
fn names_are_what_a_reference_can_hold() {
    let (_directory, home) = home();
    let store = SecretStore::file_only(&home);
    for name in ["", "a b", "a}", "ü", "a\n", &"x".repeat(129)] {
        let error = store.set(name, &secret("x")).unwrap_err();
        assert!(matches!(error, SecretStoreError::BadName { .. }), "{name}");
    }
    assert!(matches!(
        store.set("a", &secret("")),
        Err(SecretStoreError::Empty)
    ));
    assert!(!home.path().exists(), "nothing was written");
}

#[test]
fn processes_that_write_at_once_lose_nothing() {
    let (_directory, home) = home();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let home = &home;
            scope.spawn(move || {
                let store = SecretStore::file_only(home);
                for number in 0..5 {
                    let name = format!("s{writer}-{number}");
                    store.set(&name, &secret(&name)).unwrap();
                }
            });
        }
    });
    let store = SecretStore::file_only(&home);
    let names = store.list().unwrap();
    assert_eq!(names.len(), 20);
    for (name, _) in names {
        assert_eq!(store.get(&name).unwrap(), secret(&name));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn whatever_is_kept_comes_back_and_no_error_shows_it(
        name in "[a-z0-9_./@-]{1,20}",
        value in "\\PC{8,200}",
    ) {
        let (_directory, home) = home();
        let store = SecretStore::file_only(&home);
        store.set(&name, &Secret::new(value.clone())).unwrap();
        let kept = store.get(&name).unwrap();
        prop_assert_eq!(kept.expose(), &value);
        fs::write(home.secret_key_file(), "0".repeat(64)).unwrap();
        let error = store.get(&name).unwrap_err();
        let text = format!("{error} {error:?}");
        prop_assert!(!text.contains(&value));
    }
}
