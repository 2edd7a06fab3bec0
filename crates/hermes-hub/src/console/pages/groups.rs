//! Groups of tenants that share files.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    console::{frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 100;

#[derive(Template)]
#[template(path = "pages/groups.html")]
struct GroupsPage {
    page: Frame,
    groups: Vec<GroupFacts>,
    more: Option<String>,
    may_create: bool,
}

/// A group, as lists and its own page have it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupFacts {
    pub(super) id: String,
    pub(super) display_name: String,
    pub(super) kind: String,
    pub(super) quota_bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupPageList {
    groups: Vec<GroupFacts>,
    next_cursor: Option<String>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let mut arguments = json!({"limit": PAGE_SIZE});
    if let Some(cursor) = request.query("cursor") {
        arguments["cursor"] = Value::from(cursor);
    }
    let list: GroupPageList = request.read("list_groups", arguments).await?;
    let more = list.next_cursor.as_deref();
    render(&GroupsPage {
        page: Frame::new(&request, request.texts.get("nav.groups")),
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        groups: list.groups,
        may_create: request.may("create_group"),
    })
}
