//! Authentication, hosts, error format, and limits.

use super::*;

#[tokio::test]
async fn everything_but_health_needs_the_key() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let bare = |path: &str| service.client.get(format!("{}{path}", service.origin));
    let (status, body) = send(bare("/health")).await;
    assert_eq!((status, body), (StatusCode::OK, json!({"status": "ok"})));
    for path in [
        "/health/detailed",
        "/v1/models",
        "/v1/runs/run_1",
        "/api/jobs",
        "/nothing",
    ] {
        let (status, body) = send(bare(path)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(body["error"]["code"], "invalid_api_key");
        for wrong in ["0123456789abcdeg", "0123456789abcdef0", ""] {
            let (status, body) = send(bare(path).bearer_auth(wrong)).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path} {wrong}");
            assert!(!body.to_string().contains(KEY));
        }
    }
    assert_eq!(service.get("/v1/models").await["object"], "list");
}

#[tokio::test]
async fn errors_have_one_shape() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    for (method, path, status, code) in [
        (Method::GET, "/nothing", 404, "not_found"),
        (Method::DELETE, "/v1/runs", 405, "method_not_allowed"),
        (Method::GET, "/v1/runs/run_1", 404, "run_not_found"),
        (Method::POST, "/v1/runs/run_1/stop", 404, "run_not_found"),
        (Method::GET, "/v1/runs/run_1/events", 404, "run_not_found"),
        (Method::POST, "/v1/runs", 400, "invalid_json"),
        (Method::GET, "/api/sessions/none", 404, "session_not_found"),
        (Method::GET, "/api/jobs/none", 404, "job_not_found"),
    ] {
        let (found, body) = send(service.request(method, path)).await;
        assert_eq!(found.as_u16(), status, "{path} {body}");
        let error = body["error"].as_object().unwrap();
        assert_eq!(error["code"], code, "{path}");
        for key in ["message", "type", "param"] {
            assert!(error.contains_key(key), "{path} {key}");
        }
    }
}

#[tokio::test]
async fn another_name_for_this_machine_is_refused() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let request = service.request(Method::GET, "/v1/models");
    let (status, body) = send(request.header("Host", "evil.example")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(body["error"]["code"], "host_not_allowed");
}

#[tokio::test]
async fn a_body_beyond_ten_megabytes_is_refused() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let large = json!({"input": "x".repeat(10 * 1024 * 1024)});
    let (status, body) = service.post("/v1/runs", &large).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(body["error"]["code"], "body_too_large");
}

#[tokio::test]
async fn lists_tell_what_there_is() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    service.home.write(
        "skills/work/review/SKILL.md",
        "---\nname: review\ndescription: Reviews a change\n---\nLook twice.\n",
    );
    let skills = service.get("/v1/skills").await;
    assert_eq!(skills["skills"][0]["name"], "review");
    let toolsets = service.get("/v1/toolsets").await;
    let sets = toolsets["toolsets"].as_array().unwrap();
    assert!(
        sets.iter()
            .any(|set| set["name"] == "file" && set["kind"] == "built_in")
    );
    let capabilities = service.get("/v1/capabilities").await;
    let list = capabilities["capabilities"].as_array().unwrap();
    assert!(list.contains(&json!("approvals")));
    let health = service.get("/health/detailed").await;
    assert_eq!(health["pid"], std::process::id());
    assert_eq!(
        health["queues"],
        json!({
            "runs": 0, "turns": 0, "waiting": 0,
            "inbox": {"new": 0, "running": 0}, "outbox": {"queued": 0, "failed": 0},
        })
    );
    assert_eq!(health["mcp_servers"], json!([]));
}
