//! A run: a strip with what it took, what it waits for, its steps and a timeline. Goes on by itself while it is live.

mod call_details;
mod steps;
mod timeline;
mod waiting_form;

use std::time::Duration;

use askama::Template;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http::{StatusCode, header};
use serde_json::{Value, json};

use self::{
    call_details::{CallDetails, find_call},
    timeline::{Timeline, seconds},
};
use super::{is_there, render};
use crate::{
    Problem,
    api_types::{RunStatus, StoredEvent, Time},
    console::{
        actions::status_of,
        frame::Frame,
        live,
        request::{CallOptions, PageRequest},
        schema_form::{FieldControl, FormItem},
    },
    service::{call::ReplyBody, runs::RunDetails},
};

pub(super) use self::{
    steps::{LongText, RunStep, RunSteps, WaitingApproval},
    waiting_form::WaitingForm,
};

/// More events than this are not shown at once; `from` leads to earlier ones.
const MAX_EVENTS: u64 = 5000;
/// More steps than this are behind a link.
const MAX_STEPS: usize = 200;
/// Stored events are read in that time, or the page is shown without the rest.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// What `?only=` takes.
const FILTERS: [&str; 4] = ["tools", "text", "approvals", "problems"];

#[derive(Template)]
#[template(path = "pages/run.html")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each decides on one part of the page"
)]
struct RunPage {
    page: Frame,
    asked: RunDetails,
    tenant: String,
    run_id: String,
    steps: Vec<StepView>,
    timeline: Timeline,
    calls: u64,
    /// Steps before those that are shown, and where they are.
    earlier: Option<(u64, String)>,
    /// The address of the first events, if the page begins later.
    beginning: Option<String>,
    filters: Vec<StepFilter>,
    /// The last event that the steps have.
    last: u64,
    took: String,
    cost: Option<String>,
    session: Option<String>,
    is_live: bool,
    /// Whether the steps reach up to now, so that those to come can be added.
    follows: bool,
    waits: Vec<WaitingApproval>,
    /// What was asked, where it is a text.
    input_text: Option<String>,
    /// The whole request, for one that is not a text alone.
    input_json: Option<String>,
    history_json: Option<String>,
    fix: Option<&'static str>,
    may_decide: bool,
    may_stop: bool,
    may_repeat: bool,
    may_chat: bool,
    may_see_job: bool,
    may_run_job: bool,
}

impl RunPage {
    fn input(&self) -> LongText<'_> {
        let text = self.input_text.as_deref().or(self.input_json.as_deref());
        LongText::new(text.unwrap_or_default())
    }

    fn output(&self) -> LongText<'_> {
        LongText::new(self.asked.run.output.as_deref().unwrap_or_default())
    }
}

/// A step with where it leads.
struct StepView {
    step: RunStep,
    /// Since the run began.
    after: String,
    /// Where the input and the output of its call are shown.
    details_address: Option<String>,
    details: Option<CallDetails>,
}

struct StepFilter {
    text: &'static str,
    address: String,
    is_current: bool,
}

fn names(request: &PageRequest) -> Value {
    json!({
        "tenant_id": request.path_value("tenant_id"),
        "run_id": request.path_value("run_id"),
    })
}

/// The stored events of a run after one of them, up to `last`.
pub(super) async fn stored_events(
    request: &PageRequest,
    names: Value,
    after: u64,
    last: u64,
) -> Result<Vec<StoredEvent>, Problem> {
    if last <= after {
        return Ok(Vec::new());
    }
    let options = CallOptions {
        last_event_id: Some(after),
        ..CallOptions::default()
    };
    let reply = request.call("watch_run", names, options).await?;
    let ReplyBody::Events(mut lines) = reply.body else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let reading = async {
        while let Some(line) = lines.next().await {
            let text = String::from_utf8_lossy(&line);
            let data = text.lines().find_map(|line| line.strip_prefix("data: "));
            let event = data.and_then(|data| serde_json::from_str::<StoredEvent>(data).ok());
            let Some(event) = event else { continue };
            let is_last = event.id >= last;
            found.push(event);
            if is_last {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(READ_TIMEOUT, reading).await;
    Ok(found)
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let asked: RunDetails = request.read("get_run", names(&request)).await?;
    let run = &asked.run;
    let first = match request.query("from").and_then(|from| from.parse().ok()) {
        Some(from) => from,
        None => run.last_event_id.saturating_sub(MAX_EVENTS),
    };
    let until = run.last_event_id.min(first.saturating_add(MAX_EVENTS));
    let events = stored_events(&request, names(&request), first, until).await?;
    let mut read = RunSteps::from_events(events);
    if run.status != RunStatus::WaitingForApproval {
        read.waits.clear();
    }
    let is_live = !run.status.is_final();
    let begin = asked.started_at.unwrap_or(run.created_at);
    let end = if is_live { Time::now() } else { run.updated_at };
    let timeline = Timeline::new(&read.steps, begin, end, request.texts);
    let calls = read.steps.iter().filter(|step| step.is_tool()).count();
    if run.output.as_deref() == read.steps.last().map(|step| step.text.as_str()) {
        // The answer stands above the steps.
        read.steps.pop();
    }
    let session = read.session.take().or_else(|| asked.session_id.clone());
    let (steps, earlier) = shown_steps(&request, read.steps, begin, session.as_deref()).await;
    let only = request.query("only").unwrap_or_default();
    let mut page = Frame::new(&request, request.texts.get("run.title"));
    if is_live {
        // The stream of its events says all that happens here.
        page.live = None;
    }
    let fix = run.error.as_ref().and_then(|error| {
        let texts = request.texts;
        texts
            .find(&format!("run.fix.{}", error.code))
            .or_else(|| texts.find("run.fix.other"))
    });
    let (input_text, input_json) = match &asked.input {
        Some(Value::String(text)) => (Some(text.clone()), None),
        Some(other) => (None, serde_json::to_string_pretty(other).ok()),
        None => (None, None),
    };
    let history = asked.conversation_history.as_ref();
    render(&RunPage {
        tenant: run.tenant_id.to_string(),
        run_id: run.run_id.to_string(),
        steps,
        timeline,
        calls: u64::try_from(calls).unwrap_or(u64::MAX),
        earlier,
        beginning: (first > 0).then(|| request.address_with("from", "0")),
        filters: filters(&request, only),
        last: read.last.max(first),
        took: seconds(request.texts, end.millis() - begin.millis()),
        cost: asked.cost.map(|cost| format!("{cost:.4}")),
        session,
        follows: is_live && read.last.max(first) >= run.last_event_id,
        is_live,
        waits: read.waits,
        input_text,
        input_json,
        history_json: history.and_then(|history| serde_json::to_string(history).ok()),
        fix,
        may_decide: request.may("respond_approval"),
        may_stop: is_live && run.status != RunStatus::Stopping && request.may("stop_run"),
        may_repeat: asked.input.is_some() && request.may("create_run"),
        may_chat: request.may("create_run") && request.may("list_session_messages"),
        may_see_job: is_there(&request, "/tenants/{tenant_id}/cron/{job_id}"),
        may_run_job: asked.job_id.is_some() && request.may("run_tenant_cron"),
        asked,
        page,
    })
}

fn filters(request: &PageRequest, only: &str) -> Vec<StepFilter> {
    let all = std::iter::once("").chain(FILTERS);
    all.map(|word| {
        let key = match word {
            "" => "run.only.all".to_owned(),
            word => format!("run.only.{word}"),
        };
        StepFilter {
            text: request.texts.find(&key).unwrap_or_default(),
            address: request.address_with("only", word),
            is_current: word == only,
        }
    })
    .collect()
}

/// Those that the address asks for: filtered, the newest ones, one of them with its input and output.
async fn shown_steps(
    request: &PageRequest,
    mut steps: Vec<RunStep>,
    begin: Time,
    session: Option<&str>,
) -> (Vec<StepView>, Option<(u64, String)>) {
    let only = request.query("only").unwrap_or_default();
    steps.retain(|step| step.passes(only));
    let hidden = match request.query("all") {
        Some(_) => 0,
        None => steps.len().saturating_sub(MAX_STEPS),
    };
    steps.drain(..hidden);
    let earlier = (hidden > 0).then(|| {
        let hidden = u64::try_from(hidden).unwrap_or(u64::MAX);
        (hidden, request.address_with("all", "1"))
    });
    let may_open = session.is_some() && request.may("list_session_messages");
    let opened = request.query("call").filter(|_| may_open);
    let mut shown = Vec::with_capacity(steps.len());
    for step in steps {
        let mut details = None;
        let mut details_address = None;
        if let (Some(call), Some(session)) = (step.call.as_deref(), session) {
            if opened == Some(call) {
                details = Some(find_call(request, session, call).await);
            } else if may_open {
                details_address = Some(format!("{}#opened", request.address_with("call", call)));
            }
        }
        shown.push(StepView {
            after: seconds(request.texts, step.at.millis() - begin.millis()),
            details_address,
            details,
            step,
        });
    }
    (shown, earlier)
}

/// The events of a run as they come, for run.js.
pub(in crate::console) async fn events(request: PageRequest) -> Response {
    let after = request.query("after").and_then(|after| after.parse().ok());
    let resumed = request.headers.get("last-event-id");
    let resumed = resumed.and_then(|id| id.to_str().ok()?.parse().ok());
    let options = CallOptions {
        last_event_id: resumed.or(after),
        ..CallOptions::default()
    };
    match request.call("watch_run", names(&request), options).await {
        Ok(reply) => match reply.body {
            ReplyBody::Events(events) => {
                let session = Box::pin(live::wait_for_session_end(request.clone()));
                let body = events.take_until(session);
                let body = body.map(Ok::<_, std::convert::Infallible>);
                let headers = [
                    (header::CONTENT_TYPE, "text/event-stream"),
                    (header::HeaderName::from_static("x-accel-buffering"), "no"),
                ];
                (headers, axum::body::Body::from_stream(body)).into_response()
            }
            _ => StatusCode::NOT_FOUND.into_response(),
        },
        Err(problem) => status_of(&problem).into_response(),
    }
}
