//! Tool calls take the fast path or go through rmcp, with the same answers.

use serde_json::{Value, json};

use crate::{
    mcp_client::{self, McpEra},
    test_hub::{HttpAnswer, TestHub},
};

/// An extra member sends a call through rmcp.
async fn call_both_ways(site: &TestHub, era: &McpEra, params: Value) -> [HttpAnswer; 2] {
    let mut marked = params.clone();
    marked["_meta"]["example.org/mark"] = json!(1);
    let send = |params| {
        let request = mcp_client::mcp_request(site, &site.admin, era, "tools/call", params);
        site.send(request.header("x-request-id", "req-1"))
    };
    [send(params).await, send(marked).await]
}

#[tokio::test]
async fn a_call_by_the_short_way_is_answered_as_by_the_long_one() {
    let site = TestHub::new().await.with_examples().await;
    let calls = [
        json!({"name": "get_tenant", "arguments": {"tenant_id": "tenant_123"}}),
        json!({"name": "list_tenants"}),
        json!({"name": "list_tenants", "arguments": {"limit": 1}}),
        json!({"name": "list_share_files", "arguments": {"tenant_id": "tenant_123", "group_id": "division1"}}),
        json!({"name": "get_tenant", "arguments": {"tenant_id": "nobody"}}),
        json!({"name": "get_tenant", "arguments": {"tenant_id": "tenant_123", "colour": 1}}),
        json!({"name": "get_tenant"}),
        json!({"name": "no_such_tool", "arguments": {}}),
        json!({"name": "get_tenant", "arguments": {"tenant_id": "tenant_123"}, "requestState": "x"}),
        json!({"name": "get_tenant", "arguments": []}),
    ];
    let session = mcp_client::open_session(&site, &site.admin).await;
    for era in [McpEra::Stateless, session] {
        for params in &calls {
            let [short, long] = call_both_ways(&site, &era, params.clone()).await;
            assert_eq!(short.status, long.status, "{params}");
            assert_eq!(short.header("x-request-id"), long.header("x-request-id"));
            if short.header("content-type").starts_with("application/json") {
                assert_eq!(
                    mcp_client::parse_reply(&short),
                    mcp_client::parse_reply(&long),
                    "{params}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_change_without_a_document_is_answered_alike() {
    let site = TestHub::new().await.with_examples().await;
    let mut answers = Vec::new();
    for (path, meta) in [
        ("notes/report.md", json!({})),
        ("draft.md", json!({"example.org/mark": 1})),
    ] {
        let arguments = json!({"tenant_id": "tenant_123", "group_id": "division1", "path": path});
        let params = json!({"name": "remove_share_path", "arguments": arguments, "_meta": meta});
        let request =
            mcp_client::mcp_request(&site, &site.admin, &McpEra::Stateless, "tools/call", params);
        answers.push(site.send(request).await.json());
    }
    assert_eq!(
        answers[0]["result"]["content"][0]["text"],
        r#"{"ok": true}"#
    );
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn what_headers_and_body_do_not_agree_on_is_refused_by_the_short_way_too() {
    let site = TestHub::new().await.with_examples().await;
    let params = json!({"name": "get_tenant", "arguments": {"tenant_id": "tenant_123"}});
    let call = || {
        mcp_client::mcp_request(
            &site,
            &site.admin,
            &McpEra::Stateless,
            "tools/call",
            params.clone(),
        )
        .build()
        .unwrap()
    };
    let mut wrong = Vec::new();
    for (name, value) in [
        ("mcp-name", "list_tenants"),
        ("mcp-method", "tools/list"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", "1999-01-01"),
        ("accept", "application/json"),
        ("content-type", "text/plain"),
    ] {
        let mut request = call();
        request.headers_mut().insert(name, value.parse().unwrap());
        wrong.push((name, request));
    }
    for name in ["mcp-name", "mcp-method", "mcp-protocol-version"] {
        let mut request = call();
        request.headers_mut().remove(name);
        wrong.push((name, request));
    }
    for (name, request) in wrong {
        let status = site
            .client
            .execute(request)
            .await
            .unwrap()
            .status()
            .as_u16();
        assert!((400..500).contains(&status), "{name}: {status}");
    }
    let right = site.client.execute(call()).await.unwrap();
    assert_eq!(right.status(), 200);
}

#[tokio::test]
async fn a_call_that_is_not_strict_json_is_refused_by_the_short_way_too() {
    let site = TestHub::new().await.with_examples().await;
    let params = json!({"name": "get_tenant", "arguments": {"tenant_id": "tenant_123"}});
    let call = || {
        let era = McpEra::Stateless;
        let request =
            mcp_client::mcp_request(&site, &site.admin, &era, "tools/call", params.clone());
        request.build().unwrap()
    };
    let tenant = r#""tenant_id":"tenant_123""#;
    let capabilities = r#"clientCapabilities":{}"#;
    let deep = format!("{}1{}", "[".repeat(62), "]".repeat(62));
    for (part, replacement) in [
        (tenant, format!("{tenant},{tenant}")),
        (tenant, format!("{tenant},\"x\":{deep}")),
        (
            capabilities,
            r#"clientCapabilities":{"roots":{},"roots":{}}"#.to_owned(),
        ),
        (r#""id":"#, r#""id":1,"id":"#.to_owned()),
    ] {
        let mut request = call();
        let body = request.body().and_then(|body| body.as_bytes()).unwrap();
        let body = std::str::from_utf8(body).unwrap().to_owned();
        assert!(body.contains(part), "{part} in {body}");
        *request.body_mut() = Some(body.replacen(part, &replacement, 1).into());
        let status = site.client.execute(request).await.unwrap().status();
        assert_eq!(status, 400, "{part}");
    }
    let right = site.client.execute(call()).await.unwrap();
    assert_eq!(right.status(), 200);
}
