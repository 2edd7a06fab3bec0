//! Headers, with whatever bytes HTTP lets through.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{FuzzRun, RandomInput};
use crate::test_hub::{TIMEOUT, TestHub};
use serde_json::json;

const HEADERS: [&str; 18] = [
    "Last-Event-ID",
    "If-Match",
    "If-None-Match",
    "Range",
    "Idempotency-Key",
    "X-Request-Id",
    "Authorization",
    "Content-Type",
    "Content-Length",
    "Transfer-Encoding",
    "Accept",
    "Host",
    "Origin",
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "X-Forwarded-For",
];

fn value(chance: &mut RandomInput) -> Vec<u8> {
    if chance.once_in(4) {
        return chance.next().to_string().into_bytes();
    }
    let mut bytes = chance.text().into_bytes();
    // A line end would only start another header.
    bytes.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn no_header_is_a_fault() {
    let site = TestHub::new().await.with_examples().await;
    let own = "/v1/tenants/tenant_123";
    let run = site
        .post(&format!("{own}/runs"), &json!({"input": "Hi"}))
        .await
        .expect(202);
    let run = run["runId"].as_str().unwrap();
    std::fs::write(
        site.home("tenant_123").join("workspace/a.txt"),
        "some text\n",
    )
    .unwrap();
    let targets = [
        ("GET", format!("{own}/runs/{run}/events")),
        ("GET", own.to_owned()),
        ("GET", format!("{own}/files/download?path=a.txt")),
        ("GET", "/v1/healthz".into()),
        ("PATCH", own.to_owned()),
        ("POST", format!("{own}/agent-cron/job_123/pause")),
        ("PUT", format!("{own}/shares/division1/files/content")),
        ("POST", "/mcp".into()),
        ("GET", "/mcp".into()),
        ("DELETE", "/mcp".into()),
    ];
    let mut fuzzing = FuzzRun::start("headers");
    while fuzzing.next_round() {
        let chance = &mut fuzzing.random;
        let (method, target) = chance.one_of(&targets);
        let address = site.url.strip_prefix("http://").unwrap();
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n").into_bytes();
        let chosen: Vec<_> = (0..=chance.below(3))
            .map(|_| *chance.one_of(&HEADERS))
            .collect();
        let mut plain = vec![
            ("Host", address.to_owned()),
            ("Authorization", format!("Bearer {}", site.admin)),
        ];
        plain.push(("Content-Type", "application/json".into()));
        plain.push(("Accept", "application/json, text/event-stream".into()));
        plain.push(("Content-Length", "2".into()));
        plain.retain(|(name, _)| !chosen.contains(name));
        for (name, value) in plain {
            request.extend(format!("{name}: {value}\r\n").into_bytes());
        }
        for name in chosen {
            request.extend(format!("{name}: ").into_bytes());
            request.extend(value(chance));
            request.extend(b"\r\n");
        }
        request.extend(b"\r\n{}");
        let told = String::from_utf8_lossy(&request).into_owned();
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // It may be refused before all of it is sent.
            let _ = stream.write_all(&request).await;
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            answer
        };
        let answer = tokio::time::timeout(TIMEOUT, exchange).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer to {told}"));
        let answer = String::from_utf8_lossy(&answer);
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse::<u16>().ok());
        // A request that violates HTTP is disconnected. So is one that makes the Hub panic, but panics are recorded.
        assert!(status.is_none_or(|status| status < 500), "{told}\n{answer}");
    }
    site.get("/v1/readyz").await.expect(200);
}
