//! The audit log: filtered by its address, page by page; checked and taken along as a file.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::render;
use crate::{
    Problem,
    api_types::AuditEntry,
    console::{frame::Frame, request::PageRequest},
};

pub(in crate::console) mod check;

const PAGE_SIZE: u32 = 50;
/// Entries that are looked at for a page; whoever wants more asks for the next one.
const REACH: u32 = 1_500;
/// Filters that are texts.
const TEXT_FILTERS: [&str; 5] = ["tenant", "actor", "action", "decision", "request_id"];

#[derive(Template)]
#[template(path = "pages/audit.html")]
struct AuditPage {
    page: Frame,
    entries: Vec<AuditEntry>,
    more: Option<String>,
    /// Whether the page ends before it is full: there may be more entries that fit.
    is_cut: bool,
    filters: Map<String, Value>,
    /// The days as they were chosen.
    since: String,
    until: String,
    export: String,
    may_verify: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEntriesView {
    entries: Vec<AuditEntry>,
    next_cursor: Option<String>,
}

impl AuditPage {
    fn filter(&self, name: &str) -> &str {
        self.filters
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn is_decision(&self, decision: &str) -> bool {
        self.filter("decision") == decision
    }
}

/// The filter in an address, as the operation takes it. A day begins at midnight, UTC; the last one is included.
pub(in crate::console) fn read_filter(request: &PageRequest) -> Map<String, Value> {
    let mut filter = Map::new();
    for name in TEXT_FILTERS {
        if let Some(value) = request.query(name) {
            filter.insert(name.to_owned(), value.trim().into());
        }
    }
    if let Some(day) = request.query("since") {
        filter.insert("since".to_owned(), format!("{day}T00:00:00Z").into());
    }
    if let Some(day) = request.query("until") {
        filter.insert("until".to_owned(), format!("{day}T23:59:59.999Z").into());
    }
    filter
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let filters = read_filter(&request);
    let mut arguments = filters.clone();
    arguments.insert("limit".to_owned(), PAGE_SIZE.into());
    arguments.insert("reach".to_owned(), REACH.into());
    if let Some(cursor) = request.query("cursor") {
        arguments.insert("cursor".to_owned(), cursor.into());
    }
    let list: AuditEntriesView = request.read("list_audit", arguments.into()).await?;
    let whole = request.address_with("cursor", "");
    let query = whole.split_once('?').map_or("", |(_, query)| query);
    let day = |name: &str| request.query(name).unwrap_or_default().to_owned();
    let more = list.next_cursor.as_deref();
    render(&AuditPage {
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        is_cut: more.is_some() && list.entries.len() < PAGE_SIZE as usize,
        entries: list.entries,
        filters,
        since: day("since"),
        until: day("until"),
        export: format!("/audit/export?{query}"),
        may_verify: request.may("verify_audit"),
        page: Frame::new(&request, request.texts.get("nav.audit")),
    })
}
