//! An MCP server of a tenant: its state, what it offers, what it prints, its login, and its entry.

use askama::Template;
use axum::{
    Form,
    response::{Html, IntoResponse, Response},
};
use hermes_protocol::{ServerTestReport, ServerTool, ServerToolList};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{full_problem_page, mcp_servers::ServerView, render, tool_form};
use crate::{
    Problem,
    api_types::Time,
    console::{
        actions::status_of,
        form_fields::{Fields, find_field},
        frame::Frame,
        request::{CallOptions, PageRequest},
    },
    service::call::ReplyBody,
};

/// More tools than this are searched for, not scrolled through.
const MAX_TOOLS: usize = 200;
const LOG_LINES: u64 = 100;
const MAX_LINE_CHARS: usize = 200;

#[derive(Template)]
#[template(path = "pages/mcp_server.html")]
struct McpServerPage {
    page: Frame,
    tenant: String,
    server: ServerView,
    /// The version of the entry.
    version: String,
    config: String,
    offer: ServerOffer,
    search: String,
    log: Vec<String>,
    outcome: ServerOutcome,
    may_write: bool,
    may_test: bool,
    may_log_in: bool,
}

/// What the server offers, as far as it is known.
struct ServerOffer {
    /// Those that fit the search.
    tools: Vec<ServerTool>,
    /// How many there are, and how many of them fit.
    all: usize,
    fitting: usize,
    resources: Vec<hermes_protocol::ServerResource>,
    prompts: Vec<hermes_protocol::ServerPrompt>,
    warnings: Vec<String>,
    /// Why they are not known.
    problem: Option<String>,
    /// Whether they were asked for.
    is_asked: bool,
}

/// What came of a form of this page.
#[derive(Default)]
struct ServerOutcome {
    test: Option<ServerTestReport>,
    login: Option<StartedLogin>,
    problem: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartedLogin {
    url: Option<String>,
    expires_at: Option<Time>,
    issuer: Option<String>,
}

impl StartedLogin {
    /// Only an address of the web is made a link.
    fn link(&self) -> Option<&str> {
        let url = self.url.as_deref()?;
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        is_web.then_some(url)
    }
}

#[derive(Deserialize)]
struct StderrLines {
    lines: Vec<String>,
}

/// The arguments that name the server of the address.
pub(super) fn named_server(request: &PageRequest) -> Value {
    json!({
        "tenant_id": request.path_value("tenant_id"),
        "server": request.path_value("server"),
    })
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    match request.query("tool") {
        Some(_) => tool_form::show(&request, None).await,
        None => show_server(&request, ServerOutcome::default()).await,
    }
}

/// The forms of this page whose outcome is shown on it: a call, a test, a login.
pub(in crate::console) async fn submit(
    request: PageRequest,
    Form(fields): Form<Fields>,
) -> Response {
    if let Err(problem) = request.csrf.check(find_field(&fields, "csrf")) {
        return full_problem_page(&request, &problem);
    }
    let shown = match find_field(&fields, "action") {
        Some("call") => tool_form::show(&request, Some(&fields)).await,
        Some("test") => test(&request, &fields).await,
        Some("login") => log_in(&request, &fields).await,
        _ => Err(Problem::not_found("there is no such action").with_reason("no_action")),
    };
    match shown {
        Ok(text) => Html(text).into_response(),
        Err(problem) => full_problem_page(&request, &problem),
    }
}

/// Calls an operation for a form, and reads its reply.
pub(super) async fn call_for_form<T: serde::de::DeserializeOwned>(
    request: &PageRequest,
    operation: &str,
    arguments: Value,
    fields: &Fields,
) -> Result<T, Problem> {
    let options = CallOptions {
        idempotency_key: find_field(fields, "once").map(str::to_owned),
        ..CallOptions::default()
    };
    let reply = request.call(operation, arguments, options).await?;
    let ReplyBody::Json(document) = reply.body else {
        return Err(Problem::internal(&"the reply is not JSON"));
    };
    serde_json::from_str(document.get()).map_err(|error| Problem::internal(&error))
}

async fn test(request: &PageRequest, fields: &Fields) -> Result<String, Problem> {
    let arguments = named_server(request);
    let tested = call_for_form(request, "test_mcp_server", arguments, fields).await;
    let mut outcome = ServerOutcome::default();
    match tested {
        Ok(report) => outcome.test = Some(report),
        Err(problem) => outcome.problem = Some(message_or_problem(problem)?),
    }
    show_server(request, outcome).await
}

async fn log_in(request: &PageRequest, fields: &Fields) -> Result<String, Problem> {
    let mut arguments = named_server(request);
    if let Some(address) = find_field(fields, "address") {
        arguments["address"] = address.trim().into();
    }
    let begun = call_for_form(request, "log_in_to_mcp_server", arguments, fields).await;
    let mut outcome = ServerOutcome::default();
    match begun {
        Ok(login) => outcome.login = Some(login),
        Err(problem) => outcome.problem = Some(message_or_problem(problem)?),
    }
    show_server(request, outcome).await
}

/// What is told in the page. Whoever may not see the page, or the server, gets none.
pub(super) fn message_or_problem(problem: Problem) -> Result<String, Problem> {
    match status_of(&problem).as_u16() {
        401 | 403 | 404 => Err(problem),
        _ => Ok(problem.message),
    }
}

async fn show_server(request: &PageRequest, outcome: ServerOutcome) -> Result<String, Problem> {
    let named = named_server(request);
    let (server, version): (ServerView, _) = request
        .read_versioned("get_mcp_server", named.clone())
        .await?;
    let offer = find_offer(request, &server, &outcome).await;
    let log = if server.is_remote() || !request.may("get_mcp_server_log") {
        Vec::new()
    } else {
        let mut wanted = named;
        wanted["lines"] = LOG_LINES.into();
        let read: StderrLines = request.read("get_mcp_server_log", wanted).await?;
        read.lines
    };
    let mut page = Frame::new(request, server.name.clone());
    if outcome.test.is_some() || outcome.login.is_some() || outcome.problem.is_some() {
        // Read again, the page would lose what came of the form.
        page.live = None;
    }
    render(&McpServerPage {
        page,
        tenant: request.path_value("tenant_id").to_owned(),
        version: version.unwrap_or_default(),
        config: serde_json::to_string_pretty(&server.config).unwrap_or_default(),
        offer,
        search: request.query("search").unwrap_or_default().to_owned(),
        log,
        outcome,
        may_write: request.may("put_mcp_server"),
        may_test: request.may("test_mcp_server"),
        may_log_in: server.is_remote() && request.may("log_in_to_mcp_server"),
        server,
    })
}

/// The tools of a server that is connected, or where they are asked for: the agent may have to be woken.
async fn find_offer(
    request: &PageRequest,
    server: &ServerView,
    outcome: &ServerOutcome,
) -> ServerOffer {
    let mut offer = ServerOffer {
        tools: Vec::new(),
        all: 0,
        fitting: 0,
        resources: Vec::new(),
        prompts: Vec::new(),
        warnings: Vec::new(),
        problem: None,
        is_asked: false,
    };
    let is_connected = server.is_ready() || outcome.test.as_ref().is_some_and(|test| test.ok);
    let is_wanted = is_connected || request.query("offer").is_some();
    if !is_wanted || !request.may("list_mcp_tools") {
        return offer;
    }
    offer.is_asked = true;
    let listed: Result<ServerToolList, Problem> =
        request.read("list_mcp_tools", named_server(request)).await;
    let list = match listed {
        Ok(list) => list,
        Err(problem) => {
            offer.problem = Some(problem.message);
            return offer;
        }
    };
    let search = request.query("search").unwrap_or_default().to_lowercase();
    let fits = |tool: &ServerTool| {
        let texts = [
            Some(&tool.name),
            Some(&tool.description),
            tool.title.as_ref(),
        ];
        let mut texts = texts.into_iter().flatten();
        search.is_empty() || texts.any(|text| text.to_lowercase().contains(&search))
    };
    offer.all = list.tools.len();
    let mut fitting: Vec<ServerTool> = list.tools.into_iter().filter(fits).collect();
    offer.fitting = fitting.len();
    fitting.truncate(MAX_TOOLS);
    offer.tools = fitting;
    offer.resources = list.resources;
    offer.prompts = list.prompts;
    offer.warnings = list.warnings;
    offer
}

impl McpServerPage {
    /// The beginning of a text that a server wrote.
    fn line(&self, text: &str) -> String {
        let line = text.trim().lines().next().unwrap_or_default();
        let mut shown: String = line.chars().take(MAX_LINE_CHARS).collect();
        if shown.len() < text.trim().len() {
            shown.push('…');
        }
        shown
    }
}
