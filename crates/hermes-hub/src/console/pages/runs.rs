//! The runs of a tenant, and those of all tenants: newest first, filtered by the address.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::{Run, RunStatus, RunTrigger, UsageDay},
    console::{frame::Frame, request::PageRequest, texts::Texts},
};

const PAGE_SIZE: u32 = 50;
/// Characters of an answer that a row shows.
const SHOWN_CHARS: usize = 160;

#[derive(Template)]
#[template(path = "pages/runs.html")]
struct RunsPage {
    page: Frame,
    /// Whose runs; all tenants' if there is none.
    tenant: Option<String>,
    filter: RunFilter,
    runs: Vec<Run>,
    /// The address of the next page.
    more: Option<String>,
    /// The address of the first page, on another one.
    newest: Option<String>,
    may_start: bool,
}

/// What the address asks for.
struct RunFilter {
    status: String,
    trigger: String,
    model: String,
    since: String,
    until: String,
}

impl RunFilter {
    fn new(request: &PageRequest) -> Self {
        let asked = |name: &str| request.query(name).unwrap_or_default().to_owned();
        Self {
            status: asked("status"),
            trigger: asked("trigger"),
            model: asked("model"),
            since: asked("since"),
            until: asked("until"),
        }
    }

    fn is_empty(&self) -> bool {
        let all = [
            &self.status,
            &self.trigger,
            &self.model,
            &self.since,
            &self.until,
        ];
        all.iter().all(|value| value.is_empty())
    }

    /// Adds what is asked for to the arguments of a list.
    fn apply(&self, arguments: &mut Value, texts: &Texts) -> Result<(), Problem> {
        let words = [
            ("status", &self.status),
            ("trigger", &self.trigger),
            ("model", &self.model),
        ];
        for (name, word) in words.into_iter().filter(|(_, word)| !word.is_empty()) {
            arguments[name] = Value::from(word.as_str());
        }
        // Days are those of UTC; the last one is included.
        for (name, day, later) in [("since", &self.since, 0), ("until", &self.until, 1)] {
            if day.is_empty() {
                continue;
            }
            let found = UsageDay::parse(day)
                .ok_or_else(|| Problem::invalid(texts.fill("field.day", name)))?;
            let day = UsageDay(found.0 + later);
            arguments[name] = Value::from(format!("{day}T00:00:00Z"));
        }
        Ok(())
    }
}

impl RunsPage {
    fn statuses(&self) -> &'static [RunStatus] {
        RunStatus::ALL
    }

    fn triggers(&self) -> &'static [RunTrigger] {
        RunTrigger::ALL
    }

    /// The beginning of an answer, or of why there is none.
    fn summary(&self, run: &Run) -> String {
        let error = run.error.as_ref().map(|error| error.message.as_str());
        let text = error.or(run.output.as_deref()).unwrap_or_default();
        let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        shown
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunPageList {
    runs: Vec<Run>,
    next_cursor: Option<String>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let arguments = json!({"tenant_id": tenant});
    show_list(&request, "list_runs", arguments, Some(tenant)).await
}

pub(super) async fn show_all(request: PageRequest) -> Result<String, Problem> {
    show_list(&request, "list_all_runs", json!({}), None).await
}

async fn show_list(
    request: &PageRequest,
    operation: &str,
    mut arguments: Value,
    tenant: Option<String>,
) -> Result<String, Problem> {
    let filter = RunFilter::new(request);
    filter.apply(&mut arguments, request.texts)?;
    arguments["limit"] = PAGE_SIZE.into();
    let cursor = request.query("cursor");
    if let Some(cursor) = cursor {
        arguments["cursor"] = cursor.into();
    }
    let list: RunPageList = request.read(operation, arguments).await?;
    let more = list.next_cursor.as_deref();
    let title = match &tenant {
        Some(_) => "runs.title",
        None => "runs.all_title",
    };
    render(&RunsPage {
        page: Frame::new(request, request.texts.get(title)),
        may_start: tenant.is_some() && request.may("create_run"),
        tenant,
        filter,
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        newest: cursor.map(|_| request.address_with("cursor", "")),
        runs: list.runs,
    })
}
