//! `hermes mcp demo`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use serde_json::json;

use crate::harness::test_home::TestHome;

#[test]
fn it_is_a_server_like_any_other() {
    let home = TestHome::with_servers(&[(
        "demo",
        json!({"command": env!("CARGO_BIN_EXE_hermes"), "args": ["mcp", "demo"]}),
    )]);
    let sum = home.run(&[
        "mcp", "call", "demo.add", "--arg", "a=2", "--arg", "b=40", "--json",
    ]);
    assert_eq!(sum.code, 0, "{sum:?}");
    assert!(sum.stdout.contains("42"), "{sum:?}");
}

#[test]
fn it_ends_when_its_client_goes() {
    let mut child = TestHome::fresh()
        .command(&["mcp", "demo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    writeln!(stdin, "{hello}").unwrap();
    let mut answer = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut answer).unwrap();
    assert!(answer.contains("hermes-demo"), "{answer}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
