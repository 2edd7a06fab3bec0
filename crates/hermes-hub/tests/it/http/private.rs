//! The private routes: for tenants' own agents and their groups only.

use std::time::{Duration, Instant};

use hermes_config::{Secret, bot_lock::BotId};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    net::{UnixListener, UnixStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::test_hub::{HttpAnswer, TIMEOUT, TestHub};

struct PrivateApiFixture {
    site: TestHub,
    client: Client,
    /// Writes `division1`, reads `readers`.
    acme: String,
    /// Belongs to no group.
    loner: String,
    _server: JoinSet<()>,
}

impl PrivateApiFixture {
    async fn new() -> Self {
        let site = TestHub::new().await;
        for group in ["division1", "readers", "others"] {
            site.post("/v1/groups", &json!({"id": group}))
                .await
                .expect(201);
        }
        let groups = json!([
            {"id": "division1", "access": "write"}, {"id": "readers", "access": "read"},
        ]);
        let acme = site.tenant(json!({"id": "acme", "groups": groups})).await;
        let loner = site.tenant(json!({"id": "loner"})).await;
        let key = |tenant: &Value| tenant["runtimeKey"].as_str().unwrap().to_owned();
        let socket = site.directory.path().join("private.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut server = JoinSet::new();
        let hub = site.hub.clone();
        server.spawn(async move {
            hub.serve_private(listener, CancellationToken::new())
                .await
                .unwrap();
        });
        Self {
            client: Client::builder()
                .unix_socket(socket)
                .no_proxy()
                .build()
                .unwrap(),
            acme: key(&acme),
            loner: key(&loner),
            _server: server,
            site,
        }
    }

    async fn send_request(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> HttpAnswer {
        let mut request = self.client.request(method, format!("http://hub{path}"));
        if !key.is_empty() {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        self.site.send(request).await
    }

    async fn write(&self, key: &str, group: &str, path: &str) -> HttpAnswer {
        let route = format!("/internal/v1/shares/{group}/files/content");
        let body = json!({"path": path, "content": "from inside"});
        self.send_request(key, Method::PUT, &route, Some(body))
            .await
    }
}

#[tokio::test]
async fn an_agent_reaches_the_shares_of_its_groups_and_no_others() {
    let inside = PrivateApiFixture::new().await;
    let listed = inside
        .send_request(&inside.acme, Method::GET, "/internal/v1/shares", None)
        .await
        .expect(200);
    let ids: Vec<_> = listed["shares"]
        .as_array()
        .unwrap()
        .iter()
        .map(|share| &share["groupId"])
        .collect();
    assert_eq!(ids, ["division1", "readers"]);
    inside
        .write(&inside.acme, "division1", "notes/a.md")
        .await
        .expect(201);
    // Both sides see the same file.
    let outside = inside
        .site
        .get("/v1/tenants/acme/shares/division1/files/content?path=notes/a.md")
        .await
        .expect(200);
    assert_eq!(outside["content"], "from inside");
    let entries = inside.site.get("/v1/audit?tenant=acme").await.expect(200);
    let written = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["action"] == "write_share_file")
        .unwrap_or_else(|| panic!("{entries}"))
        .clone();
    assert_eq!(
        (&written["via"], &written["actor"]),
        (&json!("agent"), &json!("tenant:acme"))
    );

    for (key, group, path, status) in [
        (&inside.acme, "readers", "a.md", 403),
        (&inside.acme, "others", "a.md", 404),
        (&inside.acme, "missing", "a.md", 404),
        (&inside.loner, "division1", "notes/a.md", 404),
        (&inside.acme, "division1", "../others/a.md", 400),
        (&inside.acme, "division1", "/etc/passwd", 400),
    ] {
        let answer = inside.write(key, group, path).await;
        assert_eq!(answer.status, status, "{group}/{path}: {}", answer.text);
    }
    let access = json!({"status": "blocked"});
    inside
        .site
        .put("/v1/tenants/acme/access", &access)
        .await
        .expect(200);
    let blocked = inside.write(&inside.acme, "division1", "b.md").await;
    assert_eq!(blocked.status, 403, "{}", blocked.text);
}

#[tokio::test]
async fn each_kind_of_key_is_refused_where_the_other_belongs() {
    let inside = PrivateApiFixture::new().await;
    let shares = "/internal/v1/shares";
    for (key, status) in [
        (inside.site.admin.as_str(), 403),
        ("", 401),
        ("hub_rt_wrong", 401),
        (&inside.loner, 200),
    ] {
        let answer = inside.send_request(key, Method::GET, shares, None).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    // No management routes here, and no private routes on the management listener.
    for path in ["/v1/tenants", "/mcp", "/internal/v1/tenants", "/metrics"] {
        let answer = inside
            .send_request(&inside.acme, Method::GET, path, None)
            .await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
    }
    for (key, status) in [(&inside.site.admin, 404), (&inside.acme, 403)] {
        let request = inside.site.request(key, Method::GET, shares);
        let answer = inside.site.send(request).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let rotated = inside
        .site
        .post("/v1/tenants/acme/runtime-key/rotate", &json!({}))
        .await
        .expect(200);
    let old = inside
        .send_request(&inside.acme, Method::GET, shares, None)
        .await;
    assert_eq!(old.status, 401, "{}", old.text);
    let new = rotated["runtimeKey"].as_str().unwrap();
    let new = inside.send_request(new, Method::GET, shares, None).await;
    assert_eq!(new.status, 200, "{}", new.text);
}

#[tokio::test]
async fn wrong_keys_are_written_down_but_do_not_fill_the_log() {
    let inside = PrivateApiFixture::new().await;
    for _ in 0..100 {
        let answer = inside.send_request("hub_rt_wrong", Method::GET, "/internal/v1/shares", None);
        assert_eq!(answer.await.status, 401);
    }
    inside.site.hub.close().await;
    let actions = async |action: &str| {
        let query = hermes_hub::storage::state::AuditQuery {
            action: Some(action.to_owned()),
            ..hermes_hub::storage::state::AuditQuery::default()
        };
        let page = hermes_hub::storage::state::Page::first(500);
        let found = inside.site.hub.state().audit(&query, &page).await;
        found.unwrap().items
    };
    let written = actions("runtime_key_refused").await.len();
    assert!((20..40).contains(&written), "{written}");
    let left_out = actions("refusals_left_out").await;
    let expected = format!("{} from the private socket", 100 - written);
    assert_eq!(left_out.len(), 1);
    assert_eq!(left_out[0].target.as_deref(), Some(expected.as_str()));
}

#[tokio::test]
async fn processes_that_ask_for_nothing_do_not_use_up_the_private_socket() {
    let inside = PrivateApiFixture::new().await;
    let socket = inside.site.directory.path().join("private.sock");
    let begun = Instant::now();
    // More than one process may have at once.
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(UnixStream::connect(&socket).await.unwrap());
    }
    let reply = inside
        .send_request(&inside.acme, Method::GET, "/internal/v1/shares", None)
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let mut byte = [0];
    let closed = tokio::time::timeout(TIMEOUT, idle[0].read(&mut byte)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
    // Sooner than a silent connection is closed that nobody needs the place of.
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(15), "{taken:?}");
}

#[tokio::test]
async fn a_bot_is_for_the_agent_that_asked_first_until_it_lets_go() {
    let inside = PrivateApiFixture::new().await;
    let token = format!("1:{}", hermes_config::random::random_digits(16));
    let bot = BotId::new("https://platform.test", &Secret::new(token));
    let path = format!("/internal/v1/bots/{bot}");
    let ask = async |key: &str, method: Method| {
        let reply = inside.send_request(key, method, &path, None).await;
        reply.status
    };
    assert_eq!(ask(&inside.acme, Method::POST).await, 204);
    assert_eq!(ask(&inside.acme, Method::POST).await, 204);
    let refused = inside
        .send_request(&inside.loner, Method::POST, &path, None)
        .await
        .expect(409);
    assert_eq!(refused["reason"], "bot_in_use", "{refused}");
    assert!(!refused.to_string().contains("acme"), "{refused}");
    // Who has not got it cannot give it away.
    assert_eq!(ask(&inside.loner, Method::DELETE).await, 204);
    assert_eq!(ask(&inside.loner, Method::POST).await, 409);
    assert_eq!(ask(&inside.acme, Method::DELETE).await, 204);
    assert_eq!(ask(&inside.loner, Method::POST).await, 204);
    // The end of its agent is the end of its claims.
    inside
        .site
        .post("/v1/tenants/loner/agent/start", &json!({}))
        .await
        .expect(202);
    let agent = "/v1/tenants/loner/agent";
    inside
        .site
        .wait_until(agent, |agent| agent["state"] == "idle")
        .await;
    inside
        .site
        .post(&format!("{agent}/stop"), &json!({}))
        .await
        .expect(202);
    inside
        .site
        .wait_until(agent, |agent| agent["state"] == "stopped")
        .await;
    assert_eq!(ask(&inside.acme, Method::POST).await, 204);

    assert_eq!(ask("", Method::POST).await, 401);
    for wrong in ["x", "../shares", "0123"] {
        let path = format!("/internal/v1/bots/{wrong}");
        let reply = inside.send_request(&inside.acme, Method::POST, &path, None);
        assert!([400, 404, 405].contains(&reply.await.status), "{wrong}");
    }
}

#[tokio::test]
async fn runs_of_chats_are_counted_once_and_refused_above_the_limit_in_words_for_a_chat() {
    let inside = PrivateApiFixture::new().await;
    let run = |digit: char| {
        let digits: String = std::iter::repeat_n(digit, 32).collect();
        format!("run_{digits}")
    };
    let route = |run: &str| format!("/internal/v1/chat-runs/{run}");
    let ask = async |key: &str, method: Method, path: &str, body: Option<Value>| {
        inside.send_request(key, method, path, body).await
    };
    inside
        .site
        .patch("/v1/tenants/acme/limits", &json!({"runsPerDay": 1}))
        .await
        .expect(200);
    let (first, second) = (run('1'), run('2'));
    // The same run, however often it is begun.
    for _ in 0..2 {
        let begun = ask(&inside.acme, Method::POST, &route(&first), None).await;
        assert_eq!(begun.status, 204, "{}", begun.text);
    }
    let refused = ask(&inside.acme, Method::POST, &route(&second), None)
        .await
        .expect(429);
    assert_eq!(refused["reason"], "daily_limit", "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("1 answers a day"), "{message}");
    assert!(!message.contains("runsPerDay"), "{message}");
    // A chat's run is not one of the API.
    let run = inside
        .site
        .post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await;
    assert_eq!(run.status, 429, "{}", run.text);

    let open = "/internal/v1/chat-runs";
    let listed = ask(&inside.acme, Method::GET, open, None).await.expect(200);
    assert_eq!(listed["runs"], json!([first]));
    let others = ask(&inside.loner, Method::GET, open, None).await;
    assert_eq!(others.expect(200)["runs"], json!([]));
    let used = json!({
        "model": "m", "toolCalls": 2, "inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cachedTokens": 4,
    });
    // Neither by another tenant nor twice.
    for key in [&inside.loner, &inside.acme, &inside.acme] {
        let told = ask(key, Method::PUT, &route(&first), Some(used.clone())).await;
        assert_eq!(told.status, 204, "{}", told.text);
    }
    let listed = ask(&inside.acme, Method::GET, open, None).await.expect(200);
    assert_eq!(listed["runs"], json!([]));
    let usage = inside.site.get("/v1/usage").await.expect(200);
    let row = &usage["usage"][0];
    assert_eq!((&row["key"], &row["runs"]), (&json!("acme"), &json!(1)));
    assert_eq!(row["toolCalls"], 2);
    assert_eq!(
        (
            &row["inputTokens"],
            &row["outputTokens"],
            &row["cachedTokens"]
        ),
        (&json!(10), &json!(5), &json!(4))
    );
    assert_eq!(usage["usage"].as_array().unwrap().len(), 1, "{usage}");
    let limits = inside.site.get("/v1/tenants/acme/limits").await.expect(200);
    assert_eq!(
        (&limits["runsToday"], &limits["tokensToday"]),
        (&json!(1), &json!(15))
    );

    for (path, body) in [
        (route("run_1"), Some(used.clone())),
        (route(&second), Some(json!({"tokens": 1}))),
    ] {
        let wrong = ask(&inside.acme, Method::PUT, &path, body).await;
        assert_eq!(wrong.status, 400, "{}", wrong.text);
    }
}

#[tokio::test]
async fn chats_of_a_blocked_tenant_are_told_what_its_operator_says() {
    let inside = PrivateApiFixture::new().await;
    let access =
        json!({"status": "blocked", "message": "Paused until Monday.", "reason": "invoice 88"});
    inside
        .site
        .put("/v1/tenants/acme/access", &access)
        .await
        .expect(200);
    let path = format!("/internal/v1/chat-runs/run_{}", "0".repeat(32));
    let refused = inside
        .send_request(&inside.acme, Method::POST, &path, None)
        .await
        .expect(403);
    assert_eq!(refused["message"], "Paused until Monday.");
    assert!(!refused.to_string().contains("invoice"), "{refused}");
}
