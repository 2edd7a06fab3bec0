//! Rights of input members: each member with every token that lacks one right. Members are derived from the operation
//! table, so new ones are covered.

use hermes_hub::{
    api_types::Scope,
    operations::{ArgumentLocation, Gate, HttpMethod, MemberRight, Operation, Toolset, table},
};
use reqwest::Method;
use serde_json::{Value, json};

use super::rights;
use crate::{
    mcp_client::{self, McpEra},
    rest_request::RestRequest,
    tenant_fixture::TenantFixture,
    test_hub::TestHub,
};

/// A token that has all rights but one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitedToken {
    /// Everything but a scope.
    Without(Scope),
    /// Everything, to one tenant.
    OneTenant,
}

/// Whether a token lacks the right for a member.
fn lacks_right(right: MemberRight, token: LimitedToken) -> bool {
    match (right, token) {
        (MemberRight::Inherited, _) => false,
        (MemberRight::WholeHub, token) => token == LimitedToken::OneTenant,
        (MemberRight::Scoped(scope), token) => token == LimitedToken::Without(scope),
        (MemberRight::SameAs(name), token) => {
            let route = table().find(name).unwrap();
            match token {
                LimitedToken::Without(scope) => route.required_scope() == Some(scope),
                LimitedToken::OneTenant => route.gate == Gate::WholeHub,
            }
        }
        (MemberRight::Parts(parts), token) => {
            parts.iter().any(|(_, right)| lacks_right(*right, token))
        }
    }
}

/// Whether a token may not call the operation at all.
fn is_shut_out(operation: &Operation, token: LimitedToken) -> bool {
    match token {
        LimitedToken::Without(scope) => operation.required_scope() == Some(scope),
        LimitedToken::OneTenant => operation.gate == Gate::WholeHub,
    }
}

/// Every member and nested member, with a sample value and its right.
fn list_members(operation: &'static Operation) -> Vec<(&'static str, Value, MemberRight)> {
    let mut found = Vec::new();
    for member in &operation.input.arguments {
        if member.location == ArgumentLocation::Path {
            continue;
        }
        let name = member.name.as_str();
        let right = operation
            .member_right(name)
            .unwrap_or_else(|| panic!("`{}.{name}` is not in the table of rights", operation.name));
        if let MemberRight::Parts(parts) = right {
            let schemas = member.schema["properties"].as_object().unwrap();
            assert_eq!(schemas.len(), parts.len(), "{}.{name}", operation.name);
            for (part, schema) in schemas {
                let right = parts.iter().find(|(known, _)| known == part);
                let (_, right) =
                    right.unwrap_or_else(|| panic!("`{}.{name}.{part}`", operation.name));
                found.push((name, json!({part: sample(schema)}), *right));
            }
            // The whole member, with a value that is not an object; a body always is one.
            if operation.input.whole_body != Some(name) {
                found.push((name, "x".into(), right));
            }
        }
        if !matches!(right, MemberRight::Parts(_)) {
            found.push((name, sample(&member.schema), right));
        }
        if operation.method() == HttpMethod::Patch {
            found.push((name, Value::Null, right));
        }
    }
    found
}

/// A sample value for a schema.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("integer" | "number") => 7.into(),
        Some("boolean") => true.into(),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => "x".into(),
    }
}

async fn tokens(site: &TestHub, mine: &TenantFixture) -> Vec<(LimitedToken, String)> {
    let mut tokens = Vec::new();
    for scope in Scope::ALL {
        let others: Vec<_> = Scope::ALL.iter().filter(|other| *other != scope).collect();
        let token = json!({"name": "all but one", "scopes": others});
        tokens.push((LimitedToken::Without(*scope), site.token(token).await));
    }
    let bound = json!({"name": "bound", "role": "admin", "tenants": [mine.tenant]});
    tokens.push((LimitedToken::OneTenant, site.token(bound).await));
    tokens
}

#[track_caller]
fn check_refusal(told: &str, token: LimitedToken, status: &Value, reason: &Value) {
    let expected = match token {
        LimitedToken::Without(_) => "scope",
        LimitedToken::OneTenant => "tenants",
    };
    assert_eq!(status, 403, "{told}");
    assert_eq!(reason, expected, "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_member_of_an_input_opens_what_a_token_has_no_right_to() {
    let site = rights::rights_hub().await;
    let mine = TenantFixture::new(&site, "mine").await;
    let tokens = tokens(&site, &mine).await;
    let own = "/v1/tenants/mine";
    let tenant = site.get(own).await.expect(200);
    let before = rights::observable_state(&site, &mine).await;
    let mut refused = 0;
    for operation in table().rows() {
        for (name, value, right) in list_members(operation) {
            for (narrower, token) in &tokens {
                if is_shut_out(operation, *narrower) || !lacks_right(right, *narrower) {
                    continue;
                }
                let mut arguments = mine.arguments(operation.name);
                arguments[name] = value.clone();
                let told = format!("{}.{name} = {value} with {narrower:?}", operation.name);
                for verb in operation.methods {
                    let asked = RestRequest::new(operation, *verb, &arguments);
                    let answer = site.send(asked.build(&site, token)).await;
                    let told = format!("{told}: {} {}", answer.status, answer.text);
                    let problem = answer.json();
                    check_refusal(&told, *narrower, &problem["status"], &problem["reason"]);
                }
                if operation.toolset != Toolset::None {
                    let era = &McpEra::Stateless;
                    let problem =
                        mcp_client::call_for_problem(&site, token, era, operation.name, &arguments)
                            .await;
                    check_refusal(&told, *narrower, &problem["status"], &problem["reason"]);
                }
                refused += 1;
            }
        }
    }
    assert!(refused > 20, "only {refused} were refused");
    assert_eq!(site.get(own).await.expect(200), tenant);
    assert_eq!(rights::observable_state(&site, &mine).await, before);
}

/// The contract: what has a route of its own needs that route's right.
#[tokio::test]
async fn a_token_of_one_tenant_neither_joins_groups_nor_widens_its_limits() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "a"})).await;
    site.post("/v1/groups", &json!({"id": "others"}))
        .await
        .expect(201);
    let before = site.get("/v1/tenants/a").await.expect(200);
    let bound = json!({"name": "bound", "role": "admin", "tenants": ["a"]});
    let bound = site.token(bound).await;
    let change = async |token: &str, body: Value| {
        let request = site.request(token, Method::PATCH, "/v1/tenants/a");
        let request = request.header("content-type", "application/json");
        site.send(request.body(body.to_string())).await
    };
    for body in [
        json!({"groups": [{"id": "others", "access": "read"}]}),
        json!({"groups": []}),
        json!({"storage": {"quotaBytes": 1_u64 << 50}}),
        json!({"storage": {"filesQuota": 1}}),
        json!({"storage": null}),
        json!({"flavor": "standard"}),
        json!({"flavor": null}),
        json!({"agent": {"timezone": "Europe/Berlin"}}),
        json!({"agent": {"model": "a/b", "maxConcurrentRuns": 99}}),
        json!({"agent": {"idleStopSeconds": 99}}),
        json!({"agent": null}),
        json!({"browser": {"maxTabs": 99}}),
    ] {
        let refused = change(&bound, body.clone()).await;
        assert_eq!(refused.status, 403, "{body}: {}", refused.text);
        assert_eq!(refused.json()["reason"], "tenants", "{body}");
        assert_eq!(site.get("/v1/tenants/a").await.expect(200), before);
    }
    for (scope, body) in [
        ("groups:write", json!({"groups": []})),
        ("env:write", json!({"env": {"API_KEY": "x"}})),
        ("env:write", json!({"env": {"API_KEY": null}})),
    ] {
        let scopes = Scope::ALL.iter().filter(|own| own.as_str() != scope);
        let scopes: Vec<_> = scopes.collect();
        let token = site.token(json!({"name": "less", "scopes": scopes})).await;
        let refused = change(&token, body.clone()).await;
        assert_eq!(refused.status, 403, "{body}: {}", refused.text);
        assert!(refused.text.contains(scope), "{}", refused.text);
        let request = site.request(&token, Method::POST, "/v1/tenants");
        let mut made = json!({"id": "b"});
        made["groups"] = body.get("groups").cloned().unwrap_or_default();
        made["env"] = body.get("env").cloned().unwrap_or_default();
        let request = request.header("content-type", "application/json");
        let refused = site.send(request.body(made.to_string())).await;
        assert_eq!(refused.status, 403, "{made}: {}", refused.text);
    }
    site.get("/v1/tenants/b").await.expect(404);
    // It may change its own settings.
    let own = json!({"displayName": "New", "agent": {"model": "a/b"}, "labels": {"x": "y"},
        "env": {"API_KEY": "x"}});
    change(&bound, own).await.expect(200);
}

#[tokio::test]
async fn a_tenant_is_not_started_by_who_may_not_start_agents() {
    let site = TestHub::new().await;
    let token = json!({"name": "makes", "scopes": ["tenants:write", "tenants:read"]});
    let token = site.token(token).await;
    let make = async |body: Value| {
        let request = site.request(&token, Method::POST, "/v1/tenants");
        let request = request.header("content-type", "application/json");
        site.send(request.body(body.to_string())).await
    };
    let refused = make(json!({"id": "a", "start": true})).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    make(json!({"id": "a", "start": false})).await.expect(201);
    make(json!({"id": "b"})).await.expect(201);
    for tenant in ["a", "b"] {
        site.wait_until(&format!("/v1/tenants/{tenant}"), |tenant| {
            tenant["status"] == "ready"
        })
        .await;
        let agent = site.get(&format!("/v1/tenants/{tenant}/agent")).await;
        assert_eq!(agent.expect(200)["state"], "sleeping");
    }
}

#[tokio::test]
async fn nobody_ends_or_renews_a_token_beyond_their_own() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "a"})).await;
    let lesser = json!({"name": "lesser", "role": "viewer", "scopes": ["tokens:admin"]});
    let lesser = site.token(lesser).await;
    let strong = json!({"name": "strong", "role": "operator"});
    let strong = site.post("/v1/tokens", &strong).await.expect(201);
    let weak = json!({"name": "weak", "role": "viewer"});
    let weak = site.post("/v1/tokens", &weak).await.expect(201);
    let ask =
        async |method: Method, path: String| site.send(site.request(&lesser, method, &path)).await;
    let id = strong["id"].as_str().unwrap();
    for (method, path) in [
        (Method::DELETE, format!("/v1/tokens/{id}")),
        (Method::POST, format!("/v1/tokens/{id}/rotate")),
    ] {
        let refused = ask(method, path).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        assert_eq!(refused.json()["reason"], "beyond_own_token");
    }
    let held = strong["token"].as_str().unwrap();
    let who = site.send(site.request(held, Method::GET, "/v1/whoami"));
    who.await.expect(200);
    let id = weak["id"].as_str().unwrap();
    ask(Method::POST, format!("/v1/tokens/{id}/rotate"))
        .await
        .expect(200);
    ask(Method::DELETE, format!("/v1/tokens/{id}"))
        .await
        .expect(204);
    // A runtime key may write to shares, this token may not.
    let key = ask(Method::POST, "/v1/tenants/a/runtime-key/rotate".to_owned()).await;
    assert_eq!(key.status, 403, "{}", key.text);
    assert_eq!(key.json()["reason"], "scope");
}

#[tokio::test]
async fn an_admin_token_that_ends_does_not_stand_in_for_the_last_lasting_one() {
    let site = TestHub::new().await;
    let listed = site.get("/v1/tokens").await.expect(200);
    let first = listed["tokens"][0]["id"].as_str().unwrap();
    let first = format!("/v1/tokens/{first}");
    let soon = jiff::Timestamp::now() + std::time::Duration::from_hours(1);
    let ending = json!({"name": "ending", "role": "admin", "expiresAt": soon.to_string()});
    site.token(ending).await;
    let refused = site.delete(&first).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(refused.json()["reason"], "last_admin_token");
    site.token(json!({"name": "second", "role": "admin"})).await;
    site.delete(&first).await.expect(204);
}
