//! Texts that tenants, models, servers and files write: markup, scripts, marks that turn the direction of writing, and
//! 100 KB of it. Every field has a name in its text, by which it is found on the pages.

mod reported;

use std::{collections::BTreeSet, fs, sync::Arc};

use hermes_config::Home;
use hermes_protocol::{
    AgentReply, ServerPrompt, ServerResource, ServerTestReport, ServerToolList, ToolCallReport,
    ToolChange,
};
use hermes_store::{
    Access, Content, NewMessage, NewSession, Role, SessionId, Store, pairing::PairingStore,
};
use reqwest::{Method, header};
use serde_json::{Value, json};

use super::{
    ConsoleBrowser, ConsolePage,
    links::crawl_pages,
    mcp_servers::{state, tool, tools},
    runs::start_run,
};
use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

/// Without spaces, because agents take a script by its words.
const MARKUP: &str = "\"'><script>alert(1)</script><img/src=x/onerror=alert(2)></textarea></title></td></table>{{7*7}}\u{202e}\u{2067}";
/// More than this is not a page that anybody wants to load.
const MAX_PAGE: usize = 1 << 20;
/// The form of a tool has all that its schema says, and the schema below it.
const MAX_TOOL_PAGE: usize = 3 << 20;
/// The manifest has every text of a tenant's documents, once to copy and once to change.
const MAX_MANIFEST_PAGE: usize = 2 << 20;

/// What is written into the fields.
#[derive(Clone, Copy, PartialEq)]
enum Writing {
    Short,
    /// 100 KB without a place to break it.
    Long,
}

impl Writing {
    fn text(self, field: &str) -> String {
        let more = match self {
            Self::Short => String::new(),
            Self::Long => "x".repeat(100_000),
        };
        format!("{}{MARKUP}{more}", mark(field))
    }
}

/// The name of a field as it is found on a page.
fn mark(field: &str) -> String {
    format!("wrote-{field}-")
}

/// Fields that are written over the API: the name, the method, the path, and the document around the text.
type ApiField = (&'static str, Method, &'static str, fn(&str) -> Value);

const API_FIELDS: &[ApiField] = &[
    (
        "tenant",
        Method::PATCH,
        "/v1/tenants/acme",
        |text| json!({ "displayName": text }),
    ),
    (
        "label",
        Method::PATCH,
        "/v1/tenants/acme",
        |text| json!({"labels": {"note": text}}),
    ),
    (
        "model",
        Method::PATCH,
        "/v1/tenants/acme",
        |text| json!({"agent": {"model": text}}),
    ),
    (
        "reason",
        Method::PUT,
        "/v1/tenants/closed/access",
        |text| json!({"status": "blocked", "reason": text, "message": text}),
    ),
    (
        "group",
        Method::PATCH,
        "/v1/groups/team",
        |text| json!({ "displayName": text }),
    ),
    (
        "jobname",
        Method::POST,
        "/v1/tenants/acme/agent-cron",
        |text| json!({"id": "named", "name": text, "schedule": "0 9 * * *", "prompt": "hello"}),
    ),
    (
        "jobprompt",
        Method::POST,
        "/v1/tenants/acme/agent-cron",
        |text| json!({"id": "prompted", "schedule": "0 9 * * *", "prompt": text}),
    ),
    (
        "command",
        Method::PUT,
        "/v1/tenants/acme/mcp-servers/demo",
        |text| json!({"command": text, "args": [text], "env": {"LEVEL": text}}),
    ),
    (
        "shared",
        Method::PUT,
        "/v1/tenants/acme/shares/team/files/content",
        |text| json!({"path": "note.md", "content": text}),
    ),
    ("library", Method::PUT, "/v1/skills/minutes", |text| {
        let head = format!("---\nname: minutes\ndescription: >-\n  {text}\n---\n{text}\n");
        json!({"files": [{"path": "SKILL.md", "content": head}]})
    }),
    (
        "token",
        Method::POST,
        "/v1/tokens",
        |text| json!({"name": text, "role": "viewer"}),
    ),
    (
        "hook",
        Method::POST,
        "/v1/webhooks",
        |text| json!({"url": format!("https://example.org/?{text}"), "events": ["quota.near"], "tenants": ["closed"]}),
    ),
];

/// Files of a home: the name of the field, the path, and what is around the text.
type HomeField = (&'static str, &'static str, fn(&str) -> String);

const HOME_FIELDS: &[HomeField] = &[
    ("soul", "SOUL.md", str::to_owned),
    ("memory", "memories/MEMORY.md", str::to_owned),
    ("user", "memories/USER.md", str::to_owned),
    ("file", "workspace/note.md", str::to_owned),
    ("skill", "skills/content/writer/SKILL.md", |text| {
        format!("---\nname: writer\ndescription: >-\n  {text}\n---\n{text}\n")
    }),
    ("version", "skills/content/numbered/SKILL.md", |text| {
        format!("---\nname: numbered\ndescription: Numbers.\nversion: >-\n  {text}\n---\n")
    }),
    ("folder", "workspace/deep/inner.txt", str::to_owned),
    ("stderr", "logs/mcp-stderr.log", |text| {
        format!("2026-01-01T00:00:01Z [demo] {text}\n")
    }),
];

/// Writes into every field. Returns those that took the text.
async fn write_fields(hub: &TestHub, writing: Writing) -> BTreeSet<&'static str> {
    let mut written = BTreeSet::new();
    for (field, method, path, body) in API_FIELDS {
        let text = writing.text(field);
        let answer = hub.send_json(method.clone(), path, &body(&text)).await;
        match answer.status {
            200..300 => {
                written.insert(*field);
            }
            // A limit is an answer to a long text, not to a short one.
            400 | 413 | 422 if writing == Writing::Long => {}
            _ => panic!("{field}: {}", answer.text),
        }
    }
    let home = hub.home("acme");
    for (field, path, around) in HOME_FIELDS {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, around(&writing.text(field))).unwrap();
        written.insert(*field);
    }
    let pairing = PairingStore::new(&Home::at(&home));
    pairing
        .request_code("telegram", "5", &writing.text("person"))
        .unwrap();
    written.insert("person");
    written.extend(write_conversation(hub, writing).await);
    written.extend(start_runs(hub, writing).await);
    written.extend(write_job(hub, writing));
    written.extend(reported::write_reports(hub, writing).await);
    written
}

async fn write_conversation(hub: &TestHub, writing: Writing) -> [&'static str; 6] {
    let home = Home::at(hub.home("acme"));
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = SessionId::parse("talk").unwrap();
    let new = NewSession {
        display_name: Some(writing.text("chatname")),
        model: Some(writing.text("chatmodel")),
        ..NewSession::new(session.clone(), "telegram")
    };
    store.create_session(&new).await.unwrap();
    let asked = NewMessage::new(Role::User, writing.text("asked"));
    let call = json!([{"id": "c1", "type": "function",
        "function": {"name": writing.text("toolname"), "arguments": writing.text("arguments")}}]);
    let called = NewMessage {
        tool_calls: Some(call),
        ..NewMessage::new(Role::Assistant, writing.text("answered"))
    };
    let result = NewMessage {
        tool_name: Some(writing.text("toolname")),
        tool_call_id: Some("c1".into()),
        ..NewMessage::new(Role::Tool, Content::Text(writing.text("result")))
    };
    for message in [asked, called, result] {
        store.append(&session, &message).await.unwrap();
    }
    // As a model may call it, which has a hundred characters at most.
    let titled = SessionId::parse("titled").unwrap();
    let new = NewSession::new(titled.clone(), "telegram");
    store.create_session(&new).await.unwrap();
    let title = format!("{}<script>alert(1)</script>\u{202e}", mark("title"));
    store.set_first_title(&titled, &title).await.unwrap();
    let said = NewMessage::new(Role::User, Content::Text("hello".into()));
    store.append(&titled, &said).await.unwrap();
    store.close().await;
    [
        "asked",
        "answered",
        "toolname",
        "arguments",
        "result",
        "title",
    ]
}

/// A job as an agent may store it: everything in its file is a text of somebody.
fn write_job(hub: &TestHub, writing: Writing) -> [&'static str; 7] {
    let text = |field: &str| writing.text(field);
    let file = hub.home("acme").join("cron/jobs.json");
    let mut jobs: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let mut job = jobs["jobs"][0].clone();
    let stored = json!({
        "id": "stored",
        "name": text("storedname"),
        "schedule_display": text("display"),
        "state": "paused",
        "enabled": false,
        "paused_reason": text("pause"),
        "deliver": text("deliver"),
        "model": text("jobmodel"),
        "skills": [text("jobskill")],
        "last_run_at": "2026-11-15T09:00:00+00:00",
        "last_status": "error",
        "last_error": text("joberror"),
        "last_delivery_status": "failed",
        "last_delivery_error": text("delivery"),
        "last_deliveries": [{"target": text("target"), "error": text("undelivered")}],
    });
    for (name, value) in stored.as_object().unwrap() {
        job[name] = value.clone();
    }
    jobs["jobs"].as_array_mut().unwrap().push(job);
    fs::write(&file, jobs.to_string()).unwrap();
    [
        "storedname",
        "pause",
        "deliver",
        "joberror",
        "delivery",
        "target",
        "undelivered",
    ]
}

async fn start_runs(hub: &TestHub, writing: Writing) -> [&'static str; 2] {
    for (script, field, status) in [
        ("leak", "step", "completed"),
        ("ask", "approval", "waiting_for_approval"),
    ] {
        let input = format!("{script}={}", writing.text(field));
        let run = start_run(hub, "acme", &input).await;
        let path = format!("/v1/tenants/acme/runs/{run}");
        hub.wait_until(&path, |run| run["status"] == status).await;
    }
    ["step", "approval"]
}

#[track_caller]
fn assert_harmless(page: &ConsolePage, most: usize) {
    for raw in [
        "<script>alert",
        "<img/src",
        "</textarea></title>",
        "</td></table>{{",
        "49\u{202e}",
    ] {
        page.assert_lacks(raw);
    }
    assert_eq!(page.text.matches("</html>").count(), 1, "{}", page.address);
    let size = page.text.len();
    assert!(size < most, "{} has {size} bytes", page.address);
}

async fn hostile_hub() -> (TestHub, Arc<ScriptedRuntime>) {
    let agent = ScriptedRuntime::new();
    let hub = TestHub::with_runtime(agent.clone(), |_, _| {}).await;
    let group = json!({"id": "team"});
    hub.post("/v1/groups", &group).await.expect(201);
    hub.tenant(json!({"id": "closed"})).await;
    hub.tenant(json!({"id": "acme", "groups": [{"id": "team", "access": "write"}]}))
        .await;
    let server = json!({"command": "server"});
    let answer = hub.put("/v1/tenants/acme/mcp-servers/demo", &server).await;
    assert!(answer.status < 300, "{}", answer.text);
    // The one that a stored job is made from, also where no job takes the text.
    let job = json!({"id": "plain", "schedule": "0 9 * * *", "prompt": "hello"});
    let jobs = "/v1/tenants/acme/agent-cron";
    hub.post(jobs, &job).await.expect(201);
    (hub, agent)
}

/// Signs in with a browser of this name.
async fn sign_in_with_agent(hub: &TestHub, user_agent: &str) -> u16 {
    let stranger = ConsoleBrowser::stranger(hub);
    let request = stranger
        .request(Method::POST, "/sign-in")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::USER_AGENT, user_agent)
        .header("sec-fetch-site", "same-origin")
        .body(format!("token={}", hub.admin));
    stranger.send(request).await.status
}

async fn assert_pages_are_harmless(writing: Writing) {
    let (hub, _agent) = hostile_hub().await;
    let written = write_fields(&hub, writing).await;
    assert_eq!(
        sign_in_with_agent(&hub, "wrote-agent-\"'><script>alert(1)</script>").await,
        303
    );
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let mut pages = crawl_pages(&admin).await;
    for (field, address) in [
        ("reason", "/tenants/closed"),
        ("jobname", "/tenants/acme/cron/named"),
        ("jobprompt", "/tenants/acme/cron/prompted"),
        ("pause", "/tenants/acme/cron/stored"),
        ("pause", "/tenants/acme/cron"),
        ("asked", "/tenants/acme/conversations/talk"),
        ("asked", "/tenants/acme/chat?session=talk"),
        ("asked", "/tenants/acme/conversations?search=wrote"),
        ("file", "/tenants/acme/files?path=note.md"),
        ("file", "/tenants/acme/files?path=note.md&edit=1"),
        ("folder", "/tenants/acme/files?path=deep/inner.txt"),
        ("shared", "/groups/team/files?tenant=acme&path=note.md"),
    ] {
        if written.contains(field) {
            pages.push(admin.get(address).await);
        }
    }
    let mut missing = written;
    missing.insert("agent");
    for page in pages.iter().filter(|page| page.is_html()) {
        assert_eq!(page.status, 200, "{}", page.address);
        let most = match page.address.as_str() {
            "/tenants/acme/manifest" => MAX_MANIFEST_PAGE,
            _ => MAX_PAGE,
        };
        assert_harmless(page, most);
        missing.retain(|field| !page.shows(&mark(field)));
    }
    // What is not shown was not tried.
    assert_eq!(missing, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn markup_in_any_field_is_text_on_every_page() {
    assert_pages_are_harmless(Writing::Short).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_kilobytes_in_any_field_leave_every_page_readable() {
    assert_pages_are_harmless(Writing::Long).await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "each page that shows what it says")]
async fn what_a_server_says_about_itself_and_its_tools_is_text() {
    for writing in [Writing::Short, Writing::Long] {
        let (hub, agent) = hostile_hub().await;
        let config = "mcp_servers:\n  demo:\n    command: server\n";
        fs::write(hub.home("acme").join("config.yaml"), config).unwrap();
        hub.post("/v1/tenants/acme/agent/start", &json!({})).await;
        hub.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
            .await;
        let admin = ConsoleBrowser::as_admin(&hub).await;
        let text = |field: &str| writing.text(field);
        let schema = json!({"type": "object", "description": text("schema"),
        "properties": {
            "city": {"type": "string", "title": text("title"), "description": text("what"),
                "default": text("default")},
            "unit": {"enum": [text("choice"), "b"]},
            (text("property")): {"type": "string"},
        }});
        let listed = |is_changed: bool| {
            let mut hostile = tool("weather", &text("description"), schema.clone());
            hostile.title = Some(text("tooltitle"));
            if is_changed {
                hostile.pin = "changed".into();
                hostile.withheld = true;
                hostile.changes = vec![ToolChange {
                    place: text("place"),
                    before: Some(json!(text("before"))),
                    after: Some(json!(text("after"))),
                }];
            }
            tools(vec![hostile])
        };
        let error = text("error");
        let servers = AgentReply::Servers(vec![state("demo", "failed", Some(&error))]);
        agent.reply_with(servers.clone());
        let mut shown = vec![admin.get("/tenants/acme/mcp").await];
        agent.reply_with(listed(true));
        shown.push(admin.get("/tenants/acme/mcp/demo?offer=1").await);
        let form = "/tenants/acme/mcp/demo?tool=weather";
        agent.reply_with(listed(true));
        shown.push(admin.get(form).await);
        agent.reply_with(listed(false));
        agent.reply_with(AgentReply::Called(ToolCallReport {
            server: "demo".into(),
            tool: "weather".into(),
            is_error: true,
            text: text("said"),
            structured_content: Some(json!({ (text("member")): text("value") })),
            media: Vec::new(),
            truncated: false,
            elapsed_ms: 1,
        }));
        let call = [("action", "call"), ("arg.city", "Ulm")];
        shown.push(admin.submit(form, &call).await);
        let more = AgentReply::Tools(ServerToolList {
            server: "demo".into(),
            tools: Vec::new(),
            resources: vec![ServerResource {
                uri: text("uri"),
                name: text("resource"),
                description: Some(text("about")),
                mime_type: Some(text("mime")),
            }],
            prompts: vec![ServerPrompt {
                name: text("prompt"),
                description: Some(text("prompting")),
                arguments: vec![text("argument")],
            }],
            warnings: vec![text("warning")],
        });
        agent.reply_with(more);
        shown.push(admin.get("/tenants/acme/mcp/demo?offer=1").await);
        let report = ServerTestReport {
            server: "demo".into(),
            ok: false,
            status: text("status"),
            error: Some(text("refusal")),
            transport: "stdio".into(),
            era: Some(text("era")),
            protocol_version: Some(text("protocol")),
            server_name: Some(text("itself")),
            server_version: Some(text("release")),
            instructions: Some(text("instructions")),
            tools: vec![text("listed")],
            resources: 1,
            prompts: 1,
            warnings: vec![text("oddity")],
            elapsed_ms: 1,
        };
        agent.reply_with(AgentReply::ServerTested(Box::new(report)));
        let fields = [("action", "test")];
        shown.push(admin.submit("/tenants/acme/mcp/demo", &fields).await);
        let mut missing = BTreeSet::from([
            "uri",
            "resource",
            "about",
            "prompt",
            "warning",
            "refusal",
            "itself",
            "release",
            "protocol",
            "instructions",
            "oddity",
            "error",
            "description",
            "title",
            "what",
            "choice",
            "property",
            "before",
            "after",
            "said",
            "member",
            "value",
        ]);
        for page in &shown {
            assert_eq!(page.status, 200, "{}", page.address);
            assert_harmless(page, MAX_TOOL_PAGE);
            missing.retain(|field| !page.shows(&mark(field)));
        }
        assert_eq!(missing, BTreeSet::new());
    }
}
