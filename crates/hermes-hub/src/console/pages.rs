//! The pages, in the order of the navigation. Each has a file and a template of its own.

use askama::Template;
use axum::{
    extract::Request,
    response::{Html, IntoResponse, Response},
};
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;

use super::{
    actions::status_of, assets, frame::Frame, language::texts_for, request::PageRequest,
    texts::Texts,
};
use crate::{
    Problem, ProblemCode, api_types::problem::ProblemDetail, http::middleware::RequestId,
    operations::Operation,
};

mod approvals;
mod audit;
mod character;
mod chat;
mod connect;
mod conversation;
mod conversations;
mod cron;
mod env;
mod events;
mod files;
mod group;
mod groups;
mod library;
mod limits;
mod manifest;
mod mcp_server;
mod mcp_servers;
mod nodes;
mod overview;
mod platforms;
mod policy;
mod run;
mod runs;
mod sessions;
mod skills;
mod tenant;
mod tenants;
mod tokens;
mod tool_form;
mod usage;
mod webhooks;

/// A page.
pub(super) struct PageRow {
    /// Its address, with `{name}` for values.
    pub(super) path: &'static str,
    /// The operation that it shows: whoever may not call it does not see the page.
    pub(super) operation: &'static str,
    /// Its place in the navigation, if it has one.
    pub(super) link: Option<PageLink>,
    show: fn(PageRequest) -> BoxFuture<'static, Result<String, Problem>>,
}

pub(super) struct PageLink {
    /// The key of its text.
    pub(super) text: &'static str,
    /// Pressed after `g`.
    pub(super) key: char,
}

macro_rules! page {
    ($path:literal, $operation:literal, $show:path $(, $text:literal, $key:literal)?) => {
        PageRow {
            path: $path,
            operation: $operation,
            link: page!(@link $($text, $key)?),
            show: |request| Box::pin($show(request)),
        }
    };
    (@link $text:literal, $key:literal) => { Some(PageLink { text: $text, key: $key }) };
    (@link) => { None };
}

pub(super) const PAGES: &[PageRow] = &[
    page!("/", "whoami", overview::show, "nav.overview", 'o'),
    page!(
        "/approvals",
        "list_approvals",
        approvals::show,
        "nav.approvals",
        'a'
    ),
    page!("/runs", "list_all_runs", runs::show_all, "nav.runs", 'r'),
    page!(
        "/tenants",
        "list_tenants",
        tenants::show,
        "nav.tenants",
        't'
    ),
    page!("/tenants/{tenant_id}", "get_tenant", tenant::show),
    page!(
        "/tenants/{tenant_id}/conversations",
        "list_sessions",
        conversations::show
    ),
    page!(
        "/tenants/{tenant_id}/conversations/{session_id}",
        "list_session_messages",
        conversation::show
    ),
    page!("/tenants/{tenant_id}/cron", "list_tenant_crons", cron::show),
    page!(
        "/tenants/{tenant_id}/cron/{job_id}",
        "get_tenant_cron",
        cron::job::show
    ),
    page!("/tenants/{tenant_id}/env", "list_env", env::show),
    page!(
        "/tenants/{tenant_id}/character",
        "get_soul",
        character::show
    ),
    page!("/tenants/{tenant_id}/limits", "get_limits", limits::show),
    page!(
        "/tenants/{tenant_id}/manifest",
        "get_manifest",
        manifest::show
    ),
    page!(
        "/tenants/{tenant_id}/mcp",
        "list_mcp_servers",
        mcp_servers::show
    ),
    page!(
        "/tenants/{tenant_id}/mcp/{server}",
        "get_mcp_server",
        mcp_server::show
    ),
    page!(
        "/tenants/{tenant_id}/platforms",
        "list_platforms",
        platforms::show
    ),
    page!(
        "/tenants/{tenant_id}/skills",
        "list_tenant_skills",
        skills::show
    ),
    page!("/tenants/{tenant_id}/runs", "list_runs", runs::show),
    page!("/tenants/{tenant_id}/chat", "create_run", chat::show),
    page!("/tenants/{tenant_id}/runs/{run_id}", "get_run", run::show),
    page!(
        "/tenants/{tenant_id}/files",
        "list_files",
        files::show_workspace
    ),
    page!(
        "/cron",
        "list_upcoming_crons",
        cron::upcoming::show,
        "nav.cron",
        'j'
    ),
    page!("/groups", "list_groups", groups::show, "nav.groups", 'g'),
    page!("/groups/{group_id}", "get_group", group::show),
    page!(
        "/groups/{group_id}/files",
        "list_share_files",
        files::show_share
    ),
    page!(
        "/groups/{group_id}/trash",
        "list_share_trash",
        files::show_trash
    ),
    page!(
        "/skills",
        "list_library_skills",
        library::show,
        "nav.library",
        'k'
    ),
    page!("/skills/{name}", "get_library_skill", library::show_one),
    page!("/usage", "get_usage", usage::show, "nav.usage", 'u'),
    page!(
        "/policy",
        "get_agent_policy",
        policy::show,
        "nav.policy",
        'p'
    ),
    page!("/tokens", "list_tokens", tokens::show, "nav.tokens", 'n'),
    page!("/audit", "list_audit", audit::show, "nav.audit", 'l'),
    page!("/events", "watch_events", events::show, "nav.events", 'e'),
    page!(
        "/webhooks",
        "list_webhooks",
        webhooks::show,
        "nav.webhooks",
        'w'
    ),
    page!("/webhooks/{webhook_id}", "get_webhook", webhooks::show_one),
    page!("/nodes", "list_nodes", nodes::show, "nav.nodes", 'z'),
    page!("/connect", "whoami", connect::show, "nav.connect", 'x'),
    page!(
        "/sessions",
        "list_console_sessions",
        sessions::show,
        "nav.sessions",
        's'
    ),
];

pub(super) use audit::{check as audit_check, read_filter as audit_filter};
pub(super) use files::{receive_files, send_file};
pub(super) use mcp_server::submit as use_mcp_server;
pub(super) use run::events as follow_run;
pub(super) use usage::read_filter as usage_filter;

pub(super) async fn serve_page(request: PageRequest) -> Response {
    let page = PAGES.iter().find(|page| page.path == request.pattern);
    let shown = match page {
        Some(page) if request.may(page.operation) => (page.show)(request.clone()).await,
        Some(_) | None => Err(Problem::not_found("there is no such page").with_reason("no_page")),
    };
    match shown {
        Ok(text) => Html(text).into_response(),
        Err(problem) => full_problem_page(&request, &problem),
    }
}

/// Whether there is a page at this path for whoever asks, so that another can link to it.
pub(super) fn is_there(request: &PageRequest, path: &str) -> bool {
    let page = PAGES.iter().find(|page| page.path == path);
    page.is_some_and(|page| request.may(page.operation))
}

/// Fills a template.
pub(super) fn render(template: &impl Template) -> Result<String, Problem> {
    template.render().map_err(|error| Problem::internal(&error))
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    page: Frame,
    problem: &'a Problem,
    message: &'a str,
    fix: Option<&'static str>,
}

/// What is wrong, in the reader's language where the console itself says it.
pub(super) fn problem_message<'a>(texts: &Texts, problem: &'a Problem) -> &'a str {
    let own = problem
        .reason
        .and_then(|reason| texts.find(&format!("problem.reason.{reason}")));
    own.unwrap_or(&problem.message)
}

/// What helps against problems of this kind, where that is always the same.
fn find_fix(texts: &Texts, problem: &Problem) -> Option<&'static str> {
    let code = match problem.code {
        ProblemCode::OutOfSpace => "out_of_space",
        code => code.as_str(),
    };
    texts.find(&format!("problem.fix.{code}"))
}

pub(super) fn full_problem_page(request: &PageRequest, problem: &Problem) -> Response {
    let mut page = Frame::new(request, request.texts.get("problem.title"));
    let status = status_of(problem);
    if status == StatusCode::NOT_FOUND {
        page.tabs = None;
    }
    let fix = find_fix(request.texts, problem);
    let shown = ProblemPage {
        page,
        problem,
        message: problem_message(request.texts, problem),
        fix,
    };
    match shown.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(_) => status.into_response(),
    }
}

#[derive(Template)]
#[template(path = "problem_part.html")]
struct ProblemPart<'a> {
    texts: &'static Texts,
    message: &'a str,
    /// What is wrong where.
    details: &'a [ProblemDetail],
    fix: Option<&'static str>,
    request_id: &'a str,
}

impl ProblemPart<'_> {
    fn t<'a>(&'a self, key: &'a str) -> &'a str {
        self.texts.get(key)
    }

    fn asset(&self, name: &str) -> &'static str {
        assets::address(name)
    }
}

/// What a form has led to: where scripts run it is shown above the form, which stays as it was filled.
pub(super) fn problem_in_place(request: &PageRequest, problem: &Problem) -> Response {
    if !request.headers.contains_key("hx-request") {
        return full_problem_page(request, problem);
    }
    let part = ProblemPart {
        texts: request.texts,
        message: problem_message(request.texts, problem),
        details: &problem.details,
        fix: find_fix(request.texts, problem),
        request_id: &request.id.0,
    };
    let headers = [
        ("hx-retarget", HeaderValue::from_static("#message")),
        ("hx-reswap", HeaderValue::from_static("innerHTML")),
    ];
    match part.render() {
        Ok(text) => (status_of(problem), headers, Html(text)).into_response(),
        Err(_) => status_of(problem).into_response(),
    }
}

/// For somebody who is not signed in.
pub(super) fn problem_page(request: &Request, problem: &Problem) -> Response {
    let id = RequestId::from_request(request);
    bare_problem_page(request.headers(), problem, &id)
}

#[derive(Template)]
#[template(path = "problem_bare.html")]
struct BareProblemPage<'a> {
    part: ProblemPart<'a>,
}

pub(super) fn bare_problem_page(
    headers: &HeaderMap,
    problem: &Problem,
    id: &RequestId,
) -> Response {
    let texts = texts_for(headers);
    let part = ProblemPart {
        texts,
        message: problem_message(texts, problem),
        details: &problem.details,
        fix: find_fix(texts, problem),
        request_id: &id.0,
    };
    match (BareProblemPage { part }).render() {
        Ok(text) => (status_of(problem), Html(text)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[derive(Template)]
#[template(path = "reply.html")]
struct ReplyPage<'a> {
    page: Frame,
    fields: Vec<(String, String)>,
    next: &'a str,
}

/// The reply of an operation, for what is shown only once.
pub(super) fn reply_page(
    request: &PageRequest,
    operation: &Operation,
    document: &str,
    next: &str,
) -> Result<Response, Problem> {
    let document: Value =
        serde_json::from_str(document).map_err(|error| Problem::internal(&error))?;
    let fields = document.as_object().into_iter().flatten();
    let fields = fields
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            let text = value.as_str().map(str::to_owned);
            (name.clone(), text.unwrap_or_else(|| value.to_string()))
        });
    let key = format!("reply.title.{}", operation.name);
    let title = request.texts.find(&key).unwrap_or(operation.title);
    let mut frame = Frame::new(request, title);
    // It is not read again: what it shows, it shows once.
    frame.live = None;
    let page = ReplyPage {
        page: frame,
        fields: fields.collect(),
        next,
    };
    Ok(Html(render(&page)?).into_response())
}
