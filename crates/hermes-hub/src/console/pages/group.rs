//! One group: its members and what they may do, its files, and its end.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{groups::GroupFacts, render};
use crate::{
    Problem,
    console::{frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 200;
/// How many tenants are offered for a new member; others are typed.
const OFFERED_TENANTS: u32 = 50;

#[derive(Template)]
#[template(path = "pages/group.html")]
struct GroupPage {
    page: Frame,
    request: PageRequest,
    group: GroupFacts,
    etag: String,
    members: Vec<MemberFacts>,
    more: Option<String>,
    offered: Vec<String>,
}

impl GroupPage {
    fn may(&self, operation: &str) -> bool {
        self.request.may(operation)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberFacts {
    tenant_id: String,
    access: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberPageList {
    members: Vec<MemberFacts>,
    next_cursor: Option<String>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let id = request.path_value("group_id").to_owned();
    let (group, etag): (GroupFacts, _) = request
        .read_versioned("get_group", json!({"group_id": id}))
        .await?;
    let mut arguments = json!({"group_id": id, "limit": PAGE_SIZE});
    if let Some(cursor) = request.query("cursor") {
        arguments["cursor"] = Value::from(cursor);
    }
    let list: MemberPageList = request.read("list_members", arguments).await?;
    let more = list.next_cursor.as_deref();
    let more = more.map(|cursor| request.address_with("cursor", cursor));
    render(&GroupPage {
        page: Frame::new(&request, group.display_name.as_str()),
        offered: offer_tenants(&request, &list.members).await?,
        members: list.members,
        more,
        etag: etag.unwrap_or_default(),
        group,
        request,
    })
}

/// Tenants that are not members yet.
async fn offer_tenants(
    request: &PageRequest,
    members: &[MemberFacts],
) -> Result<Vec<String>, Problem> {
    if !request.may("put_member") || !request.may("list_tenants") {
        return Ok(Vec::new());
    }
    let list: Value = request
        .read("list_tenants", json!({"limit": OFFERED_TENANTS}))
        .await?;
    let tenants = list["tenants"].as_array().into_iter().flatten();
    let ids = tenants.filter_map(|tenant| tenant["id"].as_str());
    let others = ids.filter(|id| !members.iter().any(|member| member.tenant_id == *id));
    Ok(others.map(str::to_owned).collect())
}
