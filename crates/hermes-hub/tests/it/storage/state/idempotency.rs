//! Idempotency keys.

use std::time::Duration;

use hermes_hub::{
    api_types::Time,
    storage::state::{
        FileChange, FileOutcome, IdempotencyKey, KeyClaim, NewFileOperation, StoredReply,
    },
};

use super::{StateFixture, entry, new_run, tenant_id};

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey {
        token: "tok_7".into(),
        route: "POST /v1/tenants/{tenant_id}/runs".into(),
        key: name.into(),
    }
}

fn reply() -> StoredReply {
    StoredReply {
        status: 202,
        body: b"{}".to_vec(),
    }
}

#[tokio::test]
async fn the_same_request_gets_the_same_reply_and_another_body_none() {
    let fresh = StateFixture::new().await;
    let state = &fresh.state;
    let claim = async |name, body: u8| state.claim_key(&key(name), &[body; 32]).await.unwrap();
    assert_eq!(claim("a", 1).await, KeyClaim::First);
    assert_eq!(claim("a", 1).await, KeyClaim::Running);
    state.finish_key(&key("a"), reply()).await.unwrap();
    assert_eq!(claim("a", 1).await, KeyClaim::Replay(reply()));
    assert_eq!(claim("a", 2).await, KeyClaim::BodyMismatch);
    assert_eq!(claim("b", 2).await, KeyClaim::First);
}

#[tokio::test]
async fn of_two_requests_at_once_one_is_first() {
    let fresh = StateFixture::new().await;
    let name = key("a");
    let claim = || fresh.state.claim_key(&name, &[1; 32]);
    let (one, other) = tokio::join!(claim(), claim());
    let mut claims = [one.unwrap(), other.unwrap()];
    claims.sort_by_key(|claim| *claim != KeyClaim::First);
    assert_eq!(claims, [KeyClaim::First, KeyClaim::Running]);
}

#[tokio::test]
async fn a_request_without_effect_may_be_sent_again_and_one_with_effect_not() {
    let mut fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    for name in ["refused", "cut off", "effective"] {
        let claim = fresh.state.claim_key(&key(name), &[1; 32]).await.unwrap();
        assert_eq!(claim, KeyClaim::First);
    }
    fresh.state.release_key(&key("refused")).await.unwrap();
    let mut entry = entry("create_run");
    entry.idempotency = Some(key("effective"));
    let run = new_run(&tenant_id("a"));
    fresh.state.create_run(run, 10, entry).await.unwrap();
    fresh.state.release_key(&key("effective")).await.unwrap();
    fresh.reopen().await;
    assert_eq!(fresh.state.release_interrupted_keys().await.unwrap(), 1);
    let claim = async |name| fresh.state.claim_key(&key(name), &[1; 32]).await.unwrap();
    assert_eq!(claim("refused").await, KeyClaim::First);
    assert_eq!(claim("cut off").await, KeyClaim::First);
    assert_eq!(claim("effective").await, KeyClaim::ReplyLost);
}

#[tokio::test]
async fn a_change_of_files_that_was_begun_is_not_begun_again_unless_it_failed() {
    let mut fresh = StateFixture::new().await;
    let state = &fresh.state;
    let mut begun = Vec::new();
    for name in ["failed", "cut off"] {
        state.claim_key(&key(name), &[1; 32]).await.unwrap();
        let mut entry = entry("move_share_path");
        entry.idempotency = Some(key(name));
        let intent = NewFileOperation {
            entry: entry.clone(),
            change: FileChange::Copy,
            reserve: None,
        };
        begun.push((state.begin_file_operation(intent).await.unwrap(), entry));
    }
    let (intent, mut entry) = begun.remove(0);
    entry.status = 409;
    let effect = FileOutcome { entry, used: None };
    state.finish_file_operation(intent, effect).await.unwrap();
    for name in ["failed", "cut off"] {
        let claim = state.claim_key(&key(name), &[1; 32]).await.unwrap();
        assert_eq!(claim, KeyClaim::Running);
    }
    state.release_key(&key("failed")).await.unwrap();
    fresh.reopen().await;
    fresh.state.release_interrupted_keys().await.unwrap();
    let claim = async |name| fresh.state.claim_key(&key(name), &[1; 32]).await.unwrap();
    assert_eq!(claim("failed").await, KeyClaim::First);
    assert_eq!(claim("cut off").await, KeyClaim::ReplyLost);
}

#[tokio::test]
async fn old_keys_are_forgotten() {
    let fresh = StateFixture::new().await;
    fresh.state.claim_key(&key("a"), &[1; 32]).await.unwrap();
    let later = Time::now().after(Duration::from_secs(1));
    assert_eq!(fresh.state.forget_keys(later).await.unwrap(), 1);
    let claim = fresh.state.claim_key(&key("a"), &[2; 32]).await.unwrap();
    assert_eq!(claim, KeyClaim::First);
}
