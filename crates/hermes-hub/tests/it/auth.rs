//! Who calls.

use std::{fs, net::IpAddr, sync::Arc, time::Duration};

use hermes_hub::{
    TokenId,
    api_types::{KeyKind, NewKey, Role, Time},
    auth::{AuthError, Authenticator, Principal, TokenRequest, create_first_token},
    storage::state::NewRuntimeKey,
};
use hermes_testkit::eventually_some;

use crate::storage::state::{StateFixture, entry, new_token};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

async fn admin(fresh: &StateFixture) -> Principal {
    let (id, _) = fresh.token(Role::Admin).await;
    let record = fresh.state.token(&id).await.unwrap().unwrap();
    Principal::from(&record.token)
}

#[tokio::test]
async fn a_token_is_let_in_until_it_is_revoked() {
    let fresh = StateFixture::new().await;
    let door = Authenticator::new(Arc::clone(&fresh.state));
    let admin = admin(&fresh).await;
    let (id, key) = fresh.token(Role::Viewer).await;
    let secret = key.secret.expose().as_str();
    let caller = door.authenticate(Some(secret), HERE).await.unwrap();
    assert_eq!(caller.principal.token, id);
    assert_eq!(caller.principal.scopes, Role::Viewer.scopes());
    let revoked = door.revoke(&admin, &id, entry("revoke_token")).await;
    revoked.unwrap();
    let refused = door.authenticate(Some(secret), HERE).await;
    assert!(matches!(refused, Err(AuthError::UnknownKey)), "{refused:?}");
    let refused = door.authenticate_hash(&caller.key, HERE).await;
    assert!(matches!(refused, Err(AuthError::UnknownKey)), "{refused:?}");
}

#[tokio::test]
async fn a_revocation_elsewhere_counts_within_two_seconds() {
    let fresh = StateFixture::new().await;
    let door = Authenticator::new(Arc::clone(&fresh.state));
    fresh.token(Role::Admin).await;
    let (id, key) = fresh.token(Role::Viewer).await;
    let secret = key.secret.expose().as_str();
    door.authenticate(Some(secret), HERE).await.unwrap();
    let other = fresh.another_node("n2").await;
    other
        .revoke_token(&id, entry("revoke_token"))
        .await
        .unwrap();
    let refused = eventually_some(Duration::from_secs(2), async || {
        door.authenticate(Some(secret), HERE).await.err()
    });
    let refused = refused.await;
    assert!(
        matches!(refused, Some(AuthError::UnknownKey)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn nothing_else_is_let_in() {
    let fresh = StateFixture::new().await;
    let door = Authenticator::new(Arc::clone(&fresh.state));
    let refuse = async |key: Option<&str>| door.authenticate(key, HERE).await.unwrap_err();
    assert!(matches!(refuse(None).await, AuthError::MissingKey));
    assert!(matches!(
        refuse(Some("Bearer")).await,
        AuthError::UnknownKey
    ));
    let stranger = NewKey::random(KeyKind::Management).unwrap();
    let secret = stranger.secret.expose().as_str();
    assert!(matches!(refuse(Some(secret)).await, AuthError::UnknownKey));
    let (mut ended, key) = new_token(Role::Admin);
    ended.expires_at = Some(Time::now().before(Duration::from_secs(1)));
    let made = fresh.state.create_token(ended, entry("create_token")).await;
    made.unwrap();
    let secret = key.secret.expose().as_str();
    assert!(matches!(refuse(Some(secret)).await, AuthError::Expired));
    let (mut elsewhere, key) = new_token(Role::Admin);
    elsewhere.cidrs = vec!["10.0.0.0/8".parse().unwrap()];
    let made = fresh.state.create_token(elsewhere, entry("create_token"));
    made.await.unwrap();
    let secret = key.secret.expose().as_str();
    assert!(matches!(
        refuse(Some(secret)).await,
        AuthError::AddressNotAllowed { .. }
    ));
    let there = "10.1.2.3".parse().unwrap();
    door.authenticate(Some(secret), there).await.unwrap();
}

#[tokio::test]
async fn a_runtime_key_is_known_for_what_it_is() {
    let fresh = StateFixture::new().await;
    let door = Authenticator::new(Arc::clone(&fresh.state));
    let key = NewKey::random(KeyKind::Runtime).unwrap();
    let mut tenant = fresh.new_tenant("a");
    tenant.runtime_key = NewRuntimeKey::encrypt(&fresh.key, &tenant.uid, &key, None).unwrap();
    let made = fresh.state.create_tenant(tenant, entry("create_tenant"));
    let made = made.await.unwrap();
    let secret = key.secret.expose().as_str();
    let refused = door.authenticate(Some(secret), HERE).await.unwrap_err();
    let AuthError::RuntimeKey { tenant } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(tenant.as_ref(), Some(&made.id));
    let problem = hermes_hub::Problem::from(refused);
    assert_eq!(
        (problem.code.status(), problem.reason),
        (403, Some("runtime_key"))
    );
    assert!(!problem.message.contains(secret));
}

#[tokio::test]
async fn rotation_gives_a_new_secret_and_ends_the_old_one() {
    let fresh = StateFixture::new().await;
    let door = Authenticator::new(Arc::clone(&fresh.state));
    let admin = admin(&fresh).await;
    let (id, key) = fresh.token(Role::Viewer).await;
    let old = key.secret.expose().as_str();
    door.authenticate(Some(old), HERE).await.unwrap();
    let rotate = |grace| door.rotate(&admin, &id, grace, entry("rotate_token"));
    let graceful = rotate(Duration::from_mins(1)).await.unwrap();
    assert_eq!(graceful.token.id, id);
    door.authenticate(Some(old), HERE).await.unwrap();
    let last = rotate(Duration::ZERO).await.unwrap();
    let works = async |secret: &str| door.authenticate(Some(secret), HERE).await.is_ok();
    assert!(!works(old).await);
    assert!(!works(graceful.secret.expose()).await);
    assert!(works(last.secret.expose()).await);
    assert!(rotate(Duration::from_hours(25)).await.is_err());
}

#[tokio::test]
async fn a_minted_token_works_and_its_use_is_written_down() {
    let fresh = StateFixture::new().await;
    let door = Authenticator::new(Arc::clone(&fresh.state));
    let admin = admin(&fresh).await;
    let request = TokenRequest {
        name: "ci".into(),
        role: Some(Role::Operator),
        ..TokenRequest::default()
    };
    let minted = door
        .mint(&admin, request, entry("create_token"))
        .await
        .unwrap();
    let secret = minted.secret.expose().as_str();
    door.authenticate(Some(secret), HERE).await.unwrap();
    door.store_last_used().await.unwrap();
    let stored = fresh.state.token(&minted.token.id).await.unwrap().unwrap();
    assert!(stored.token.last_used_at.is_some());
    let missing = TokenId::parse("tok_missing").unwrap();
    let none = door
        .rotate(&admin, &missing, Duration::ZERO, entry("rotate_token"))
        .await;
    assert_eq!(none.unwrap_err().code.status(), 404);
}

#[tokio::test]
async fn a_fresh_hub_gets_one_admin_token_in_a_private_file() {
    let fresh = StateFixture::new().await;
    let file = fresh.directory.path().join("admin.token");
    assert!(create_first_token(&*fresh.state, &file).await.unwrap());
    let secret = fs::read_to_string(&file).unwrap();
    let door = Authenticator::new(Arc::clone(&fresh.state));
    let caller = door.authenticate(Some(secret.trim()), HERE).await.unwrap();
    assert_eq!(caller.principal.scopes, Role::Admin.scopes());
    assert!(!create_first_token(&*fresh.state, &file).await.unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), secret);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }
}
