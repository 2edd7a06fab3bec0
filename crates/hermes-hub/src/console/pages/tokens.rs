//! Management tokens: listed, made, rotated, revoked. A secret is shown once, by the reply of the form.

use std::time::Duration;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::{Scope, Time, Token},
    console::{frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 50;
const DAY: Duration = Duration::from_hours(24);
/// How long a new token may live, in days.
const LIFETIMES: [u64; 5] = [1, 7, 30, 90, 365];

#[derive(Template)]
#[template(path = "pages/tokens.html")]
struct TokensPage {
    page: Frame,
    tokens: Vec<Token>,
    more: Option<String>,
    may_create: bool,
    may_rotate: bool,
    may_revoke: bool,
    /// Those that whoever asks can give away.
    scopes: Vec<Scope>,
    /// Days, and when they are over.
    lifetimes: Vec<(u64, Time)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokensView {
    tokens: Vec<Token>,
    next_cursor: Option<String>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let mut arguments = json!({"limit": PAGE_SIZE});
    if let Some(cursor) = request.query("cursor") {
        arguments["cursor"] = Value::from(cursor);
    }
    let list: TokensView = request.read("list_tokens", arguments).await?;
    let own = &request.principal().scopes;
    let now = Time::now();
    let lifetimes = LIFETIMES.iter().map(|days| {
        let span = DAY.saturating_mul(u32::try_from(*days).unwrap_or(u32::MAX));
        (*days, now.after(span))
    });
    let more = list.next_cursor.as_deref();
    render(&TokensPage {
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        tokens: list.tokens,
        may_create: request.may("create_token"),
        may_rotate: request.may("rotate_token"),
        may_revoke: request.may("revoke_token"),
        scopes: Scope::ALL
            .iter()
            .copied()
            .filter(|scope| own.contains(*scope))
            .collect(),
        lifetimes: lifetimes.collect(),
        page: Frame::new(&request, request.texts.get("nav.tokens")),
    })
}
