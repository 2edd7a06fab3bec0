//! Hostile input.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    mcp_client::{self, McpEra},
    test_hub::{TIMEOUT, TestHub},
};

const SHARE_ROUTE: &str = "/v1/tenants/tenant_123/shares/division1";
const CRON_ROUTE: &str = "/v1/tenants/tenant_123/agent-cron";

/// Announces a body of a gigabyte and sends it until an answer arrives; returns the start of the answer.
async fn send_gigabyte(site: &TestHub, method: &str, path: &str, begin: &str) -> (String, u64) {
    let address = site.url.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{begin}",
        site.admin,
        1_u64 << 30,
    );
    writer.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; 1 << 20];
    let sent = AtomicU64::new(0);
    let sending = async {
        // Until the Hub accepts no more.
        while writer.write_all(&piece).await.is_ok() {
            sent.fetch_add(1, Ordering::Relaxed);
        }
        std::future::pending::<()>().await;
    };
    let mut answer = vec![0; 2000];
    let read = tokio::select! {
        read = tokio::time::timeout(TIMEOUT, reader.read(&mut answer)) => read,
        () = sending => unreachable!(),
    };
    let read = read.expect("no answer").unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    (answer, sent.into_inner())
}

#[tokio::test]
async fn a_write_of_a_gigabyte_is_refused_before_it_has_arrived() {
    let site = TestHub::new().await.with_examples().await;
    let begin = r#"{"path": "huge.txt", "content": ""#;
    let path = format!("{SHARE_ROUTE}/files/content");
    let (answer, sent) = send_gigabyte(&site, "PUT", &path, begin).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(sent < 200, "{sent} MiB were taken");
    let (answer, sent) = send_gigabyte(&site, "POST", "/mcp", begin).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(sent < 200, "{sent} MiB were taken");
    // One that fits into a body, but not into a file.
    let large = json!({"path": "huge.txt", "content": "x".repeat(9 << 20)});
    let refused = site.put(&path, &large).await.expect(413);
    assert_eq!(refused["code"], "payload_too_large");
    site.get(&format!("{SHARE_ROUTE}/stat?path=huge.txt"))
        .await
        .expect(404);
}

#[tokio::test]
async fn no_schedule_is_shorter_than_a_minute() {
    let site = TestHub::new().await.with_examples().await;
    for schedule in [
        "* * * * * *",
        "*/1 * * * * *",
        "every 1s",
        "every 30 seconds",
        "every 0m",
        "every 0.001m",
        "1s",
        "every -5m",
        "@secondly",
        "every 99999999999999999999m",
    ] {
        let job = json!({"schedule": schedule, "prompt": "x"});
        let answer = site.post(CRON_ROUTE, &job).await;
        assert!(
            [400, 422].contains(&answer.status),
            "{schedule}: {}",
            answer.text
        );
        let patch = json!({"schedule": schedule});
        let answer = site.patch(&format!("{CRON_ROUTE}/job_123"), &patch).await;
        assert!(
            [400, 422].contains(&answer.status),
            "{schedule}: {}",
            answer.text
        );
    }
    let jobs = site.get(CRON_ROUTE).await.expect(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_policy_that_is_nonsense_changes_nothing() {
    let site = TestHub::new().await;
    let before = site.get("/v1/agent-policy").await.expect(200);
    for policy in [
        json!({"tools": 5}),
        json!({"tools": {"allow": "*"}}),
        json!({"tools": {"allow": [5]}}),
        json!({"tools": {"allow": [], "extra": 1}}),
        json!({"version": 2}),
        json!({"version": "one"}),
        json!({"features": {"enabled": ["time_travel"]}}),
        json!({"features": []}),
        json!({"cron": {"maxJobs": -1}}),
        json!({"cron": {"minIntervalMinutes": 0.5}}),
        json!({"runs": {"maxConcurrent": "four"}}),
        json!({"approvals": {"timeoutSeconds": -1}}),
        json!({"approvals": {"onTimeout": "perhaps"}}),
        json!({"egress": {"denyPrivateNetworks": "yes"}}),
        json!({"anything": {}}),
        json!({"tools": null, "polcy": 1}),
    ] {
        let refused = site.put("/v1/agent-policy", &policy).await;
        assert_eq!(refused.status, 422, "{policy}: {}", refused.text);
        let problem = refused.json();
        let field = problem["details"][0]["field"].as_str().unwrap();
        assert!(
            field.is_empty() || field.starts_with('/'),
            "{policy}: {problem}"
        );
        let arguments = json!({"policy": policy});
        let over_mcp = mcp_client::call_for_problem(
            &site,
            &site.admin,
            &McpEra::Stateless,
            "put_agent_policy",
            &arguments,
        )
        .await;
        assert_eq!(over_mcp["status"], 422, "{policy}");
    }
    for body in ["[]", "5", "\"deny everything\"", "null"] {
        let request = site
            .request(&site.admin, reqwest::Method::PUT, "/v1/agent-policy")
            .header("content-type", "application/json")
            .body(body);
        assert_eq!(site.send(request).await.status, 400, "{body}");
    }
    assert_eq!(site.get("/v1/agent-policy").await.expect(200), before);
}

#[tokio::test]
async fn a_patch_with_unknown_keys_changes_nothing_and_names_them() {
    let site = TestHub::new().await.with_examples().await;
    let patches = [
        (
            "/v1/tenants/tenant_123",
            json!({"displayName": "X", "colour": "red"}),
            400,
        ),
        (
            "/v1/tenants/tenant_123",
            json!({"agent": {"colour": "red"}}),
            400,
        ),
        ("/v1/tenants/tenant_123", json!({"id": "other"}), 400),
        ("/v1/tenants/tenant_123", json!({"status": "ready"}), 400),
        (
            "/v1/groups/division1",
            json!({"displayName": "X", "colour": "red"}),
            400,
        ),
        (
            "/v1/config/tenant-impact",
            json!({"feature": {}, "colour": "red"}),
            422,
        ),
        (
            "/v1/config/tenant-impact",
            json!({"agent": {"colour": "red"}}),
            422,
        ),
        (
            "/v1/config/tenant-impact",
            json!({"listen": "0.0.0.0:80"}),
            422,
        ),
    ];
    for (path, patch, status) in patches {
        let before = site.get(path).await.expect(200);
        let refused = site.patch(path, &patch).await;
        assert_eq!(refused.status, status, "{path} {patch}: {}", refused.text);
        let named = ["colour", "id", "status", "listen"];
        assert!(
            named.iter().any(|name| refused.text.contains(name)),
            "{}",
            refused.text
        );
        let after = site.get(path).await.expect(200);
        assert_eq!(
            after["displayName"], before["displayName"],
            "{path} {patch}"
        );
        assert_eq!(after["revision"], before["revision"], "{path} {patch}");
    }
    // Members that only the agent writes are refused.
    for patch in [
        json!({"id": "other"}),
        json!({"last_run_at": "now"}),
        json!({"state": "running"}),
    ] {
        let refused = site.patch(&format!("{CRON_ROUTE}/job_123"), &patch).await;
        assert_eq!(refused.status, 400, "{patch}: {}", refused.text);
    }
}

#[tokio::test]
async fn patterns_built_to_explode_are_refused_or_end_in_time() {
    let site = TestHub::new().await.with_examples().await;
    let content = json!({"path": "long.txt", "content": "x".repeat(200_000)});
    site.put(&format!("{SHARE_ROUTE}/files/content"), &content)
        .await
        .expect(201);
    let began = Instant::now();
    for (pattern, status) in [
        (r"(\pL{1,200}){1,200}", 400),
        ("(a{1,1000}){1,1000}", 400),
        ("((((a{1,10}){1,10}){1,10}){1,10}){1,10}", 400),
        ("(x+x+)+y", 200),
        ("(x*)*y", 200),
        ("(x|x)*y", 200),
        ("(.*)(.*)(.*)(.*)(.*)(.*)y", 200),
        ("x{1000}y", 200),
    ] {
        let answer = site
            .post(&format!("{SHARE_ROUTE}/grep"), &json!({"pattern": pattern}))
            .await;
        assert_eq!(answer.status, status, "{pattern}: {}", answer.text);
    }
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn the_root_stays_and_nothing_moves_into_itself() {
    let site = TestHub::new().await.with_examples().await;
    for root in ["", ".", "./", "notes/.."] {
        for recursive in ["false", "true"] {
            let path = format!("{SHARE_ROUTE}/files?path={root}&recursive={recursive}");
            site.delete(&path).await.expect(400);
        }
        let (from, to) = (
            json!({"from": root, "to": "x"}),
            json!({"from": "notes", "to": root}),
        );
        for body in [from, to] {
            let answer = site.post(&format!("{SHARE_ROUTE}/move"), &body).await;
            assert!(
                [400, 409].contains(&answer.status),
                "{body}: {}",
                answer.text
            );
        }
    }
    for to in ["notes", "notes/deeper", "notes/a/b/c", "./notes/x"] {
        let body = json!({"from": "notes", "to": to});
        let answer = site.post(&format!("{SHARE_ROUTE}/move"), &body).await;
        assert!([400, 409].contains(&answer.status), "{to}: {}", answer.text);
    }
    let text = site
        .get(&format!("{SHARE_ROUTE}/files/content?path=notes/report.md"))
        .await;
    assert_eq!(text.expect(200)["content"], "an invoice\na Receipt\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_appends_at_once_are_all_whole() {
    let site = TestHub::new().await.with_examples().await;
    let appends = (0..100).map(|number| {
        let line = format!("{number:03} {}\n", "x".repeat(500));
        let body = json!({"path": "log.txt", "content": line, "mode": "append"});
        let site = &site;
        async move {
            site.put(&format!("{SHARE_ROUTE}/files/content"), &body)
                .await
                .status
        }
    });
    let statuses = futures::future::join_all(appends).await;
    let text = site
        .get(&format!("{SHARE_ROUTE}/files/content?path=log.txt"))
        .await
        .expect(200);
    let lines: Vec<_> = text["content"].as_str().unwrap().lines().collect();
    let is_whole = |line: &&str| line.len() == 504 && line[4..].bytes().all(|byte| byte == b'x');
    assert!(lines.iter().all(is_whole), "{lines:?}");
    let mut acknowledged = 0;
    for (number, status) in statuses.iter().enumerate() {
        let begin = format!("{number:03} ");
        let count = lines.iter().filter(|line| line.starts_with(&begin)).count();
        match status {
            200 | 201 => assert_eq!(count, 1, "{number}"),
            // A machine under load may not write all of it in time.
            503 => assert!(count <= 1, "{number}"),
            other => panic!("{number}: {other}"),
        }
        acknowledged += usize::from(*status != 503);
    }
    assert!(acknowledged > 10, "{statuses:?}");
}

#[tokio::test]
async fn an_mcp_session_that_has_ended_cannot_be_replayed() {
    let site = TestHub::new().await;
    let session = mcp_client::open_session(&site, &site.admin).await;
    let McpEra::Session(id) = &session else {
        unreachable!()
    };
    let ended = site
        .request(&site.admin, reqwest::Method::DELETE, "/mcp")
        .header("mcp-session-id", id);
    assert_eq!(site.send(ended).await.status, 204);
    for again in [
        id.clone(),
        id.to_uppercase(),
        format!(" {id}"),
        format!("{id}{id}"),
        "0".repeat(64),
    ] {
        let era = McpEra::Session(again);
        let list = mcp_client::mcp_request(&site, &site.admin, &era, "tools/list", json!({}));
        assert_eq!(site.send(list).await.status, 404);
        // Nor can it be revived by `initialize` with its id.
        let greeting = mcp_client::initialize(&site, &site.admin);
        let McpEra::Session(again) = &era else {
            unreachable!()
        };
        let answer = site
            .send(greeting.header("mcp-session-id", again.trim()))
            .await;
        assert_ne!(answer.header("mcp-session-id"), id, "{}", answer.text);
    }
}

#[tokio::test]
async fn a_tenant_that_keeps_its_lock_is_told_of_and_holds_up_only_itself() {
    let site = TestHub::new().await.with_examples().await;
    let lock = site.home("tenant_123").join("cron/.jobs.lock");
    let held = std::fs::File::options()
        .append(true)
        .create(true)
        .open(lock)
        .unwrap();
    held.lock().unwrap();
    let job = json!({"schedule": "every 1h", "prompt": "x"});
    let refused = site.post(CRON_ROUTE, &job).await.expect(503);
    assert_eq!(refused["reason"], "busy", "{refused}");
    site.get(CRON_ROUTE).await.expect(200);
    drop(held);
    site.post(CRON_ROUTE, &job).await.expect(201);
}
