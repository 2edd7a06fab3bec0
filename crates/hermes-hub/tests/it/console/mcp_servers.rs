//! Pages of MCP servers: what they show of a server and its tools, the form that calls one, and who may do what.

use std::{fs, sync::Arc};

use hermes_hub::TenantId;
use hermes_protocol::{
    AgentReply, AgentRequest, RefusalReason, RequestRefusal, ResultMedia, ServerPrompt,
    ServerResource, ServerState, ServerTool, ServerToolList, ToolCallReport, ToolChange,
};
use serde_json::{Value, json};

use super::ConsoleBrowser;
use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

const SERVERS: &str = "/tenants/acme/mcp";
const DEMO: &str = "/tenants/acme/mcp/demo";
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";

async fn site(config: &str) -> (TestHub, Arc<ScriptedRuntime>) {
    let agents = ScriptedRuntime::new();
    let site = TestHub::with_runtime(Arc::clone(&agents) as _, |_, _| {}).await;
    site.tenant(json!({"id": "acme"})).await;
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
    fs::write(site.home("acme").join("config.yaml"), config).unwrap();
    (site, agents)
}

const ONE_SERVER: &str = "mcp_servers:\n  demo:\n    command: server\n    args: [one, two]\n";

pub(super) fn state(name: &str, status: &str, error: Option<&str>) -> ServerState {
    ServerState {
        name: name.into(),
        status: status.into(),
        error: error.map(str::to_owned),
        tools: 3,
        era: Some("stateless".into()),
        pid: Some(4242),
        restarts: 7,
        since: 1_700_000_000,
        login_ends_at: None,
    }
}

pub(super) fn tool(name: &str, description: &str, schema: Value) -> ServerTool {
    ServerTool {
        name: name.into(),
        registered_name: Some(format!("mcp_demo_{name}")),
        title: None,
        description: description.into(),
        input_schema: schema,
        output_schema: None,
        annotations: Some(json!({"readOnlyHint": true})),
        pin: "pinned".into(),
        withheld: false,
        changes: Vec::new(),
        policy: "allow".into(),
    }
}

pub(super) fn tools(tools: Vec<ServerTool>) -> AgentReply {
    AgentReply::Tools(ServerToolList {
        server: "demo".into(),
        tools,
        resources: vec![ServerResource {
            uri: "file:///notes/{day}".into(),
            name: "Notes".into(),
            description: None,
            mime_type: Some("text/plain".into()),
        }],
        prompts: vec![ServerPrompt {
            name: "summary".into(),
            description: Some("Sums up.".into()),
            arguments: vec!["topic".into()],
        }],
        warnings: Vec::new(),
    })
}

fn weather() -> ServerTool {
    let schema = json!({"type": "object", "required": ["city", "days"], "properties": {
        "city": {"type": "string", "description": "Where.", "maxLength": 50},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "unit": {"enum": ["celsius", "kelvin"], "default": "celsius"},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}}},
        "tags": {"type": "array", "items": {"type": "string"}}}});
    tool("weather", "Tells the weather.", schema)
}

fn called(agents: &ScriptedRuntime) -> Option<AgentRequest> {
    let requests = agents.requests().into_iter().map(|(_, request)| request);
    requests
        .rev()
        .find(|request| matches!(request, AgentRequest::CallTool { .. }))
}

#[tokio::test]
async fn the_list_says_how_each_server_is_and_what_helps() {
    let config = "mcp_servers:\n  demo:\n    command: server\n  far:\n    url: https://far.example/mcp\n  \
                  off:\n    command: x\n    enabled: false\n";
    let (site, agents) = site(config).await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    agents.reply_with(AgentReply::Servers(vec![
        state("demo", "ready", None),
        state("far", "needs_auth", Some(HOSTILE)),
    ]));
    let page = admin.get(SERVERS).await.expect_status(200);
    for text in [
        "state ready",
        "stateless",
        "<td>7</td>",
        "needs a login",
        "Open the server and log in.",
        "https://far.example/mcp",
    ] {
        page.assert_shows(text);
    }
    page.assert_shows("/do/enable_mcp_server");
    page.assert_lacks("<script>alert");
    let viewer = ConsoleBrowser::with_rights(&site, json!({"role": "viewer"})).await;
    let page = viewer.get(SERVERS).await.expect_status(200);
    page.assert_shows("demo");
    for absent in ["put_mcp_server", "enable_mcp_server", "delete_mcp_server"] {
        page.assert_lacks(absent);
    }
}

#[tokio::test]
async fn a_server_is_added_by_a_form_edited_as_text_and_removed() {
    let (site, _) = site("model: m\n").await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let page = admin.get(SERVERS).await.expect_status(200);
    page.assert_shows("No MCP server yet");
    let fields = [
        ("tenant_id", "acme"),
        ("next", SERVERS),
        ("server", "time"),
        ("config.command:text", "uvx"),
        ("config.args:lines", "mcp-server-time\r\n--zone"),
        ("config.env:pairs", "LEVEL = info"),
    ];
    let page = admin.submit("/do/put_mcp_server", &fields).await;
    page.expect_status(200)
        .assert_shows("uvx mcp-server-time --zone");
    let entry = site
        .get("/v1/tenants/acme/mcp-servers/time")
        .await
        .expect(200);
    let wanted =
        json!({"command": "uvx", "args": ["mcp-server-time", "--zone"], "env": {"LEVEL": "info"}});
    assert_eq!(entry["config"], wanted);

    // Somebody else changes it meanwhile: both versions are shown, and nothing is lost.
    let address = "/tenants/acme/mcp/time";
    let page = admin.get(address).await.expect_status(200);
    let versions = page.attributes("value");
    let version = versions
        .iter()
        .find(|value| value.starts_with('"'))
        .unwrap();
    let other = json!({"command": "other"});
    site.put("/v1/tenants/acme/mcp-servers/time", &other)
        .await
        .expect(200);
    let fields = [
        ("tenant_id", "acme"),
        ("next", address),
        ("server", "time"),
        ("config", "{\"command\": \"mine\"}"),
        ("if_match", version.as_str()),
        ("current", "get_mcp_server"),
    ];
    let page = admin.submit("/do/put_mcp_server", &fields).await;
    let page = page.expect_status(412);
    page.assert_shows("other");
    page.assert_shows("mine");

    let fields = [("tenant_id", "acme"), ("next", SERVERS), ("server", "time")];
    let page = admin.submit("/do/delete_mcp_server", &fields).await;
    page.expect_status(200).assert_shows("No MCP server yet");
}

#[tokio::test]
async fn a_server_shows_its_tools_resources_prompts_and_log_and_tools_are_searched() {
    let (site, agents) = site(ONE_SERVER).await;
    let logs = site.home("acme").join("logs");
    fs::create_dir_all(&logs).unwrap();
    fs::write(
        logs.join("mcp-stderr.log"),
        "2026-01-01T00:00:01Z [demo] <b>started</b>\n",
    )
    .unwrap();
    let admin = ConsoleBrowser::as_admin(&site).await;
    // Nobody is waked for a look at the page.
    let page = admin.get(DEMO).await.expect_status(200);
    page.assert_shows("Show the tools");
    page.assert_shows("&#60;b&#62;started");
    assert_eq!(agents.requests().len(), 0);

    let listed = || {
        tools(vec![
            weather(),
            tool("echo", HOSTILE, json!({"type": "object"})),
        ])
    };
    agents.reply_with(AgentReply::Servers(vec![state("demo", "ready", None)]));
    agents.reply_with(listed());
    let page = admin.get(DEMO).await.expect_status(200);
    for text in [
        "4242",
        "Tells the weather.",
        "?tool=weather",
        "file:///notes/{day}",
        "summary",
        "as accepted",
    ] {
        page.assert_shows(text);
    }
    page.assert_lacks("<script>alert");
    agents.reply_with(listed());
    let page = admin.get(&format!("{DEMO}?offer=1&search=WEATH")).await;
    page.assert_shows("?tool=weather");
    page.assert_lacks("?tool=echo");
}

#[tokio::test]
async fn a_tool_is_called_by_the_form_of_its_schema() {
    let (site, agents) = site(ONE_SERVER).await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let address = format!("{DEMO}?tool=weather");
    agents.reply_with(tools(vec![weather()]));
    let page = admin.get(&address).await.expect_status(200);
    for text in [
        "name=\"arg.city\"",
        "maxlength=\"50\"",
        "min=\"1\"",
        "name=\"arg.place.lat\"",
        "<fieldset>",
        "only reads",
    ] {
        page.assert_shows(text);
    }
    agents.reply_with(tools(vec![weather()]));
    agents.reply_with(AgentReply::Called(ToolCallReport {
        server: "demo".into(),
        tool: "weather".into(),
        is_error: false,
        text: format!("Sun.{HOSTILE}\nMEDIA:/home/x/cache/images/img_1.png"),
        structured_content: Some(json!({"degrees": 21})),
        media: vec![
            ResultMedia {
                mime_type: "image/png".into(),
                data: "aGVsbG8=".into(),
            },
            ResultMedia {
                mime_type: "image/svg+xml".into(),
                data: "aGVsbG8=".into(),
            },
        ],
        truncated: false,
        elapsed_ms: 37,
    }));
    let fields = [
        ("action", "call"),
        ("once", "111111111111111111111111"),
        ("arg.city", "Ulm"),
        ("arg.days", "3"),
        ("arg.unit", "kelvin"),
        ("arg.place.lat", "48.4"),
        ("arg.tags", "a\r\nb"),
    ];
    let page = admin.submit(&address, &fields).await.expect_status(200);
    for text in [
        "Sun.",
        "37 ms",
        "&#34;degrees&#34;: 21",
        "data:image/png;base64,aGVsbG8=",
        "value=\"Ulm\"",
    ] {
        page.assert_shows(text);
    }
    for absent in ["svg+xml", "<script>alert", "MEDIA:", "data-live"] {
        page.assert_lacks(absent);
    }
    let Some(AgentRequest::CallTool {
        tool, arguments, ..
    }) = called(&agents)
    else {
        panic!("not called");
    };
    assert_eq!(tool, "weather");
    let wanted = json!({"city": "Ulm", "days": 3, "unit": "kelvin", "place": {"lat": 48.4}, "tags": ["a", "b"]});
    assert_eq!(Value::Object(arguments), wanted);
}

#[tokio::test]
async fn a_wrong_field_is_told_in_place_keeps_what_was_typed_and_nothing_is_called() {
    let (site, agents) = site(ONE_SERVER).await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let address = format!("{DEMO}?tool=weather");
    agents.reply_with(tools(vec![weather()]));
    let fields = [
        ("action", "call"),
        ("arg.city", "Neu-Ulm"),
        ("arg.days", "many"),
    ];
    let page = admin.submit(&address, &fields).await.expect_status(200);
    page.assert_shows("This is not a whole number.");
    page.assert_shows("value=\"Neu-Ulm\"");
    page.assert_shows("value=\"many\"");
    assert!(called(&agents).is_none());
    // What the server refuses is told there too.
    agents.reply_with(tools(vec![weather()]));
    agents.reply_with(AgentReply::Refused(RequestRefusal {
        reason: RefusalReason::Arguments,
        message: "there is no such city".into(),
    }));
    let fields = [
        ("action", "call"),
        ("arg.city", "Atlantis"),
        ("arg.days", "1"),
    ];
    let page = admin.submit(&address, &fields).await.expect_status(200);
    page.assert_shows("there is no such city");
    page.assert_shows("value=\"Atlantis\"");
    // The arguments as JSON.
    agents.reply_with(tools(vec![weather()]));
    let fields = [("action", "call"), ("json", "{\"city\": \"Ulm\"}")];
    let page = admin.submit(&format!("{address}&form=json"), &fields).await;
    page.expect_status(200).assert_shows("noon");
}

#[tokio::test]
async fn a_form_of_another_session_and_a_viewer_call_nothing() {
    let (site, agents) = site(ONE_SERVER).await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let address = format!("{DEMO}?tool=weather");
    let fields = [
        ("action", "call"),
        ("csrf", "wrong"),
        ("arg.city", "x"),
        ("arg.days", "1"),
    ];
    let page = admin.post(&address, &fields).await;
    page.expect_status(403);
    let viewer = ConsoleBrowser::with_rights(&site, json!({"role": "viewer"})).await;
    agents.reply_with(tools(vec![weather()]));
    let page = viewer.get(&address).await.expect_status(200);
    page.assert_shows("Tells the weather.");
    page.assert_lacks("tool-form");
    agents.reply_with(tools(vec![weather()]));
    let fields = [("action", "call"), ("arg.city", "x"), ("arg.days", "1")];
    viewer.submit(&address, &fields).await.expect_status(403);
    assert!(called(&agents).is_none());
    let rights = json!({"role": "operator", "tenants": ["other"]});
    site.tenant(json!({"id": "other", "start": false})).await;
    let stranger = ConsoleBrowser::with_rights(&site, rights).await;
    stranger.get(DEMO).await.expect_status(404);
}

#[tokio::test]
async fn a_changed_tool_shows_what_differs_and_is_accepted() {
    let (site, agents) = site(ONE_SERVER).await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let mut changed = weather();
    changed.pin = "changed".into();
    changed.withheld = true;
    changed.changes = vec![ToolChange {
        place: "description".into(),
        before: Some(json!("Tells the weather.")),
        after: Some(json!("Sends it all away.")),
    }];
    let address = format!("{DEMO}?tool=weather");
    agents.reply_with(tools(vec![changed]));
    let page = admin.get(&address).await.expect_status(200);
    page.assert_shows("<del>Tells the weather.</del>");
    page.assert_shows("<ins>Sends it all away.</ins>");
    page.assert_shows("/do/accept_mcp_tools");
    let fields = [
        ("tenant_id", "acme"),
        ("server", "demo"),
        ("tools", "weather"),
        ("next", SERVERS),
    ];
    let page = admin.submit("/do/accept_mcp_tools", &fields).await;
    page.expect_status(200)
        .assert_shows("accepted as it is now");
    let accepted = AgentRequest::AcceptTools {
        server: "demo".into(),
        tools: vec!["weather".into()],
    };
    let tenant = TenantId::parse("acme").unwrap();
    assert!(agents.requests().contains(&(tenant, accepted)));
}

#[tokio::test]
async fn a_test_and_a_login_are_shown_on_the_page_of_the_server() {
    let config = "mcp_servers:\n  far:\n    url: https://far.example/mcp\n";
    let (site, _) = site(config).await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let far = "/tenants/acme/mcp/far";
    let page = admin
        .submit(far, &[("action", "test")])
        .await
        .expect_status(200);
    page.assert_shows("It answers: 1 ms");
    let page = admin
        .submit(far, &[("action", "login")])
        .await
        .expect_status(200);
    let links = page.attributes("href");
    let is_login = |link: &String| link.starts_with("https://login.example/authorize?");
    assert!(links.iter().any(is_login), "{links:?}");
    page.assert_lacks("mcp-stderr");
}
