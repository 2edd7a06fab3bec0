//! Validation of requests: bodies, member names, versions and idempotency keys.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    mcp_client::{self, McpEra},
    test_hub::TestHub,
};

async fn post_raw(site: &TestHub, path: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let request = site
        .request(&site.admin, Method::POST, path)
        .header("content-type", "application/json");
    let request = request
        .header("accept", "application/json, text/event-stream")
        .body(body);
    let answer = site.send(request).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn only_strict_json_is_taken() {
    let site = TestHub::new().await;
    let deep = format!("{{\"labels\": {}1{}}}", "[".repeat(70), "]".repeat(70));
    let bodies: [&[u8]; 7] = [
        b"{",
        b"[]",
        b"1",
        b"{\"id\": \"a\", \"id\": \"b\"}",
        b"{\"id\": \"\xff\"}",
        deep.as_bytes(),
        b"{} {}",
    ];
    for path in ["/v1/tenants", "/mcp"] {
        for body in bodies {
            let (status, problem) = post_raw(&site, path, body.to_vec()).await;
            assert_eq!(status, 400, "{path}: {}", String::from_utf8_lossy(body));
            assert_eq!(problem["code"], "invalid_argument");
        }
    }
    let (status, _) = post_raw(
        &site,
        "/mcp",
        r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#,
    )
    .await;
    assert_eq!(status, 400);
    let request = site
        .request(&site.admin, Method::POST, "/v1/tenants")
        .header("content-type", "text/plain")
        .body("{}");
    assert_eq!(site.send(request).await.status, 415);
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused() {
    let site = TestHub::with_settings(|settings, _| settings.limits.body_bytes = 1000).await;
    for path in ["/v1/tenants", "/mcp"] {
        let (status, problem) = post_raw(
            &site,
            path,
            json!({"displayName": "x".repeat(2000)}).to_string(),
        )
        .await;
        assert_eq!(
            (status, &problem["code"]),
            (413, &json!("payload_too_large")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn unknown_members_are_refused_with_the_nearest_name() {
    let site = TestHub::new().await.with_examples().await;
    let told = |problem: Value| problem["message"].as_str().unwrap().to_owned();
    let body = site
        .post("/v1/tenants", &json!({"displayname": "x"}))
        .await
        .expect(400);
    assert!(told(body).contains("did you mean `displayName`?"));
    let query = site
        .get("/v1/tenants/tenant_123/shares/division1/grep?pattern=a&ignore_case=true")
        .await
        .expect(400);
    assert!(told(query).contains("did you mean `ignoreCase`?"));
    let argument = mcp_client::call_for_problem(&site, &site.admin, &McpEra::Stateless, "grep_share",
        &json!({"tenant_id": "tenant_123", "group_id": "division1", "pattern": "a", "ignoreCase": true})).await;
    assert!(told(argument).contains("did you mean `ignore_case`?"));
    let kind = site.get("/v1/tenants?limit=many").await.expect(400);
    assert_eq!(kind["details"][0]["field"], "limit");
    let missing = site
        .get("/v1/tenants/tenant_123/shares/division1/stat")
        .await
        .expect(400);
    assert!(told(missing).contains("`path` is required"));
    let nested = site
        .post("/v1/tenants", &json!({"agent": {"modle": "x"}}))
        .await
        .expect(400);
    assert!(told(nested).contains("modle"));
    let flavor = site
        .post("/v1/tenants", &json!({"flavor": "huge"}))
        .await
        .expect(400);
    assert!(told(flavor).contains("`standard`"));
}

#[tokio::test]
async fn a_request_with_the_same_key_happens_once() {
    let site = TestHub::new().await;
    let create = |key: &str, body: Value| {
        let request = site
            .request(&site.admin, Method::POST, "/v1/tenants")
            .header("content-type", "application/json");
        site.send(
            request
                .header("idempotency-key", key.to_owned())
                .body(body.to_string()),
        )
    };
    let first = create("k1", json!({"displayName": "One"})).await;
    assert_eq!(first.status, 201);
    let again = create("k1", json!({"displayName": "One"})).await;
    assert_eq!((again.status, &again.text), (201, &first.text));
    assert_eq!(again.header("idempotent-replay"), "true");
    let other = create("k1", json!({"displayName": "Two"}))
        .await
        .expect(409);
    assert_eq!(
        (&other["code"], &other["reason"]),
        (&json!("failed_precondition"), &json!("idempotency_key"))
    );
    create(&"k".repeat(129), json!({})).await.expect(400);
    // One that failed may be sent again.
    create("k2", json!({"flavor": "huge"})).await.expect(400);
    create("k2", json!({"flavor": "standard"}))
        .await
        .expect(201);
    let tenants = site.get("/v1/tenants").await.expect(200);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 2);
    let params = json!({"name": "create_tenant", "arguments": {"displayName": "M"}, "_meta": {"hermes.hub/idempotencyKey": "m1"}});
    let one = mcp_client::send_request(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "tools/call",
        params.clone(),
    )
    .await;
    let other =
        mcp_client::send_request(&site, &site.admin, &McpEra::Stateless, "tools/call", params)
            .await;
    assert_eq!(one["result"]["content"], other["result"]["content"]);
}

#[tokio::test]
async fn versions_guard_writes_and_spare_reads() {
    let site = TestHub::new().await.with_examples().await;
    let share = "/v1/tenants/tenant_123/shares/division1";
    let writes = [
        (
            "/v1/tenants/tenant_123".to_owned(),
            "/v1/tenants/tenant_123".to_owned(),
            "PATCH",
            json!({"displayName": "X"}),
        ),
        (
            "/v1/groups/division1".into(),
            "/v1/groups/division1".into(),
            "PATCH",
            json!({"displayName": "X"}),
        ),
        (
            "/v1/tenants/tenant_123/agent-cron/job_123".into(),
            "/v1/tenants/tenant_123/agent-cron/job_123".into(),
            "PATCH",
            json!({"prompt": "X"}),
        ),
        (
            "/v1/agent-policy".into(),
            "/v1/agent-policy".into(),
            "PUT",
            json!({"version": 1}),
        ),
        (
            "/v1/config/tenant-impact".into(),
            "/v1/config/tenant-impact".into(),
            "PATCH",
            json!({"feature": {"x": 1}}),
        ),
        (
            "/v1/agent-specialization".into(),
            "/v1/agent-specialization".into(),
            "PUT",
            json!({"content": "X"}),
        ),
        (
            format!("{share}/files/content?path=notes/report.md"),
            format!("{share}/files/content"),
            "PUT",
            json!({"path": "notes/report.md", "content": "X"}),
        ),
    ];
    for (read, write, verb, body) in writes {
        let before = site.get(&read).await;
        let etag = before.header("etag").to_owned();
        assert!(etag.starts_with('"'), "{read}: {etag}");
        let known = site
            .request(&site.admin, Method::GET, &read)
            .header("if-none-match", &etag);
        let known = site.send(known).await;
        assert_eq!((known.status, known.text.as_str()), (304, ""), "{read}");
        let send = |etag: &str| {
            let request = site.request(
                &site.admin,
                Method::from_bytes(verb.as_bytes()).unwrap(),
                &write,
            );
            site.send(
                request
                    .header("content-type", "application/json")
                    .header("if-match", etag)
                    .body(body.to_string()),
            )
        };
        assert_eq!(
            send("\"stale\"").await.expect(412)["code"],
            "precondition_failed",
            "{write}"
        );
        send(&etag).await.expect(200);
        assert_eq!(send(&etag).await.status, 412, "{write}");
    }
}

#[tokio::test]
async fn a_condition_of_reads_does_not_pass_for_one_of_a_write() {
    let site = TestHub::new().await.with_examples().await;
    let file = "/v1/tenants/tenant_123/shares/division1/files/content";
    let read = format!("{file}?path=notes/report.md");
    let before = site.get(&read).await.expect(200);
    let body = json!({"path": "notes/report.md", "content": "other"});
    for condition in ["*", "\"1\""] {
        let request = site
            .request(&site.admin, Method::PUT, file)
            .header("content-type", "application/json")
            .header("if-none-match", condition)
            .body(body.to_string());
        let refused = site.send(request).await.expect(400);
        assert!(refused["message"].as_str().unwrap().contains("If-Match"));
    }
    assert_eq!(site.get(&read).await.expect(200), before);
}

#[tokio::test]
async fn a_key_is_for_one_route_with_its_ids() {
    let site = TestHub::new().await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let request = json!({"name": name, "scopes": ["tenants:read"]});
        let token = site.post("/v1/tokens", &request).await.expect(201);
        ids.push(token["id"].as_str().unwrap().to_owned());
    }
    for id in ids {
        let request = site
            .request(
                &site.admin,
                Method::POST,
                &format!("/v1/tokens/{id}/rotate"),
            )
            .header("content-type", "application/json")
            .header("idempotency-key", "the-same")
            .body("{}");
        site.send(request).await.expect(200);
    }
}

#[tokio::test]
async fn a_condition_that_cannot_be_read_is_not_taken_for_none() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "displayName": "Acme"}))
        .await;
    let request = site
        .request(&site.admin, Method::PATCH, "/v1/tenants/acme")
        .header("content-type", "application/json")
        .header("if-match", &b"\"1\xff\""[..])
        .body(json!({"displayName": "Other"}).to_string());
    site.send(request).await.expect(400);
    let tenant = site.get("/v1/tenants/acme").await.expect(200);
    assert_eq!(tenant["displayName"], "Acme");
}

#[tokio::test]
async fn pages_join_to_the_whole_list() {
    let site = TestHub::new().await;
    for id in ["a", "b", "c", "d", "e"] {
        site.post("/v1/tenants", &json!({"id": id}))
            .await
            .expect(201);
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = site
            .get(&format!("/v1/tenants?limit=2{cursor}"))
            .await
            .expect(200);
        seen.extend(
            page["tenants"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tenant| tenant["id"].as_str().unwrap().to_owned()),
        );
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    site.get("/v1/tenants?limit=0").await.expect(400);
    site.get("/v1/tenants?cursor=nonsense").await.expect(400);
}
