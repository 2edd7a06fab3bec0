//! Proxies of the environment are used.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Command,
};

use super::{post_ping, settings};

/// Runs a request in a process of its own, since the environment belongs to the whole process. That process runs the
/// first test below, which finds the URL among its arguments.
fn request_in_child(url: &str, proxy: &str, no_proxy: &str) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "transport::http::proxy::the_proxy_of_the_environment_is_used",
        ])
        .arg(url)
        .env("HTTP_PROXY", proxy)
        .env("NO_PROXY", no_proxy)
        .env_remove("http_proxy")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    output.status.success()
}

fn request(url: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(post_ping(&settings(url, &[]))).unwrap();
}

/// Takes one request and answers it; returns its first line.
fn answer_once(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|window| window == b"ping") {
        let count = stream.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "the request ended early");
        request.extend_from_slice(&buffer[..count]);
    }
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let text = String::from_utf8(request).unwrap();
    text.lines().next().unwrap().to_owned()
}

#[test]
fn the_proxy_of_the_environment_is_used() {
    if let Some(url) = std::env::args().find(|argument| argument.starts_with("http://")) {
        return request(&url);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    std::thread::scope(|scope| {
        let line = scope.spawn(|| answer_once(&listener));
        assert!(request_in_child("http://mcp.invalid/mcp", &proxy, ""));
        assert_eq!(line.join().unwrap(), "POST http://mcp.invalid/mcp HTTP/1.1");
    });
}

#[test]
fn no_proxy_and_loopback_addresses_go_straight() {
    // Nothing listens there: a request through this proxy fails.
    let proxy = "http://127.0.0.1:1";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Leads to this machine as well, but is not a loopback address by its number.
    let unspecified = format!("http://0.0.0.0:{port}/mcp");
    assert!(!request_in_child(&unspecified, proxy, ""));
    std::thread::scope(|scope| {
        let lines = scope.spawn(|| [answer_once(&listener), answer_once(&listener)]);
        assert!(request_in_child(&unspecified, proxy, "0.0.0.0"));
        assert!(request_in_child(
            &format!("http://127.0.0.1:{port}/mcp"),
            proxy,
            ""
        ));
        assert_eq!(lines.join().unwrap(), ["POST /mcp HTTP/1.1"; 2]);
    });
}
