//! MCP sessions, bound to their tokens.

use std::time::Duration;

use hermes_hub::{
    api_types::{Role, Time},
    storage::state::{McpSessionAdmission, McpSessionUse},
};
use serde_json::json;

use super::{StateFixture, entry, next_millisecond};

#[tokio::test]
async fn a_session_serves_its_own_token_only_until_it_ends() {
    let mut fresh = StateFixture::new().await;
    let (one, _) = fresh.token(Role::Admin).await;
    let (other, _) = fresh.token(Role::Admin).await;
    let agreed = json!({ "protocolVersion": "2025-11-25" });
    let open = fresh.state.open_mcp_session(&[1; 32], &one, &agreed, 32);
    assert_eq!(open.await.unwrap(), McpSessionAdmission::Opened);
    fresh.reopen().await;
    let state = &fresh.state;
    let long_ago = Time::now().before(Duration::from_hours(1));
    let used = state.use_mcp_session(&[1; 32], &one, long_ago).await;
    assert_eq!(used.unwrap().unwrap().agreed, agreed);
    let foreign = state.use_mcp_session(&[1; 32], &other, long_ago).await;
    assert_eq!(foreign.unwrap(), None);
    let idle_since = Time::now().after(Duration::from_secs(1));
    let idle = state.use_mcp_session(&[1; 32], &one, idle_since).await;
    assert_eq!(idle.unwrap(), None);
    assert!(!state.end_mcp_session(&[1; 32], &other).await.unwrap());
    assert!(state.end_mcp_session(&[1; 32], &one).await.unwrap());
    let ended = state.use_mcp_session(&[1; 32], &one, long_ago).await;
    assert_eq!(ended.unwrap(), None);
}

#[tokio::test]
async fn the_longest_idle_session_without_a_stream_gives_way() {
    let fresh = StateFixture::new().await;
    let (token, _) = fresh.token(Role::Admin).await;
    let state = &fresh.state;
    let agreed = json!({});
    let open = async |number: u8| {
        next_millisecond().await;
        let session = [number; 32];
        let opened = state.open_mcp_session(&session, &token, &agreed, 2).await;
        opened.unwrap()
    };
    assert_eq!(open(1).await, McpSessionAdmission::Opened);
    assert_eq!(open(2).await, McpSessionAdmission::Opened);
    let hold = async |number: u8, is_held: bool| {
        let used = McpSessionUse {
            hash: [number; 32],
            used_at: Time::now(),
            stream_until: is_held.then(|| Time::now().after(Duration::from_mins(1))),
        };
        assert_eq!(
            state.record_mcp_session_uses(&[used]).await.unwrap(),
            [[number; 32]]
        );
    };
    hold(1, true).await;
    assert_eq!(open(3).await, McpSessionAdmission::Replaced([2; 32]));
    hold(3, true).await;
    assert_eq!(open(4).await, McpSessionAdmission::LimitReached);
    hold(1, false).await;
    assert_eq!(open(4).await, McpSessionAdmission::Replaced([1; 32]));
}

#[tokio::test]
async fn revoking_a_token_ends_its_sessions() {
    let fresh = StateFixture::new().await;
    fresh.token(Role::Admin).await;
    let (token, _) = fresh.token(Role::Viewer).await;
    let state = &fresh.state;
    let agreed = json!({});
    let open = state.open_mcp_session(&[1; 32], &token, &agreed, 2);
    open.await.unwrap();
    state
        .revoke_token(&token, entry("revoke_token"))
        .await
        .unwrap();
    assert!(!state.end_mcp_session(&[1; 32], &token).await.unwrap());
}

#[tokio::test]
async fn idle_sessions_end_unless_a_stream_is_open() {
    let fresh = StateFixture::new().await;
    let (token, _) = fresh.token(Role::Admin).await;
    let state = &fresh.state;
    for number in [1, 2] {
        let session = [number; 32];
        let agreed = json!({});
        let open = state.open_mcp_session(&session, &token, &agreed, 9);
        open.await.unwrap();
    }
    let held = McpSessionUse {
        hash: [1; 32],
        used_at: Time::now(),
        stream_until: Some(Time::now().after(Duration::from_hours(2))),
    };
    let gone = McpSessionUse {
        hash: [9; 32],
        ..held
    };
    let present = state.record_mcp_session_uses(&[held, gone]).await.unwrap();
    assert_eq!(present, [[1; 32]]);
    let soon = Time::now().after(Duration::from_hours(1));
    assert_eq!(state.end_idle_mcp_sessions(soon).await.unwrap(), 1);
    let present = state.existing_mcp_sessions(&[[1; 32], [2; 32]]).await;
    assert_eq!(present.unwrap(), [[1; 32]]);
    assert!(state.end_mcp_session(&[1; 32], &token).await.unwrap());
}
