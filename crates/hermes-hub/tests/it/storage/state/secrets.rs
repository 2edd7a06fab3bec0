//! Secrets: they are never shown, and only their key decrypts them.

use std::{fs, path::Path};

use hermes_hub::{
    api_types::{KeyKind, NewKey, Role},
    storage::{
        encryption::{EncryptionError, SecretKey},
        state::{AuditQuery, NewRuntimeKey, NewVariable, Page, State},
    },
};

use super::{StateFixture, entry, new_token};

const PLANTED_SECRET: &str = "sk-planted-0123456789";

#[tokio::test]
async fn planted_secrets_are_neither_in_the_files_nor_in_what_is_printed() {
    let fresh = StateFixture::new().await;
    let key = NewKey::random(KeyKind::Runtime).unwrap();
    let mut tenant = fresh.new_tenant("a");
    tenant.runtime_key = NewRuntimeKey::encrypt(&fresh.key, &tenant.uid, &key, None).unwrap();
    let variable =
        NewVariable::encrypt(&fresh.key, &tenant.uid, "API_KEY", PLANTED_SECRET).unwrap();
    tenant.env = vec![variable];
    let (token, token_key) = new_token(Role::Admin);
    let before = format!("{tenant:?} {token:?} {key:?} {token_key:?} {:?}", fresh.key);
    let state = &fresh.state;
    let record = state
        .create_tenant(tenant, entry("create_tenant"))
        .await
        .unwrap();
    let stored = state
        .create_token(token, entry("create_token"))
        .await
        .unwrap();
    let env = state.env(&record.id).await.unwrap();
    let sealed = state.encrypted_env(&record.id).await.unwrap();
    let entries = state.audit(&AuditQuery::default(), &Page::default()).await;
    let shown = serde_json::json!([stored.token, env, entries.unwrap().items]);
    let printed = format!("{before} {record:?} {stored:?} {env:?} {sealed:?} {shown}");
    state.close().await;
    let secrets = [
        PLANTED_SECRET,
        key.secret.expose(),
        token_key.secret.expose(),
    ];
    for secret in secrets {
        assert!(!printed.contains(secret), "{printed}");
        assert!(!printed.contains(&secret[4..16]), "{printed}");
    }
    if let Some(database) = &fresh.database {
        for secret in secrets {
            assert!(
                !database.contains(secret),
                "a secret is in a table as it is"
            );
        }
    }
    for file in fs::read_dir(fresh.directory.path()).unwrap() {
        let content = fs::read(file.unwrap().path()).unwrap();
        for secret in secrets {
            let found = content
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "a secret lies in a file as it is");
        }
    }
}

fn expect_missing(loaded: &Result<SecretKey, EncryptionError>, path: &Path) {
    assert!(matches!(loaded, Err(EncryptionError::KeyMissing { .. })));
    assert!(!path.exists(), "a new key would lock the secrets away");
}

#[tokio::test]
async fn a_missing_key_is_made_only_while_nothing_is_sealed() {
    let fresh = StateFixture::new().await;
    // Another node may have the key that is missing here, and encrypt with it at any time.
    let has_other_nodes = fresh.database.is_some();
    let path = fresh.directory.path().join("secret.key");
    let load = || SecretKey::load(&path, &*fresh.state);
    let first = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let loaded = load().await;
    if has_other_nodes {
        expect_missing(&loaded, &path);
        fs::write(&path, first).unwrap();
        load().await.unwrap();
    } else {
        loaded.unwrap();
    }
    fresh.tenant("a").await;
    fs::remove_file(&path).unwrap();
    expect_missing(&load().await, &path);
    let forget = fresh.state.delete_encrypted(entry("forget_secrets"));
    forget.await.unwrap();
    let loaded = load().await;
    if has_other_nodes {
        expect_missing(&loaded, &path);
    } else {
        loaded.unwrap();
    }
    let tenant = fresh.state.tenant(&super::tenant_id("a")).await.unwrap();
    assert!(!tenant.unwrap().runtime_key.present);
}

#[tokio::test]
async fn a_wrong_or_damaged_key_is_named() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    let path = fresh.directory.path().join("secret.key");
    let load = || SecretKey::load(&path, &*fresh.state);
    load().await.unwrap();
    fs::write(&path, "ab".repeat(32)).unwrap();
    let wrong = load().await.unwrap_err();
    assert!(matches!(wrong, EncryptionError::WrongKey { .. }), "{wrong}");
    assert!(wrong.to_string().contains("secret.key"), "{wrong}");
    fs::write(&path, "no key").unwrap();
    assert!(matches!(
        load().await,
        Err(EncryptionError::InvalidKey { .. })
    ));
}

#[tokio::test]
#[cfg(unix)]
async fn the_key_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let fresh = StateFixture::new().await;
    for name in ["secret.key", "hub.db"] {
        if name == "hub.db" && fresh.database.is_some() {
            continue;
        }
        let path = fresh.directory.path().join(name);
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    let _: &dyn State = &*fresh.state;
}
