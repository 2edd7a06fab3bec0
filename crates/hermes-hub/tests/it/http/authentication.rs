//! Authentication and authorization: tokens, scopes, host, origin, rate limits.

use hermes_testkit::eventually_some;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    mcp_client::{self, McpEra},
    test_hub::{HttpAnswer, TestHub},
};

const PROTECTED_ROUTES: [(&str, &str); 5] = [
    ("GET", "/v1/whoami"),
    ("POST", "/v1/tenants"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
];

fn method(name: &str) -> Method {
    Method::from_bytes(name.as_bytes()).unwrap()
}

#[tokio::test]
async fn without_a_token_nothing_but_a_challenge_comes() {
    let site = TestHub::new().await;
    for (verb, path) in PROTECTED_ROUTES {
        for token in ["", "nonsense", "hub_mgmt_AAAA_bbbbbb"] {
            let answer = site.send(site.request(token, method(verb), path)).await;
            assert_eq!(answer.status, 401, "{verb} {path}");
            let challenge = answer.header("www-authenticate");
            let metadata = format!(
                "resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
                site.url
            );
            assert!(
                challenge.starts_with("Bearer ") && challenge.contains(&metadata),
                "{challenge}"
            );
            assert_eq!(answer.json()["code"], "unauthenticated");
        }
    }
    let metadata = site
        .send(site.request("", Method::GET, "/.well-known/oauth-protected-resource/mcp"))
        .await
        .expect(200);
    assert_eq!(metadata["resource"], format!("{}/mcp", site.url));
    assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
    assert!(
        metadata["scopes_supported"]
            .as_array()
            .unwrap()
            .contains(&json!("tenants:read"))
    );
    for path in ["/v1/healthz", "/v1/readyz"] {
        site.send(site.request("", Method::GET, path))
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn a_runtime_key_is_refused_everywhere_and_written_down() {
    let site = TestHub::new().await;
    let made = site.tenant(json!({"id": "acme"})).await;
    let key = made["runtimeKey"].as_str().unwrap();
    assert!(key.starts_with("hub_rt_"));
    for (verb, path) in PROTECTED_ROUTES {
        let answer = site.send(site.request(key, method(verb), path)).await;
        let problem = answer.expect(403);
        assert_eq!(
            (&problem["code"], &problem["reason"]),
            (&json!("permission_denied"), &json!("runtime_key"))
        );
        assert!(!problem.to_string().contains(key));
    }
    let path = "/v1/audit?action=runtime_key_refused";
    let audit = site.wait_until(path, |audit| {
        audit["entries"].as_array().unwrap().len() == PROTECTED_ROUTES.len()
    });
    let audit = audit.await;
    let entries = audit["entries"].as_array().unwrap();
    let is_refusal = |entry: &Value| entry["decision"] == "deny" && entry["tenant"] == "acme";
    assert!(entries.iter().all(is_refusal), "{audit}");
    assert!(entries.iter().any(|entry| entry["via"] == "mcp"));
}

#[tokio::test]
async fn foreign_names_and_pages_are_refused_on_every_verb() {
    let site = TestHub::new().await;
    for (verb, path) in PROTECTED_ROUTES {
        for (header, value) in [
            ("host", "evil.example"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let answer = site
                .send(
                    site.request(&site.admin, method(verb), path)
                        .header(header, value),
                )
                .await;
            assert_eq!(answer.status, 403, "{verb} {path} with {header} {value}");
        }
    }
    let own = site
        .request(&site.admin, Method::GET, "/v1/whoami")
        .header("origin", &site.url);
    site.send(own).await.expect(200);
}

#[tokio::test]
async fn strangers_are_written_down_but_do_not_fill_the_log() {
    let site =
        TestHub::with_settings(|settings, _| settings.limits.auth_failures_per_minute = 5).await;
    for number in 0..40 {
        let nobody = site.request("", Method::GET, "/v1/tenants");
        let foreign = site
            .request(&site.admin, Method::GET, "/v1/tenants")
            .header("host", "evil.example");
        let request = if number % 2 == 0 { nobody } else { foreign };
        assert!(matches!(site.send(request).await.status, 401 | 403));
    }
    let count = async |action: &str| {
        let path = format!("/v1/audit?action={action}");
        let audit = site.get(&path).await.expect(200);
        audit["entries"].as_array().unwrap().len()
    };
    let written = eventually_some(crate::test_hub::TIMEOUT, async || {
        let (missing, foreign) = (count("token_missing").await, count("host_refused").await);
        assert!(missing + foreign < 20, "{missing} and {foreign}");
        (missing > 0 && foreign > 0).then_some(())
    });
    assert!(written.await.is_some(), "nothing was written down");
}

#[tokio::test]
async fn a_token_in_the_address_is_refused() {
    let site = TestHub::new().await;
    for query in [
        "token=abc",
        "access_token=abc",
        "x=hub_mgmt_abc",
        "a=1&api_key=b",
    ] {
        let answer = site
            .send(site.request(&site.admin, Method::GET, &format!("/v1/tenants?{query}")))
            .await;
        let problem = answer.expect(400);
        assert!(
            problem["message"].as_str().unwrap().contains("address"),
            "{problem}"
        );
    }
}

#[tokio::test]
async fn without_a_scope_a_tool_is_neither_listed_nor_callable() {
    let site = TestHub::new().await.with_examples().await;
    let viewer = site
        .token(json!({"name": "viewer", "role": "viewer"}))
        .await;
    let listed =
        mcp_client::send_request(&site, &viewer, &McpEra::Stateless, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(!tools.is_empty() && tools.len() < 34);
    assert!(
        tools
            .iter()
            .all(|tool| tool["annotations"]["readOnlyHint"] == true)
    );
    for (tool, arguments, scope) in [
        (
            "delete_tenant",
            json!({"tenant_id": "tenant_123"}),
            "tenants:delete",
        ),
        ("put_agent_policy", json!({"policy": {}}), "policy:write"),
        (
            "write_share_file",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "x", "content": "y"}),
            "shares:write",
        ),
        (
            "sync_context",
            json!({"tenant_id": "tenant_123", "destination": "x"}),
            "sync:run",
        ),
    ] {
        let problem =
            mcp_client::call_for_problem(&site, &viewer, &McpEra::Stateless, tool, &arguments)
                .await;
        assert_eq!(problem["code"], "permission_denied", "{tool}");
        assert!(
            problem["message"].as_str().unwrap().contains(scope),
            "{tool}: {problem}"
        );
    }
    let refused = site
        .send(site.request(&viewer, Method::DELETE, "/v1/tenants/tenant_123"))
        .await;
    assert_eq!(refused.status, 403);
    assert_eq!(site.get("/v1/tenants/tenant_123").await.status, 200);
    let operator = site
        .token(json!({"name": "operator", "role": "operator"}))
        .await;
    let request = json!({"destination": "x", "delete": true});
    let request = site
        .request(
            &operator,
            Method::POST,
            "/v1/tenants/tenant_123/context/sync",
        )
        .header("content-type", "application/json")
        .body(request.to_string());
    assert!(
        site.send(request).await.expect(403)["message"]
            .as_str()
            .unwrap()
            .contains("sync:delete")
    );
}

#[tokio::test]
async fn a_token_for_some_tenants_sees_no_others_and_changes_nothing_for_all() {
    let site = TestHub::new().await;
    for id in ["mine", "theirs"] {
        site.tenant(json!({"id": id})).await;
    }
    let bound = site
        .token(json!({"name": "bound", "role": "admin", "tenants": ["mine"]}))
        .await;
    let list = site
        .send(site.request(&bound, Method::GET, "/v1/tenants"))
        .await
        .expect(200);
    let ids: Vec<_> = list["tenants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tenant| tenant["id"].clone())
        .collect();
    assert_eq!(ids, ["mine"]);
    let foreign = site
        .send(site.request(&bound, Method::GET, "/v1/tenants/theirs"))
        .await
        .expect(404);
    let missing = site
        .send(site.request(&bound, Method::GET, "/v1/tenants/nobody"))
        .await
        .expect(404);
    let body = |problem: &Value, id: &str| problem["message"].as_str().unwrap().replace(id, "");
    assert_eq!(body(&foreign, "theirs"), body(&missing, "nobody"));
    for (verb, path, body) in [
        ("POST", "/v1/tenants", json!({})),
        ("PUT", "/v1/agent-policy", json!({})),
        ("POST", "/v1/groups", json!({"id": "g"})),
        ("POST", "/v1/tokens", json!({"name": "x", "role": "viewer"})),
        ("PATCH", "/v1/config/tenant-impact", json!({})),
    ] {
        let request = site
            .request(&bound, method(verb), path)
            .header("content-type", "application/json")
            .body(body.to_string());
        assert_eq!(site.send(request).await.status, 403, "{verb} {path}");
    }
}

#[tokio::test]
async fn a_share_of_others_is_as_one_that_is_not_there_and_readers_do_not_write() {
    let site = TestHub::new().await.with_examples().await;
    site.tenant(json!({"id": "outsider"})).await;
    site.tenant(json!({"id": "reader", "groups": [{"id": "division1", "access": "read"}]}))
        .await;
    let of = |tenant: &str, group: &str| format!("/v1/tenants/{tenant}/shares/{group}/files");
    let foreign = site.get(&of("outsider", "division1")).await.expect(404);
    let missing = site.get(&of("outsider", "division9")).await.expect(404);
    let body = |problem: &Value| {
        let mut problem = problem.clone();
        problem["requestId"] = Value::Null;
        problem
            .to_string()
            .replace("division1", "G")
            .replace("division9", "G")
    };
    assert_eq!(body(&foreign), body(&missing));
    site.get(&of("reader", "division1")).await.expect(200);
    let refused = site
        .put(
            "/v1/tenants/reader/shares/division1/files/content",
            &json!({"path": "x", "content": "y"}),
        )
        .await
        .expect(403);
    assert_eq!(refused["reason"], "read_only_member");
    // A missing write permission is reported, whatever else is wrong with the request.
    site.put(
        "/v1/tenants/reader/shares/division1/files/content",
        &json!({"nonsense": 1}),
    )
    .await
    .expect(403);
    site.put(
        "/v1/tenants/outsider/shares/division1/files/content",
        &json!({"nonsense": 1}),
    )
    .await
    .expect(404);
    site.put(
        "/v1/tenants/tenant_123/access",
        &json!({"status": "blocked"}),
    )
    .await
    .expect(200);
    let blocked = site
        .put(
            "/v1/tenants/tenant_123/shares/division1/files/content",
            &json!({"path": "x", "content": "y"}),
        )
        .await
        .expect(403);
    assert_eq!(blocked["reason"], "tenant_blocked");
    site.get(&of("tenant_123", "division1")).await.expect(200);
}

/// Asks until that is too often. A machine under load needs a while for that, as the bucket fills up meanwhile.
async fn first_refusal(site: &TestHub) -> HttpAnswer {
    for _ in 0..200 {
        let answer = site.get("/v1/whoami").await;
        if answer.status == 429 {
            return answer;
        }
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    panic!("nobody was refused");
}

#[tokio::test]
async fn too_many_requests_and_too_many_wrong_tokens_have_to_wait() {
    let site = TestHub::with_settings(|settings, _| {
        settings.limits.rps_per_token = 1;
        settings.limits.burst = 3;
        settings.limits.auth_failures_per_minute = 2;
    })
    .await;
    let refused = first_refusal(&site).await;
    assert_eq!(refused.json()["reason"], "rate");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    site.send(site.request("", Method::GET, "/v1/healthz"))
        .await
        .expect(200);
    let statuses: Vec<_> = {
        let mut statuses = Vec::new();
        for _ in 0..6 {
            statuses.push(
                site.send(site.request("hub_mgmt_x", Method::GET, "/v1/whoami"))
                    .await
                    .status,
            );
        }
        statuses
    };
    assert!(
        statuses.starts_with(&[401, 401]) && statuses.contains(&429),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn who_sends_too_much_is_told_how_much_is_left_and_when_to_come_again() {
    let site = TestHub::with_settings(|settings, _| {
        settings.limits.rps_per_token = 1;
        settings.limits.burst = 2;
    })
    .await;
    let refused = first_refusal(&site).await;
    assert_eq!(refused.header("ratelimit-limit"), "2");
    assert_eq!(refused.header("ratelimit-remaining"), "0");
    assert!(refused.header("ratelimit-reset").parse::<u64>().unwrap() >= 1);
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
}

#[tokio::test]
async fn every_answer_has_the_common_headers() {
    let site = TestHub::new().await;
    let request = site
        .request(&site.admin, Method::GET, "/v1/whoami")
        .header("x-request-id", "mine-1");
    let answer = site.send(request).await;
    assert_eq!(answer.header("x-request-id"), "mine-1");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(!answer.header("hub-version").is_empty());
    assert!(answer.header("ratelimit-remaining").parse::<u64>().is_ok());
    let missing = site.get("/v1/nothing").await;
    assert_eq!(missing.header("content-type"), "application/problem+json");
    let id = missing.header("x-request-id").to_owned();
    assert_eq!(missing.expect(404)["requestId"], id);
    let options = site
        .send(site.request(&site.admin, Method::OPTIONS, "/v1/tenants"))
        .await;
    assert_eq!(options.status, 204);
    assert!(options.header("allow").contains("POST"));
    let head = site
        .send(site.request(&site.admin, Method::HEAD, "/v1/tenants"))
        .await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}
