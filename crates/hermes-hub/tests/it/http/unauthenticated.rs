//! Refused requests: they are logged, cannot fill the log, and do not affect others.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::test_hub::TestHub;

/// The status of the answer to a raw request.
async fn status_of(site: &TestHub, head: &str) -> u16 {
    let address = site.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = head
        .replace("TOKEN", &site.admin)
        .replace("ADDRESS", address);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(crate::test_hub::TIMEOUT, stream.read_to_string(&mut answer));
    read.await.expect("no answer in time").unwrap();
    let status = answer.split(' ').nth(1).unwrap_or_default();
    status.parse().unwrap_or_else(|_| panic!("{answer}"))
}

#[tokio::test]
async fn a_second_host_or_a_foreign_one_in_the_address_is_refused() {
    let site = TestHub::new().await;
    let rest = "Authorization: Bearer TOKEN\r\nConnection: close\r\n\r\n";
    for (expected, head) in [
        (200, "GET /v1/whoami HTTP/1.1\r\nHost: ADDRESS\r\n"),
        (
            200,
            "GET http://ADDRESS/v1/whoami HTTP/1.1\r\nHost: ADDRESS\r\n",
        ),
        (
            400,
            "GET /v1/whoami HTTP/1.1\r\nHost: ADDRESS\r\nHost: evil.example\r\n",
        ),
        (
            400,
            "GET /v1/whoami HTTP/1.1\r\nHost: evil.example\r\nHost: ADDRESS\r\n",
        ),
        (
            400,
            "GET /v1/whoami HTTP/1.1\r\nHost: ADDRESS\r\nHost: ADDRESS\r\n",
        ),
        (
            403,
            "GET http://evil.example/v1/whoami HTTP/1.1\r\nHost: ADDRESS\r\n",
        ),
        (
            403,
            "GET http://ADDRESS/v1/whoami HTTP/1.1\r\nHost: evil.example\r\n",
        ),
        (403, "GET /v1/whoami HTTP/1.1\r\nHost: evil.example\r\n"),
    ] {
        let status = status_of(&site, &format!("{head}{rest}")).await;
        assert_eq!(status, expected, "{head}");
    }
}

#[tokio::test]
async fn a_token_in_the_address_is_found_however_it_is_written() {
    let mut site = TestHub::new().await;
    let token = site.admin.clone();
    let encoded = |text: &str| {
        let bytes = text.bytes().map(|byte| format!("%{byte:02x}"));
        bytes.collect::<String>()
    };
    for query in [
        format!("x={token}"),
        format!("x={}", token.replace('_', "%5F")),
        format!("x={}", token.replace('_', "%255f")),
        format!("x={}", encoded(&token)),
        format!("x=Bearer%20{token}"),
        format!("{}=1", encoded(&token)),
        format!("a=b&{}=c", encoded("access_token")),
        "to%6ben=abc".to_owned(),
    ] {
        let path = format!("/v1/tenants?{query}");
        let answer = site.get(&path).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert!(!answer.text.contains(&token[9..20]), "{}", answer.text);
    }
    // Text about tokens in the query is allowed.
    site.get("/v1/tenants?search=hub%20mgmt").await.expect(200);
    site.restart().await;
    let audit = site.get("/v1/audit?limit=500").await;
    assert!(!audit.text.contains(&token[9..20]), "{}", audit.text);
}

#[tokio::test]
async fn wrong_tokens_slow_down_their_sender_and_no_valid_token() {
    let site =
        TestHub::with_settings(|settings, _| settings.limits.auth_failures_per_minute = 5).await;
    let other = TestHub::new().await;
    let ask = async |token: &str| {
        let request = site.request(token, Method::GET, "/v1/whoami");
        site.send(request).await.status
    };
    let mut refused = Vec::new();
    for number in 0..25 {
        // Different ones, and a valid one of another Hub.
        let wrong = format!("hub_mgmt_{number:043}_000000");
        refused.push(ask(if number == 24 { &other.admin } else { &wrong }).await);
    }
    assert_eq!(refused[..5], [401; 5], "{refused:?}");
    assert!(
        refused[10..].iter().all(|status| *status == 429),
        "{refused:?}"
    );
    assert_eq!(ask(&site.admin).await, 200);
    assert_eq!(ask("nonsense").await, 429);
    assert_eq!(ask(&site.admin).await, 200);
}

#[tokio::test]
async fn one_token_tried_in_variations_is_slowed_down_wherever_it_comes_from() {
    let site = TestHub::with_settings(|settings, _| {
        settings.limits.auth_failures_per_minute = 5;
        settings.trust_proxy = vec!["127.0.0.0/8".into()];
    })
    .await;
    let ask = async |token: &str, from: u8| {
        let request = site.request(token, Method::GET, "/v1/whoami");
        let request = request.header("x-forwarded-for", format!("10.0.0.{from}"));
        site.send(request).await.status
    };
    let mut statuses = Vec::new();
    for from in 0..10 {
        let guess = format!("{}{from}", &site.admin[..site.admin.len() - 1]);
        if guess != site.admin {
            statuses.push(ask(&guess, from).await);
        }
    }
    assert_eq!(statuses[..5], [401; 5], "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    assert_eq!(ask("hub_mgmt_zzzzzzzzzzzz", 200).await, 401);
    assert_eq!(ask(&site.admin, 0).await, 200);
}

fn entries(audit: &Value) -> &Vec<Value> {
    audit["entries"].as_array().unwrap()
}

#[tokio::test]
async fn nobody_fills_the_log_with_refusals_and_what_is_left_out_is_counted() {
    let mut site =
        TestHub::with_settings(|settings, _| settings.limits.auth_failures_per_minute = 5).await;
    let made = site.tenant(json!({"id": "acme"})).await;
    let key = made["runtimeKey"].as_str().unwrap().to_owned();
    for _ in 0..300 {
        let leaked = site.request(&key, Method::GET, "/v1/tenants");
        assert_eq!(site.send(leaked).await.status, 403);
    }
    site.restart().await;
    let audit = site.get("/v1/audit?action=runtime_key_refused").await;
    let audit = audit.expect(200);
    let written = entries(&audit).len();
    assert!((5..30).contains(&written), "{written}");
    assert!(
        entries(&audit)
            .iter()
            .all(|entry| entry["tenant"] == "acme")
    );
    let audit = site.get("/v1/audit?action=refusals_left_out").await;
    let audit = audit.expect(200);
    let left_out: usize = entries(&audit)
        .iter()
        .map(|entry| {
            let target = entry["target"].as_str().unwrap();
            let (count, sender) = target.split_once(' ').unwrap();
            assert_eq!(sender, "from 127.0.0.1");
            count.parse::<usize>().unwrap()
        })
        .sum();
    assert_eq!(written + left_out, 300);
}
