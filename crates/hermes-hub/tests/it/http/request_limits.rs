//! Requests that are too slow or too large, as bytes on a socket.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::test_hub::TestHub;

/// Sends a raw request and returns the answer.
async fn send_raw(site: &TestHub, request: &str) -> String {
    let address = site.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It may be refused before all of it was sent.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    let read = async {
        loop {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(count) => answer.extend_from_slice(&piece[..count]),
            }
            if answer.ends_with(b"}") {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_mins(2), read).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn headers_beyond_all_measure_are_refused_and_others_go_on() {
    let site = TestHub::new().await;
    let token = &site.admin;
    let request = |headers: &str| {
        format!(
            "GET /v1/tenants HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n",
            site.url.strip_prefix("http://").unwrap()
        )
    };
    let large = format!("X-Large: {}\r\n", "x".repeat(40_000));
    let endless = format!("X-Large: {}\r\n", "x".repeat(2_000_000));
    let header = |number: u32| format!("X-{number}: x\r\n");
    let many: String = (0..300).map(header).collect();
    for (headers, status) in [
        ("", "200"),
        (large.as_str(), "431"),
        (endless.as_str(), "431"),
        (many.as_str(), "431"),
        ("", "200"),
    ] {
        let answer = send_raw(&site, &request(headers)).await;
        let said: String = answer.chars().take(200).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let site = TestHub::new().await;
    let request = format!(
        "POST /v1/groups HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"id\":",
        site.url.strip_prefix("http://").unwrap(),
        site.admin
    );
    let began = Instant::now();
    let (slow, quick) = tokio::join!(send_raw(&site, &request), site.get("/v1/groups"));
    assert_eq!(quick.status, 200);
    assert!(slow.starts_with("HTTP/1.1 408"), "{slow}");
    assert!(slow.contains("send it faster"), "{slow}");
    assert!(began.elapsed() >= Duration::from_secs(25));
    let groups = site.get("/v1/groups").await.expect(200);
    assert_eq!(groups["groups"], serde_json::json!([]));
}
