//! Table, router, OpenAPI, tool list and documents agree; replies match their schemas.

use hermes_hub::{
    operations::{HttpMethod, Output, Toolset, document, table},
    settings::ToolChoice,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    mcp_client::{self, McpEra},
    test_hub::TestHub,
};

async fn tools(site: &TestHub, token: &str, era: &McpEra) -> Vec<Value> {
    let reply = mcp_client::send_request(site, token, era, "tools/list", json!({})).await;
    reply["result"]["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn an_admin_sees_exactly_the_standard_tools_in_order() {
    let site = TestHub::new().await;
    let expected: Vec<_> = table()
        .rows()
        .filter(|operation| operation.toolset == Toolset::Standard)
        .map(|operation| operation.name)
        .collect();
    assert_eq!(expected.len(), 34);
    let session = mcp_client::open_session(&site, &site.admin).await;
    for era in [session, McpEra::Stateless] {
        let tools = tools(&site, &site.admin, &era).await;
        assert_eq!(names(&tools), expected);
        for tool in &tools {
            let operation = table().find(tool["name"].as_str().unwrap()).unwrap();
            assert_eq!(tool["title"], operation.title);
            assert_eq!(tool["description"], operation.description);
            assert_eq!(
                tool["inputSchema"],
                Value::Object(operation.input.tool_schema().clone())
            );
            assert!(tool["outputSchema"].is_object() && tool["annotations"].is_object());
        }
        let listed = |name: &str| {
            tools.iter().find(|tool| tool["name"] == name).unwrap()["annotations"].clone()
        };
        assert_eq!(listed("get_tenant")["readOnlyHint"], true);
        assert_eq!(listed("remove_share_path")["destructiveHint"], true);
        assert_eq!(listed("run_tenant_cron")["openWorldHint"], true);
    }
    let listed = mcp_client::send_request(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "tools/list",
        json!({}),
    )
    .await;
    assert_eq!(listed["result"]["cacheScope"], "private");
    assert!(listed["result"]["ttlMs"].is_u64());
    assert_eq!(listed["result"]["resultType"], "complete");
}

#[tokio::test]
async fn more_tools_and_read_only_tools_are_settings() {
    let site = TestHub::new().await;
    let mut settings = (*site.hub.settings()).clone();
    settings.mcp.tools = ToolChoice::Extended;
    site.hub.reload(&settings);
    let extended = tools(&site, &site.admin, &McpEra::Stateless).await;
    let all = table().rows();
    let all = all.filter(|operation| operation.toolset == Toolset::Extended);
    let all: Vec<_> = all.map(|operation| operation.name).collect();
    assert_eq!(names(&extended)[34..], all);
    assert!(names(&extended).contains(&"whoami"));
    settings.mcp.read_only = true;
    site.hub.reload(&settings);
    for tool in tools(&site, &site.admin, &McpEra::Stateless).await {
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
    }
    let refused = mcp_client::send_request(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "tools/call",
        json!({"name": "create_tenant", "arguments": {}}),
    )
    .await;
    assert_eq!(refused["error"]["code"], -32602);
}

#[tokio::test]
async fn clients_with_a_session_are_told_when_the_tools_change() {
    let site = TestHub::new().await;
    let McpEra::Session(id) = mcp_client::open_session(&site, &site.admin).await else {
        unreachable!()
    };
    let stream = site
        .request(&site.admin, Method::GET, "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", id);
    let mut stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let mut settings = (*site.hub.settings()).clone();
    settings.mcp.read_only = true;
    site.hub.reload(&settings);
    let mut seen = String::new();
    while !seen.contains("notifications/tools/list_changed") {
        let chunk = tokio::time::timeout(crate::test_hub::TIMEOUT, stream.chunk())
            .await
            .expect("nothing was told");
        seen.push_str(std::str::from_utf8(&chunk.unwrap().expect("the stream ended")).unwrap());
    }
}

#[tokio::test]
async fn every_row_has_its_route_and_every_route_its_row() {
    let site = TestHub::new().await;
    let document = document::openapi("http://hub");
    let paths = document["paths"].as_object().unwrap();
    let mut count = 0;
    for operation in table().rows() {
        let path = operation.path.replace("{*", "{");
        for verb in operation.methods {
            let described = &paths[&path][verb.as_str().to_lowercase()];
            assert!(
                described.is_object(),
                "{} is not in the OpenAPI document",
                operation.name
            );
            count += 1;
            // No route has this method; allowed methods are in the answer.
            let concrete: String = path
                .split('/')
                .map(|part| if part.starts_with('{') { "1" } else { part })
                .collect::<Vec<_>>()
                .join("/");
            let method = Method::from_bytes(verb.as_str().as_bytes()).unwrap();
            let answer = site.send(site.request("", method, &concrete)).await;
            let expected: &[u16] = if described["security"] == json!([]) {
                &[200]
            } else {
                &[401]
            };
            assert!(
                expected.contains(&answer.status),
                "{} {concrete}: {}",
                verb.as_str(),
                answer.status
            );
            let unknown = site
                .send(site.request(&site.admin, Method::from_bytes(b"LOCK").unwrap(), &concrete))
                .await;
            assert_eq!(unknown.status, 405, "{concrete}");
            assert!(
                unknown.header("allow").contains(verb.as_str()),
                "{concrete}"
            );
            assert_eq!(unknown.json()["status"], 405);
        }
    }
    let described: usize = paths
        .values()
        .map(|item| item.as_object().unwrap().len())
        .sum();
    assert_eq!(described, count);
    let served = site
        .send(site.request("", Method::GET, "/v1/openapi.json"))
        .await
        .expect(200);
    assert_eq!(served["paths"], document["paths"]);
    let (page, markdown) = (
        site.send(site.request("", Method::GET, "/reference")).await,
        document::markdown(),
    );
    for operation in table().rows() {
        assert!(page.text.contains(&format!("id=\"{}\"", operation.name)));
        assert!(markdown.contains(&format!("## `{}`", operation.name)));
    }
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    assert!(
        !page.text.contains("<script")
            && !page.text.contains("http://")
            && !page.text.contains("https://")
    );
    assert_eq!(
        site.send(site.request("", Method::GET, "/")).await.status,
        200
    );
}

#[tokio::test]
async fn what_reads_give_fits_their_schemas() {
    let site =
        TestHub::with_settings(|settings, _| settings.sync.allowed_roots = vec!["/sync".into()])
            .await
            .with_examples()
            .await;
    let run = site
        .post("/v1/tenants/tenant_123/runs", &json!({"input": "Hi"}))
        .await
        .expect(202);
    let run = run["runId"].as_str().unwrap().to_owned();
    site.put(
        "/v1/tenants/tenant_123/env/API_KEY",
        &json!({"value": "sk-0123456789abcdef"}),
    )
    .await
    .expect(204);
    let home = site.home("tenant_123");
    std::fs::write(home.join("workspace/a.txt"), "text\n").unwrap();
    crate::tenant_fixture::write_conversation(&home, "s1", "an invoice").await;
    let skill = json!({"files": [crate::tenant_fixture::skill_head("shared")]});
    site.put("/v1/skills/shared", &skill).await.expect(201);
    let webhook = json!({"url": "https://webhooks.invalid/", "events": ["quota.near"]});
    let webhook = site.post("/v1/webhooks", &webhook).await.expect(201);
    let mut looked_at = 0;
    for operation in table().rows() {
        let Output::Json(schema) = &operation.output else {
            continue;
        };
        if operation.methods[0] != HttpMethod::Get {
            continue;
        }
        let path = operation
            .path
            .replace("{tenant_id}", "tenant_123")
            .replace("{group_id}", "division1")
            .replace("{job_id}", "job_123")
            .replace("{run_id}", &run)
            .replace("{category}", "content")
            .replace("{skill}", "writer")
            .replace("{server}", "demo")
            .replace("{platform}", "telegram")
            .replace("{session_id}", "s1")
            .replace("{kind}", "memory")
            .replace("/v1/skills/{name}", "/v1/skills/shared")
            .replace("{webhook_id}", webhook["id"].as_str().unwrap())
            .replace("{*path}", "content/writer/SKILL.md");
        let query = match operation.name {
            "read_share_file" | "stat_share_path" => "?path=notes/report.md",
            "grep_share" | "grep_files" => "?pattern=invoice",
            "search_sessions" => "?query=invoice",
            "read_file" => "?path=a.txt",
            _ => "",
        };
        let answer = site.get(&format!("{path}{query}")).await;
        assert_eq!(
            !answer.header("etag").is_empty(),
            operation.is_versioned,
            "{}",
            operation.name
        );
        let value = answer.expect(200);
        let validator = jsonschema::validator_for(&Value::Object(schema.clone())).unwrap();
        let faults: Vec<_> = validator
            .iter_errors(&value)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{}: {faults:?}\n{value}", operation.name);
        looked_at += 1;
    }
    assert!(looked_at > 30, "only {looked_at} were looked at");
}
