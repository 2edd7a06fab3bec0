//! Sessions of people in the console as rows, and the links that open them.

use std::time::Duration;

use hermes_hub::{
    TokenId,
    api_types::{KeyHash, Role, Time, ids::ConsoleSessionId},
    storage::state::{NewConsoleSession, SessionHolder, SignedInPerson, StateError},
};

use super::{StateFixture, entry, next_millisecond};

const HOUR: Duration = Duration::from_hours(1);

fn session(cookie: &str, holder: SessionHolder) -> NewConsoleSession {
    NewConsoleSession {
        id: ConsoleSessionId::random().unwrap(),
        hash: KeyHash::from_key(cookie),
        holder,
        address: "127.0.0.1".into(),
        user_agent: "a browser".into(),
        ends_at: Time::now().after(HOUR),
    }
}

fn person(subject: &str) -> SessionHolder {
    SessionHolder::Person(SignedInPerson {
        issuer: "https://login.example.com".into(),
        subject: subject.into(),
        name: "Ada".into(),
        role: Role::Operator,
        id_token: Some("c2VhbGVk".into()),
    })
}

async fn open(fresh: &StateFixture, cookie: &str, holder: SessionHolder) -> ConsoleSessionId {
    let session = session(cookie, holder);
    let id = session.id.clone();
    let opened = fresh.state.open_console_session(session, entry("sign_in"));
    opened.await.unwrap();
    id
}

async fn has_session(fresh: &StateFixture, cookie: &str, idle_since: Time) -> bool {
    let hash = KeyHash::from_key(cookie);
    let found = fresh.state.console_session(&hash, idle_since).await;
    found.unwrap().is_some()
}

fn an_hour_ago() -> Time {
    Time::now().before(HOUR)
}

#[tokio::test]
async fn a_session_is_found_by_its_cookie_and_comes_back_as_it_was_opened() {
    let fresh = StateFixture::new().await;
    let (token, _) = fresh.token(Role::Viewer).await;
    let id = open(&fresh, "one", SessionHolder::Token(token.clone())).await;
    let other = open(&fresh, "two", person("ada")).await;
    let hash = KeyHash::from_key("one");
    let found = fresh.state.console_session(&hash, an_hour_ago()).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.id, id);
    assert_eq!(found.holder, SessionHolder::Token(token.clone()));
    assert_eq!(found.user_agent, "a browser");
    assert!(!has_session(&fresh, "three", an_hour_ago()).await);

    let all = fresh.state.console_sessions(None, an_hour_ago()).await;
    let all = all.unwrap();
    assert_eq!(all.len(), 2);
    let of_person = all.iter().find(|session| session.id == other).unwrap();
    assert_eq!(of_person.holder, person("ada"));
    let own = fresh
        .state
        .console_sessions(Some(&token), an_hour_ago())
        .await;
    assert_eq!(own.unwrap().len(), 1);
}

#[tokio::test]
async fn a_session_that_is_idle_too_old_or_ended_is_not_found() {
    let fresh = StateFixture::new().await;
    let id = open(&fresh, "idle", person("ada")).await;
    next_millisecond().await;
    let later = Time::now();
    assert!(!has_session(&fresh, "idle", later).await);
    next_millisecond().await;
    fresh.state.touch_console_session(&id).await.unwrap();
    assert!(has_session(&fresh, "idle", later).await, "it was used");

    let mut old = session("old", person("ada"));
    old.ends_at = Time::now();
    fresh
        .state
        .open_console_session(old, entry("sign_in"))
        .await
        .unwrap();
    next_millisecond().await;
    assert!(!has_session(&fresh, "old", an_hour_ago()).await);

    let end = || fresh.state.end_console_session(&id, entry("sign_out"));
    end().await.unwrap();
    assert!(!has_session(&fresh, "idle", an_hour_ago()).await);
    let again = end().await.unwrap_err();
    assert!(matches!(again, StateError::NotFound { .. }), "{again:?}");
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let fresh = StateFixture::new().await;
    fresh.token(Role::Admin).await;
    let (token, _) = fresh.token(Role::Viewer).await;
    open(&fresh, "one", SessionHolder::Token(token.clone())).await;
    let link = KeyHash::from_key("link");
    let ends_at = Time::now().after(HOUR);
    let made = entry("create_sign_in_link");
    let added = fresh.state.add_sign_in_link(&link, &token, ends_at, made);
    added.await.unwrap();
    let revoked = fresh.state.revoke_token(&token, entry("revoke_token"));
    revoked.await.unwrap();
    assert!(!has_session(&fresh, "one", an_hour_ago()).await);
    assert_eq!(fresh.state.take_sign_in_link(&link).await.unwrap(), None);
}

async fn add_link(fresh: &StateFixture, token: &TokenId, code: &str, ends_at: Time) -> KeyHash {
    let hash = KeyHash::from_key(code);
    let made = entry("create_sign_in_link");
    let added = fresh.state.add_sign_in_link(&hash, token, ends_at, made);
    added.await.unwrap();
    hash
}

#[tokio::test]
async fn a_link_works_once_and_not_when_it_is_too_old() {
    let fresh = StateFixture::new().await;
    let (token, _) = fresh.token(Role::Viewer).await;
    let link = add_link(&fresh, &token, "new", Time::now().after(HOUR)).await;
    let (one, other) = tokio::join!(
        fresh.state.take_sign_in_link(&link),
        fresh.state.take_sign_in_link(&link)
    );
    let mut found = [one.unwrap(), other.unwrap()];
    found.sort();
    assert_eq!(found, [None, Some(token.clone())], "whoever is first");
    let old = add_link(&fresh, &token, "old", Time::now()).await;
    next_millisecond().await;
    assert_eq!(fresh.state.take_sign_in_link(&old).await.unwrap(), None);
}

#[tokio::test]
async fn what_has_ended_is_deleted_and_the_rest_stays() {
    let fresh = StateFixture::new().await;
    let (token, _) = fresh.token(Role::Viewer).await;
    open(&fresh, "idle", person("ada")).await;
    add_link(&fresh, &token, "old", Time::now()).await;
    next_millisecond().await;
    let idle_since = Time::now();
    next_millisecond().await;
    open(&fresh, "used", person("eve")).await;
    let link = add_link(&fresh, &token, "new", Time::now().after(HOUR)).await;
    let deleted = fresh.state.end_old_console_sessions(idle_since).await;
    assert_eq!(deleted.unwrap(), 2);
    assert!(has_session(&fresh, "used", an_hour_ago()).await);
    let holder = fresh.state.take_sign_in_link(&link).await.unwrap();
    assert_eq!(holder, Some(token));
}
