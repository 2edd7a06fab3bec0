//! Authorization: every operation with every kind of key, over REST and MCP. Expected outcomes are derived from the
//! operation table, so new operations are covered, and one without arguments here fails.

use std::time::Duration;

use hermes_hub::{
    api_types::Scope,
    operations::{Effect, Gate, Operation, RequiredAccess, Toolset, table},
    settings::ToolChoice,
};
use hermes_testkit::eventually_some;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    agent_harness::ScriptedRuntime,
    mcp_client::{self, McpEra},
    rest_request::RestRequest,
    tenant_fixture::{CANARY, TenantFixture},
    test_hub::{HttpAnswer, TIMEOUT, TestHub},
};

/// The expected outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It works.
    Works,
    /// It is refused with this status, for this reason.
    Refused(u16, Option<&'static str>),
    /// It works, but shows nothing of the tenant.
    ShowsNothing,
}

/// The kinds of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestCaller {
    /// Without a key.
    Anonymous,
    /// With an invalid key.
    Unknown,
    /// With an expired token.
    Expired,
    /// With a revoked token.
    Revoked,
    /// With the tenant's own runtime key.
    RuntimeKey,
    /// With a token that may do everything, but to another tenant.
    Neighbour,
    /// With a token that may only read.
    Viewer,
}

/// The outcome that the table demands.
fn expected(operation: &Operation, caller: TestCaller) -> Outcome {
    if operation.access == RequiredAccess::Public {
        return Outcome::Works;
    }
    match caller {
        TestCaller::Anonymous | TestCaller::Unknown | TestCaller::Expired | TestCaller::Revoked => {
            Outcome::Refused(401, None)
        }
        TestCaller::RuntimeKey => Outcome::Refused(403, Some("runtime_key")),
        // Sessions of others are not there.
        TestCaller::Viewer | TestCaller::Neighbour if operation.name == "end_console_session" => {
            Outcome::Refused(404, None)
        }
        TestCaller::Viewer if may_view(operation) => Outcome::Works,
        TestCaller::Viewer => Outcome::Refused(403, Some("scope")),
        TestCaller::Neighbour => match operation.gate {
            Gate::None => Outcome::ShowsNothing,
            Gate::WholeHub => Outcome::Refused(403, Some("tenants")),
            Gate::Tenant
            | Gate::TenantOrNew
            | Gate::AnyTenant
            | Gate::ActiveTenant
            | Gate::Member
            | Gate::Writer => Outcome::Refused(404, None),
        },
    }
}

/// Whether it is a read that viewers have, or about nobody but the caller.
fn may_view(operation: &Operation) -> bool {
    match operation.required_scope() {
        Some(scope) => operation.effect == Effect::Read && scope.is_read(),
        None => true,
    }
}

/// A Hub whose agents wait for decisions, with all tools and without rate limits.
pub(crate) async fn rights_hub() -> TestHub {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |settings, _| {
        settings.limits.auth_failures_per_minute = 1_000_000;
        settings.mcp.tools = ToolChoice::Extended;
    })
    .await;
    // A first revision of each document, to go back to.
    site.put("/v1/agent-policy", &json!({})).await.expect(200);
    let feature = json!({"feature": {"seen": false}});
    site.patch("/v1/config/tenant-impact", &feature)
        .await
        .expect(200);
    let text = json!({"content": "Be kind."});
    site.put("/v1/agent-specialization", &text)
        .await
        .expect(200);
    site
}

/// A token that expires in a moment.
async fn short_token(site: &TestHub) -> String {
    let made = eventually_some(TIMEOUT, async || {
        let soon = jiff::Timestamp::now() + Duration::from_secs(2);
        let token = json!({"name": "short", "role": "admin", "expiresAt": soon.to_string()});
        let made = site.post("/v1/tokens", &token).await;
        // A machine under load may come too late for a token that is still valid.
        assert!([201, 400].contains(&made.status), "{}", made.text);
        (made.status == 201).then(|| made.json()["token"].as_str().unwrap().to_owned())
    });
    made.await.expect("no token is made in time")
}

/// Every kind of key, each with what it opens.
async fn test_callers(site: &TestHub, mine: &TenantFixture) -> Vec<(TestCaller, String)> {
    site.tenant(json!({"id": "neighbour"})).await;
    let expired = short_token(site).await;
    let revoked = json!({"name": "gone", "role": "admin"});
    let revoked = site.post("/v1/tokens", &revoked).await.expect(201);
    let id = revoked["id"].as_str().unwrap();
    site.delete(&format!("/v1/tokens/{id}")).await.expect(204);
    let neighbour = json!({"name": "neighbour", "role": "admin", "tenants": ["neighbour"]});
    let viewer = json!({"name": "viewer", "role": "viewer"});
    // A well-formed token of another Hub.
    let unknown = TestHub::new().await.admin.clone();
    let callers = vec![
        (TestCaller::Anonymous, String::new()),
        (TestCaller::Unknown, unknown),
        (TestCaller::Expired, expired.clone()),
        (
            TestCaller::Revoked,
            revoked["token"].as_str().unwrap().to_owned(),
        ),
        (TestCaller::RuntimeKey, mine.runtime_key.clone()),
        (TestCaller::Neighbour, site.token(neighbour).await),
        (TestCaller::Viewer, site.token(viewer).await),
    ];
    let whoami = || site.send(site.request(&expired, Method::GET, "/v1/whoami"));
    let refused = eventually_some(TIMEOUT, async || {
        (whoami().await.status == 401).then_some(())
    });
    assert!(refused.await.is_some(), "it does not expire");
    callers
}

/// Whether a request is about one tenant, which may be another's.
fn names_tenant(arguments: &Value) -> bool {
    let names = ["tenant_id", "approval_id"];
    names.iter().any(|name| arguments.get(name).is_some())
}

/// Checks a REST answer.
#[track_caller]
fn check_answer(
    operation: &Operation,
    who: &str,
    outcome: Outcome,
    arguments: &Value,
    answer: &HttpAnswer,
) {
    let told = format!(
        "{} as {who}: {} {}",
        operation.name, answer.status, answer.text
    );
    match outcome {
        Outcome::Works => assert!(operation.success.contains(&answer.status), "{told}"),
        Outcome::Refused(status, reason) => {
            assert_eq!(answer.status, status, "{told}");
            assert_eq!(answer.json()["reason"], json!(reason), "{told}");
            assert!(!answer.text.contains(CANARY), "{told}");
        }
        Outcome::ShowsNothing => {
            // The answer may repeat what the request names.
            let names_tenant = names_tenant(arguments);
            assert_eq!(answer.status == 404, names_tenant, "{told}");
            assert!(!answer.text.contains(CANARY), "{told}");
            assert!(names_tenant || !answer.text.contains("\"mine\""), "{told}");
        }
    }
}

/// Checks the result of a tool call.
#[track_caller]
fn check_tool(
    operation: &Operation,
    who: &str,
    outcome: Outcome,
    arguments: &Value,
    result: &Value,
) {
    let told = format!("{} as {who}: {result}", operation.name);
    let problem = || {
        let text = result["content"][0]["text"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()
    };
    match outcome {
        Outcome::Works => assert_ne!(result["isError"], true, "{told}"),
        Outcome::Refused(status, reason) => {
            assert_eq!(result["isError"], true, "{told}");
            assert_eq!(problem()["status"], status, "{told}");
            assert_eq!(problem()["reason"], json!(reason), "{told}");
            assert!(!result.to_string().contains(CANARY), "{told}");
        }
        Outcome::ShowsNothing => {
            let names_tenant = names_tenant(arguments);
            assert_eq!(result["isError"] == true, names_tenant, "{told}");
            assert!(!result.to_string().contains(CANARY), "{told}");
        }
    }
}

/// The state of the tenant and the Hub, to check that it stays unchanged.
pub(crate) async fn observable_state(site: &TestHub, mine: &TenantFixture) -> Vec<Value> {
    let own = format!("/v1/tenants/{}", mine.tenant);
    let mut found = Vec::new();
    for path in [
        "/v1/agent-policy".to_owned(),
        "/v1/config/tenant-impact".into(),
        "/v1/agent-specialization".into(),
        "/v1/groups".into(),
        "/v1/approvals".into(),
        format!("/v1/groups/{}/members", mine.group),
        format!("{own}/access"),
        format!("{own}/env"),
        format!("{own}/skills"),
        "/v1/skills".into(),
        format!("{own}/files"),
        format!("{own}/soul"),
        format!("{own}/memory/memory"),
        format!("{own}/runs"),
        format!("{own}/agent-cron"),
        format!("{own}/shares/{}/find", mine.group),
        format!("{own}/shares/{}/files/content?path=notes/a.md", mine.group),
    ] {
        let mut value = site.get(&path).await.expect(200);
        // How many agents use a document changes by itself.
        for counted in ["status", "appliedTenants", "pendingTenants"] {
            if path.ends_with("specialization") {
                value[counted] = Value::Null;
            }
        }
        found.push(value);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_opens_more_than_the_table_says_over_rest() {
    let site = rights_hub().await;
    let mine = TenantFixture::new(&site, "mine").await;
    let callers = test_callers(&site, &mine).await;
    let before = observable_state(&site, &mine).await;
    for operation in table().rows() {
        let arguments = mine.arguments(operation.name);
        for verb in operation.methods {
            let asked = RestRequest::new(operation, *verb, &arguments);
            for (caller, key) in &callers {
                let answer = site.send(asked.build(&site, key)).await;
                let outcome = expected(operation, *caller);
                check_answer(
                    operation,
                    &format!("{caller:?}"),
                    outcome,
                    &arguments,
                    &answer,
                );
            }
        }
    }
    assert_eq!(
        observable_state(&site, &mine).await,
        before,
        "something was changed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_opens_more_than_the_table_says_over_mcp() {
    let site = rights_hub().await;
    let mine = TenantFixture::new(&site, "mine").await;
    let callers = test_callers(&site, &mine).await;
    let before = observable_state(&site, &mine).await;
    for operation in tools() {
        let arguments = mine.arguments(operation.name);
        for (caller, key) in &callers {
            let outcome = expected(operation, *caller);
            let params = json!({"name": operation.name, "arguments": arguments});
            let asked =
                mcp_client::mcp_request(&site, key, &McpEra::Stateless, "tools/call", params);
            let answer = site.send(asked).await;
            let who = format!("{caller:?}");
            match outcome {
                // The whole request is refused, not only the tool.
                Outcome::Refused(status, reason) if is_shut_out(*caller) => {
                    assert_eq!(answer.status, status, "{who}: {}", answer.text);
                    assert_eq!(answer.json()["reason"], json!(reason), "{who}");
                }
                _ => {
                    assert_eq!(answer.status, 200, "{who}: {}", answer.text);
                    let result = mcp_client::parse_reply(&answer)["result"].clone();
                    check_tool(operation, &who, outcome, &arguments, &result);
                }
            }
        }
    }
    assert_eq!(
        observable_state(&site, &mine).await,
        before,
        "something was changed"
    );
}

fn tools() -> impl Iterator<Item = &'static Operation> {
    let rows = table().rows();
    rows.filter(|operation| operation.toolset != Toolset::None)
}

fn is_shut_out(caller: TestCaller) -> bool {
    !matches!(caller, TestCaller::Neighbour | TestCaller::Viewer)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_needs_its_own_scope_and_no_other_makes_up_for_it() {
    let site = rights_hub().await;
    let mine = TenantFixture::new(&site, "mine").await;
    let before = observable_state(&site, &mine).await;
    for scope in Scope::ALL {
        let others: Vec<_> = Scope::ALL.iter().filter(|other| *other != scope).collect();
        let token = site
            .token(json!({"name": "all but one", "scopes": others}))
            .await;
        let listed =
            mcp_client::send_request(&site, &token, &McpEra::Stateless, "tools/list", json!({}))
                .await;
        let listed = listed["result"]["tools"].to_string();
        for operation in table().rows() {
            if operation.required_scope() != Some(*scope) {
                continue;
            }
            let arguments = mine.arguments(operation.name);
            let refused = Outcome::Refused(403, Some("scope"));
            for verb in operation.methods {
                let asked = RestRequest::new(operation, *verb, &arguments);
                let answer = site.send(asked.build(&site, &token)).await;
                check_answer(operation, scope.as_str(), refused, &arguments, &answer);
            }
            if operation.toolset == Toolset::None {
                continue;
            }
            let name = format!("\"name\":\"{}\"", operation.name);
            assert!(!listed.contains(&name), "{name} is listed without {scope}");
            let result = mcp_client::call_tool(
                &site,
                &token,
                &McpEra::Stateless,
                operation.name,
                &arguments,
            )
            .await;
            check_tool(operation, scope.as_str(), refused, &arguments, &result);
        }
    }
    assert_eq!(
        observable_state(&site, &mine).await,
        before,
        "something was changed"
    );
}

/// Tenants with other access to the share of `mine`, and the expected refusal.
fn refusal_of(operation: &Operation, tenant: &str) -> Option<Outcome> {
    let is_share = matches!(operation.gate, Gate::Member | Gate::Writer);
    let refused = |status, reason| Some(Outcome::Refused(status, Some(reason)));
    match (tenant, operation.gate) {
        ("outsider", _) if is_share => Some(Outcome::Refused(404, None)),
        ("reader", Gate::Writer) => refused(403, "read_only_member"),
        ("blocked", Gate::Writer | Gate::ActiveTenant) => refused(403, "tenant_blocked"),
        ("reader" | "blocked", Gate::Member) => Some(Outcome::Works),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tenant_reaches_more_of_a_share_than_its_membership_and_access_give() {
    let site = rights_hub().await;
    let mine = TenantFixture::new(&site, "mine").await;
    for (tenant, groups) in [
        ("outsider", json!([])),
        ("reader", json!([{"id": mine.group, "access": "read"}])),
        ("blocked", json!([{"id": mine.group, "access": "write"}])),
    ] {
        site.tenant(json!({"id": tenant, "groups": groups})).await;
    }
    site.put("/v1/tenants/blocked/access", &json!({"status": "blocked"}))
        .await
        .expect(200);
    let before = observable_state(&site, &mine).await;
    let mut refused = 0;
    for operation in table().rows() {
        for tenant in ["outsider", "reader", "blocked"] {
            let Some(outcome) = refusal_of(operation, tenant) else {
                continue;
            };
            let mut arguments = mine.arguments(operation.name);
            arguments["tenant_id"] = tenant.into();
            for verb in operation.methods {
                let asked = RestRequest::new(operation, *verb, &arguments);
                let answer = site.send(asked.build(&site, &site.admin)).await;
                check_answer(operation, tenant, outcome, &arguments, &answer);
            }
            if operation.toolset != Toolset::None {
                let era = &McpEra::Stateless;
                let result =
                    mcp_client::call_tool(&site, &site.admin, era, operation.name, &arguments)
                        .await;
                check_tool(operation, tenant, outcome, &arguments, &result);
            }
            refused += usize::from(outcome != Outcome::Works);
        }
    }
    assert!(refused > 20, "only {refused} were refused");
    assert_eq!(
        observable_state(&site, &mine).await,
        before,
        "something was changed"
    );
}

/// The same arguments with sufficient rights. Without it, a refusal would prove little.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_works_for_who_may() {
    let site = rights_hub().await;
    let reads = TenantFixture::new(&site, "reads").await;
    for (number, operation) in table().rows().enumerate() {
        // A Hub without other nodes is never drained.
        if operation.name == "drain_node" {
            continue;
        }
        let scene = match operation.effect {
            Effect::Read => &reads,
            // It gets a fixture of its own.
            Effect::Change | Effect::Destroy => {
                &TenantFixture::new(&site, &format!("s{number}")).await
            }
        };
        if operation.name == "restore_tenant" {
            let path = format!("/v1/tenants/{}", scene.tenant);
            site.delete(&path).await.expect(204);
        }
        let arguments = scene.arguments(operation.name);
        for verb in operation.methods {
            let asked = RestRequest::new(operation, *verb, &arguments);
            let answer = site.send(asked.build(&site, &site.admin)).await;
            check_answer(operation, "admin", Outcome::Works, &arguments, &answer);
        }
        if operation.effect == Effect::Read && operation.toolset != Toolset::None {
            let era = &McpEra::Stateless;
            let result =
                mcp_client::call_tool(&site, &site.admin, era, operation.name, &arguments).await;
            check_tool(operation, "admin", Outcome::Works, &arguments, &result);
        }
    }
}
