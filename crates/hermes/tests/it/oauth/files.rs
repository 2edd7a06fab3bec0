//! Token files that are damaged, open to others, or written by somebody else.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn tokens_are_for_their_owner_alone() {
    let place = Place::usual();
    place.log_in().ok();
    let directory = place.hermes.home.path().join("mcp-tokens");
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert_private(&path);
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    for name in ["remote.json", "remote.client.json", "remote.meta.json"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let tokens = place.tokens();
    assert_eq!(tokens["issuer"], place.server.issuer());
    assert!(tokens["expires_at"].as_f64().is_some(), "no `expires_at`");
}

#[test]
fn a_damaged_file_asks_for_a_login() {
    let place = Place::usual();
    place.log_in().ok();
    for damage in ["", "{\"access_token\": \"acc", "[]", "\0\0\0"] {
        fs::write(place.token_file(), damage).unwrap();
        place.needs_login();
    }
    place.log_in().ok();
    place.works();
}

#[test]
fn a_file_that_others_can_read_is_closed() {
    let place = Place::usual();
    place.log_in().ok();
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(place.token_file(), open).unwrap();
    place.works();
    assert_private(&place.token_file());
}

#[test]
fn a_file_without_an_end_counts_from_when_it_was_written() {
    let place = Place::usual();
    place.log_in().ok();
    let mut tokens = place.tokens();
    tokens.as_object_mut().unwrap().remove("expires_at");
    tokens["expires_in"] = json!(10);
    fs::write(place.token_file(), tokens.to_string()).unwrap();
    place.works();
    assert_eq!(place.grants("refresh_token"), 1);
}
