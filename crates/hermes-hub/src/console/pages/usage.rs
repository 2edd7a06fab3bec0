//! What runs used: by day, tenant or model, with totals; as a chart, a table and a file.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::render;
use crate::{
    Problem,
    console::{
        drawing::{CHART_HEIGHT, CHART_WIDTH, Sparkline, sparkline},
        frame::Frame,
        request::PageRequest,
    },
};

/// Rows that are shown; the file has all of them.
const MAX_ROWS: usize = 500;
/// Tenants of a page.
const PAGE_SIZE: u32 = 100;
const GROUPS: [&str; 3] = ["day", "tenant", "model"];

#[derive(Template)]
#[template(path = "pages/usage.html")]
struct UsagePage {
    page: Frame,
    by: String,
    /// What rows can be about.
    groups: Vec<&'static str>,
    from: String,
    to: String,
    tenant: String,
    rows: Vec<UsageRowView>,
    total: CountsView,
    is_cut: bool,
    /// Whether tenants are in the order of their ids: there are more of them than a page has.
    is_by_id: bool,
    /// Where the first tenants are, on a later page.
    first: Option<String>,
    /// Where the next tenants are.
    more: Option<String>,
    export: String,
    /// Charts of days have a line for those without scripts.
    lines: Vec<(&'static str, Sparkline)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageView {
    by: String,
    from: String,
    to: String,
    usage: Vec<UsageRowView>,
    total: CountsView,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct UsageRowView {
    key: String,
    #[serde(flatten)]
    counts: CountsView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CountsView {
    runs: u64,
    tool_calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    cached_tokens: u64,
    cost: Option<f64>,
}

impl CountsView {
    /// Absent where a model has no price.
    fn cost_text(&self) -> String {
        self.cost
            .map_or_else(|| "–".to_owned(), |cost| format!("{cost:.2}"))
    }
}

impl UsagePage {
    fn is_by(&self, group: &str) -> bool {
        self.by == group
    }

    fn width(&self) -> u32 {
        CHART_WIDTH
    }

    fn height(&self) -> u32 {
        CHART_HEIGHT
    }
}

/// The filter in an address, as the operation takes it.
pub(in crate::console) fn read_filter(request: &PageRequest) -> Map<String, Value> {
    let mut filter = Map::new();
    filter.insert("by".to_owned(), "day".into());
    for name in ["by", "from", "to", "tenant"] {
        if let Some(value) = request.query(name) {
            filter.insert(name.to_owned(), value.into());
        }
    }
    filter
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let mut arguments = read_filter(&request);
    let cursor = request.query("cursor");
    if arguments["by"] == "tenant" {
        arguments.insert("limit".to_owned(), PAGE_SIZE.into());
        if let Some(cursor) = cursor {
            arguments.insert("cursor".to_owned(), cursor.into());
        }
    }
    let report: UsageView = request.read("get_usage", arguments.into()).await?;
    let more = report.next_cursor.as_deref();
    let is_by_id = report.by == "tenant" && (more.is_some() || cursor.is_some());
    let mut rows = report.usage;
    // Days stay in their order; of tenants and models, those that used most come first.
    if report.by != "day" && !is_by_id {
        rows.sort_by_key(|row| {
            std::cmp::Reverse(row.counts.input_tokens + row.counts.output_tokens)
        });
    }
    let is_cut = rows.len() > MAX_ROWS;
    rows.truncate(MAX_ROWS);
    let values = |value: fn(&CountsView) -> u64| {
        let values: Vec<u64> = rows.iter().map(|row| value(&row.counts)).collect();
        sparkline(&values)
    };
    let lines = if report.by == "day" && rows.len() > 1 {
        vec![
            ("usage.runs", values(|counts| counts.runs)),
            ("usage.input", values(|counts| counts.input_tokens)),
            ("usage.output", values(|counts| counts.output_tokens)),
        ]
    } else {
        Vec::new()
    };
    let address = request.address_with("cursor", "");
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let mut page = Frame::new(&request, request.texts.get("nav.usage"));
    // A chart that a script has drawn is not in the page that would be read again.
    page.live = None;
    render(&UsagePage {
        page,
        export: format!("/usage/export?{query}"),
        by: report.by,
        // One person has no tenants to tell apart.
        groups: GROUPS
            .into_iter()
            .filter(|group| *group != "tenant" || request.only_tenant().is_none())
            .collect(),
        from: report.from,
        to: report.to,
        tenant: request.query("tenant").unwrap_or_default().to_owned(),
        rows,
        total: report.total,
        is_cut,
        is_by_id,
        first: cursor.map(|_| address.clone()),
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        lines,
    })
}
