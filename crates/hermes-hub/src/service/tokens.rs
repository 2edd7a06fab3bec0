//! Management tokens.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page_request;
use crate::{
    Problem, TokenId,
    api_types::{MintedToken, Time, Token},
    auth::TokenRequest,
    service::call::{Call, Reply},
};

/// How long an old secret may stay valid after a rotation.
const MAX_GRACE_SECONDS: u64 = 86_400;

/// A page of tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTokens {
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Tokens.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenList {
    tokens: Vec<Token>,
    next_cursor: Option<String>,
}

/// A token in the one reply that shows its secret.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TokenReply {
    #[serde(flatten)]
    listed: Token,
    /// The secret, shown once.
    token: String,
}

/// A token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRef {
    /// The token's id.
    token_id: TokenId,
}

/// A token to rotate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotateToken {
    /// The token's id.
    token_id: TokenId,
    /// Seconds that the old secret stays valid, 0 to 86400.
    grace: Option<u64>,
}

pub(crate) async fn list(call: Call, input: ListTokens) -> Result<Reply, Problem> {
    let page = page_request(input.limit, input.cursor)?;
    let records = call.hub.state().tokens(&page).await?;
    let tokens = records
        .items
        .into_iter()
        .map(|record| record.token)
        .collect();
    Reply::json(&TokenList {
        tokens,
        next_cursor: records.next,
    })
}

pub(crate) async fn create(call: Call, input: TokenRequest) -> Result<Reply, Problem> {
    let minted = call
        .hub
        .authenticator()
        .mint(call.principal(), input, call.entry.clone())
        .await?;
    Ok(token_reply(&minted)?.status(201))
}

pub(crate) async fn rotate(call: Call, input: RotateToken) -> Result<Reply, Problem> {
    let seconds = input.grace.unwrap_or(0);
    grace_end(Some(seconds))?;
    let grace = Duration::from_secs(seconds);
    let minted = call
        .hub
        .authenticator()
        .rotate(call.principal(), &input.token_id, grace, call.entry.clone())
        .await?;
    token_reply(&minted)
}

pub(crate) async fn revoke(call: Call, input: TokenRef) -> Result<Reply, Problem> {
    call.hub
        .authenticator()
        .revoke(call.principal(), &input.token_id, call.entry.clone())
        .await?;
    call.hub.end_mcp_sessions(&input.token_id).await;
    Ok(Reply::empty())
}

fn token_reply(minted: &MintedToken) -> Result<Reply, Problem> {
    Reply::json_with_secret(&minted.token, "token", minted.secret.expose())
}

/// The end of the grace period of an old secret.
pub(super) fn grace_end(seconds: Option<u64>) -> Result<Option<Time>, Problem> {
    match seconds.unwrap_or(0) {
        0 => Ok(None),
        seconds if seconds <= MAX_GRACE_SECONDS => {
            Ok(Some(Time::now().after(Duration::from_secs(seconds))))
        }
        _ => Err(Problem::invalid("`grace` must be 0 to 86400 seconds")
            .with_detail("grace", "out of range")),
    }
}
