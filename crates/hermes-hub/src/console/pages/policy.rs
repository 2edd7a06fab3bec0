//! The documents of the whole Hub: policy, configuration, specialization. Each is edited as text, shown as a difference
//! before it holds, and can be taken back to an earlier revision.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::Time,
    console::{
        diff::{DiffLine, diff_lines, plain_text},
        frame::Frame,
        request::PageRequest,
    },
};

const MAX_REVISIONS: u32 = 30;

/// A document, and the operations that it is read and changed with.
struct HubDocument {
    tab: &'static str,
    title: &'static str,
    what: &'static str,
    get: &'static str,
    change: &'static str,
    revisions: &'static str,
    restore: &'static str,
    /// Where the document is in the reply.
    place: &'static str,
    /// The argument that changes it.
    argument: &'static str,
}

const DOCUMENTS: [HubDocument; 3] = [
    HubDocument {
        tab: "policy",
        title: "policy.policy",
        what: "policy.policy_what",
        get: "get_agent_policy",
        change: "put_agent_policy",
        revisions: "list_policy_revisions",
        restore: "restore_policy",
        place: "/policy",
        argument: "policy",
    },
    HubDocument {
        tab: "config",
        title: "policy.config",
        what: "policy.config_what",
        get: "get_tenant_impact_config",
        change: "patch_tenant_impact_config",
        revisions: "list_impact_revisions",
        restore: "restore_impact",
        place: "/config",
        argument: "patch",
    },
    HubDocument {
        tab: "specialization",
        title: "policy.specialization",
        what: "policy.specialization_what",
        get: "get_agent_specialization",
        change: "put_agent_specialization",
        revisions: "list_specialization_revisions",
        restore: "restore_specialization",
        place: "",
        argument: "content",
    },
];

#[derive(Template)]
#[template(path = "pages/policy.html")]
struct PolicyPage {
    page: Frame,
    tabs: Vec<DocumentTab>,
    document: &'static HubDocument,
    text: String,
    revision: u64,
    version: String,
    may_change: bool,
    /// A whole document is sent as a merge patch.
    is_patch: bool,
    /// How many agents have a specialization, and how many get it with their next run.
    applied: Option<AppliedTenants>,
    restart_required: Vec<String>,
    revisions: Vec<RevisionView>,
    compared: Option<ComparedRevision>,
}

/// Agents that have a text, and those that get it with their next run.
struct AppliedTenants {
    applied: u64,
    pending: u64,
}

struct DocumentTab {
    address: String,
    title: &'static str,
    is_current: bool,
}

#[derive(Deserialize)]
struct RevisionsView {
    revisions: Vec<StoredRevision>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRevision {
    revision: u64,
    content: Value,
    updated_at: Time,
    updated_by: String,
}

struct RevisionView {
    number: u64,
    at: Time,
    by: String,
    address: String,
    is_current: bool,
}

/// What would change if a revision came back.
struct ComparedRevision {
    number: u64,
    lines: Vec<DiffLine>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let wanted = request.query("tab").unwrap_or("policy");
    let document = DOCUMENTS
        .iter()
        .find(|document| document.tab == wanted && request.may(document.get))
        .ok_or_else(|| Problem::not_found("there is no such document").with_reason("no_page"))?;
    let (reply, version): (Value, _) = request.read_versioned(document.get, json!({})).await?;
    let content = match document.place {
        "" => reply["content"].clone(),
        place => reply.pointer(place).cloned().unwrap_or_default(),
    };
    let text = plain_text(&content);
    let list: RevisionsView = request
        .read(document.revisions, json!({"limit": MAX_REVISIONS}))
        .await?;
    let revision = reply["revision"].as_u64().unwrap_or(0);
    let number: Option<u64> = request.query("revision").and_then(|text| text.parse().ok());
    let chosen = list
        .revisions
        .iter()
        .find(|stored| Some(stored.revision) == number);
    let compared = chosen.map(|stored| ComparedRevision {
        number: stored.revision,
        lines: diff_lines(&text, &revision_text(&stored.content)),
    });
    let tabs = DOCUMENTS.iter().filter(|tab| request.may(tab.get));
    let tabs = tabs.map(|tab| DocumentTab {
        address: format!("/policy?tab={}", tab.tab),
        title: tab.title,
        is_current: tab.tab == document.tab,
    });
    let count = |name: &str| reply[name].as_u64();
    let restart = reply["restartRequired"].as_array().into_iter().flatten();
    render(&PolicyPage {
        page: Frame::new(&request, request.texts.get(document.title)),
        tabs: tabs.collect(),
        revision,
        version: version.unwrap_or_default(),
        may_change: request.may(document.change),
        is_patch: document.argument == "patch",
        applied: count("appliedTenants")
            .zip(count("pendingTenants"))
            .map(|(applied, pending)| AppliedTenants { applied, pending }),
        restart_required: restart
            .filter_map(|path| path.as_str().map(str::to_owned))
            .collect(),
        revisions: list
            .revisions
            .into_iter()
            .map(|stored| RevisionView {
                number: stored.revision,
                at: stored.updated_at,
                by: stored.updated_by,
                address: format!(
                    "/policy?tab={}&revision={}#difference",
                    document.tab, stored.revision
                ),
                is_current: stored.revision == revision,
            })
            .collect(),
        compared,
        document,
        text,
    })
}

/// A specialization is stored as text or as an object around it.
fn revision_text(content: &Value) -> String {
    match content.get("content") {
        Some(text @ Value::String(_)) => plain_text(text),
        _ => plain_text(content),
    }
}
