use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use super::*;

fn files(directory: &Path) -> TokenFiles {
    TokenFiles::new(&Home::at(directory), [], &ServerName::new("s"))
}

fn tokens() -> Tokens {
    serde_json::from_value(json!({"access_token": "a", "expires_in": 60})).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_are_named_as_the_agent_in_python_names_them() {
    let home = Home::at("/h");
    let names: Vec<ServerName> = ["my.api", "my api", "git", "_x_", "...", "größe"]
        .map(ServerName::new)
        .into();
    let name = |name: &str| TokenFiles::new(&home, &names, &ServerName::new(name)).name;
    assert_eq!(name("my.api"), "my_api");
    assert!(name("my api").starts_with("my_api_") && name("my api").len() == 15);
    assert_eq!(name("git"), "git");
    assert_eq!(name("_x_"), "x");
    assert_eq!(name("..."), "default");
    assert_eq!(name("größe"), "größe");
    assert_eq!(name(&"n".repeat(200)).len(), 128);
}

#[test]
fn files_are_private_and_replaced_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path());
    files.store_tokens(&tokens()).unwrap();
    files.store_tokens(&tokens()).unwrap();
    let path = directory.path().join("mcp-tokens/s.json");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert_eq!(files.tokens().unwrap().access_token, "a");
}

#[test]
fn what_others_could_read_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path());
    files.store_tokens(&tokens()).unwrap();
    let path = directory.path().join("mcp-tokens/s.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(files.tokens().is_some());
    assert_eq!(mode(&path), 0o600);
    files.store_tokens(&tokens()).unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[test]
fn a_damaged_file_counts_as_missing() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path());
    files.store_tokens(&tokens()).unwrap();
    let path = directory.path().join("mcp-tokens/s.json");
    for damage in [
        "",
        "{",
        "[]",
        r#"{"access_token": 1}"#,
        r#"{"refresh_token": "r"}"#,
    ] {
        fs::write(&path, damage).unwrap();
        assert!(files.tokens().is_none(), "{damage}");
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced_and_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path());
    files.store_tokens(&tokens()).unwrap();
    let path = directory.path().join("mcp-tokens/s.json");
    let target = directory.path().join("target");
    fs::write(&target, "untouched").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&target, &path).unwrap();
    files.store_tokens(&tokens()).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
}

#[test]
fn a_new_file_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path());
    assert_eq!(files.token_file_version(), None);
    files.store_tokens(&tokens()).unwrap();
    let first = files.token_file_version();
    assert!(first.is_some());
    files.store_tokens(&tokens()).unwrap();
    assert_ne!(files.token_file_version(), first);
}

#[test]
fn a_client_can_outlive_a_login() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path());
    files.store_tokens(&tokens()).unwrap();
    files.store_client(&ClientFile::default()).unwrap();
    assert_eq!(files.delete(ForgetScope::Login).unwrap(), ["s.json"]);
    assert!(files.client().is_some());
    assert_eq!(
        files.delete(ForgetScope::Everything).unwrap(),
        ["s.client.json"]
    );
    assert_eq!(files.list_files().unwrap(), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn the_lock_is_held_by_one_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path());
    let held = files.lock().await.unwrap();
    let other = files.clone();
    let mut waiting = Box::pin(async move { other.lock().await.unwrap() });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err());
    drop(held);
    waiting.await;
}
