//! One group: its members and what they may do, its files, and its end.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{groups::GroupFacts, render};
use crate::{
    Problem,
    console::{conflict::digest_for, frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 200;
/// How many tenants are offered for a new member; others are typed.
const OFFERED_TENANTS: u32 = 50;
/// How many skills of the library are offered.
const OFFERED_SKILLS: u32 = 200;

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
    /// Skills of the library, and whether the members get each. `None` if they cannot be shown.
    skills: Option<Vec<(String, bool)>>,
    /// What the form about them was made from.
    seen_skills: String,
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
    let (skills, seen_skills) = read_skills(&request, &id).await?;
    render(&GroupPage {
        skills,
        seen_skills,
        page: Frame::new(&request, group.display_name.as_str()),
        offered: offer_tenants(&request, &list.members).await?,
        members: list.members,
        more,
        etag: etag.unwrap_or_default(),
        group,
        request,
    })
}

/// The skills that members get, and those that the library has besides.
async fn read_skills(
    request: &PageRequest,
    group: &str,
) -> Result<(Option<Vec<(String, bool)>>, String), Problem> {
    if !request.may("get_group_skills") {
        return Ok((None, String::new()));
    }
    let given: Value = request
        .read("get_group_skills", json!({"group_id": group}))
        .await?;
    let seen = digest_for("put_group_skills", &given);
    let given: Vec<String> = serde_json::from_value(given["skills"].clone()).unwrap_or_default();
    let mut skills: Vec<(String, bool)> = Vec::new();
    if request.may("put_group_skills") && request.may("list_library_skills") {
        let list: Value = request
            .read("list_library_skills", json!({"limit": OFFERED_SKILLS}))
            .await?;
        let known = list["skills"].as_array().into_iter().flatten();
        let names = known.filter_map(|skill| skill["name"].as_str());
        skills.extend(names.map(|name| (name.to_owned(), given.iter().any(|own| own == name))));
    }
    for name in given {
        if !skills.iter().any(|(known, _)| *known == name) {
            skills.push((name, true));
        }
    }
    Ok((Some(skills), seen))
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
