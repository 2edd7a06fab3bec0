//! Management tokens as rows.

use std::time::Duration;

use hermes_hub::{
    api_types::{KeyHash, KeyKind, NewKey, Role, Scope, Time},
    storage::state::{NewSecret, Page, StateError},
};

use super::{StateFixture, entry, new_token, next_millisecond, tenant_id};

#[tokio::test]
async fn a_token_is_found_by_its_secret_and_comes_back_as_it_was_made() {
    let fresh = StateFixture::new().await;
    assert!(!fresh.state.has_tokens().await.unwrap());
    let (mut token, key) = new_token(Role::Operator);
    token.scopes = vec![Scope::AuditRead];
    token.tenants = Some(vec![tenant_id("a")]);
    token.cidrs = vec!["10.0.0.0/8".parse().unwrap()];
    token.expires_at = Some(Time::now().after(Duration::from_hours(1)));
    let made = fresh
        .state
        .create_token(token.clone(), entry("create_token"))
        .await
        .unwrap();
    let found = fresh.state.token_of_key(&key.hash).await.unwrap().unwrap();
    assert_eq!(found, made);
    assert_eq!(found.token.scopes, token.scopes);
    assert_eq!(found.token.tenants, token.tenants);
    assert_eq!(found.token.cidrs, token.cidrs);
    assert_eq!(found.token.expires_at, token.expires_at);
    let unknown = KeyHash::from_key("another");
    assert!(fresh.state.token_of_key(&unknown).await.unwrap().is_none());
    assert!(fresh.state.has_tokens().await.unwrap());
}

#[tokio::test]
async fn the_old_secret_lives_as_long_as_its_grace() {
    let fresh = StateFixture::new().await;
    let (id, first) = fresh.token(Role::Admin).await;
    let rotate = |grace: Option<Time>| {
        let key = NewKey::random(KeyKind::Management).unwrap();
        let secret = NewSecret {
            hash: key.hash,
            last4: key.last4.clone(),
            grace_until: grace,
        };
        let rotated = fresh.state.rotate_token(&id, secret, entry("rotate_token"));
        async move {
            rotated.await.unwrap();
            key
        }
    };
    let works = async |key: &NewKey| {
        let found = fresh.state.token_of_key(&key.hash).await.unwrap();
        found.is_some_and(|record| record.token.id == id)
    };
    let second = rotate(Some(Time::now().after(Duration::from_hours(1)))).await;
    assert!(works(&first).await && works(&second).await);
    let third = rotate(Some(Time::now().before(Duration::from_secs(1)))).await;
    assert!(!works(&first).await && !works(&second).await && works(&third).await);
}

#[tokio::test]
async fn the_last_admin_token_cannot_be_revoked() {
    let fresh = StateFixture::new().await;
    let (admin, _) = fresh.token(Role::Admin).await;
    let (viewer, _) = fresh.token(Role::Viewer).await;
    let (mut ended, _) = new_token(Role::Admin);
    ended.expires_at = Some(Time::now().before(Duration::from_secs(1)));
    let (mut bound, _) = new_token(Role::Admin);
    bound.tenants = Some(vec![tenant_id("a")]);
    for token in [ended, bound] {
        let made = fresh.state.create_token(token, entry("create_token")).await;
        made.unwrap();
    }
    let revoke = |id| fresh.state.revoke_token(id, entry("revoke_token"));
    let refused = revoke(&admin).await;
    assert!(matches!(
        refused,
        Err(StateError::Conflict {
            reason: "last_admin_token",
            ..
        })
    ));
    revoke(&viewer).await.unwrap();
    let gone = revoke(&viewer).await;
    assert!(matches!(gone, Err(StateError::NotFound { .. })));
    fresh.token(Role::Admin).await;
    revoke(&admin).await.unwrap();
}

#[tokio::test]
async fn two_admins_who_revoke_each_other_at_once_leave_one() {
    let fresh = StateFixture::new().await;
    let (one, _) = fresh.token(Role::Admin).await;
    let (other, _) = fresh.token(Role::Admin).await;
    let revoke = |id| fresh.state.revoke_token(id, entry("revoke_token"));
    let (first, second) = tokio::join!(revoke(&one), revoke(&other));
    assert_eq!(u32::from(first.is_ok()) + u32::from(second.is_ok()), 1);
    let left = fresh.state.tokens(&Page::default()).await.unwrap();
    assert_eq!(left.items.len(), 1);
}

#[tokio::test]
async fn tokens_are_listed_oldest_first_with_their_last_use() {
    let fresh = StateFixture::new().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(fresh.token(Role::Viewer).await.0);
        next_millisecond().await;
    }
    let time = Time::now();
    let earlier = time.before(Duration::from_secs(5));
    let state = &fresh.state;
    state.touch_tokens(&[(ids[0].clone(), time)]).await.unwrap();
    state
        .touch_tokens(&[(ids[0].clone(), earlier)])
        .await
        .unwrap();
    let mut listed = Vec::new();
    let mut page = Page::first(2);
    loop {
        let paged = state.tokens(&page).await.unwrap();
        listed.extend(paged.items.into_iter().map(|record| record.token));
        match paged.next {
            Some(cursor) => page = Page::after(2, cursor),
            None => break,
        }
    }
    let order: Vec<_> = listed.iter().map(|token| token.id.clone()).collect();
    assert_eq!(order, ids);
    assert_eq!(listed[0].last_used_at, Some(time));
    assert_eq!(listed[1].last_used_at, None);
}
