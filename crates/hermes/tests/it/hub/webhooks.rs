//! Webhooks of a Hub that is killed: what happened is still sent, under the same id.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use hermes_testkit::{ReservedPort, eventually, eventually_some};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::{harness::test_home::TestHome, hub::hub_process::HubProcess};

const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

/// The ids of what came to a target; each is answered with 200.
fn listen(listener: TcpListener) -> Arc<Mutex<Vec<String>>> {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ids);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let id = answer(stream.unwrap());
            seen.lock().unwrap().extend(id);
        }
    });
    ids
}

/// Reads a request up to the end of its head.
fn answer(mut stream: TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let id = lines.find_map(|line| line.strip_prefix("webhook-id: "))?;
    let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(reply).ok()?;
    Some(id.to_owned())
}

async fn ask(hub: &HubProcess, method: Method, path: &str, body: Value) -> Value {
    let client = Client::builder().no_proxy().build().unwrap();
    let request = client.request(method, format!("{}{path}", hub.url));
    let request = request.bearer_auth(hub.token());
    let request = request.header("content-type", "application/json");
    let answer = request.body(body.to_string()).send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_hub_had_not_delivered_is_delivered_by_the_next_one() {
    let settings = ["webhooks.allow_private=true"];
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let mut hub = HubProcess::with_settings(home, &settings);
    // Nobody listens there yet.
    let port = ReservedPort::reserve().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let webhook = json!({"url": format!("http://{address}/"), "events": ["tenant.created"]});
    let webhook = ask(&hub, Method::POST, "/v1/webhooks", webhook).await;
    let path = format!(
        "/v1/webhooks/{}/deliveries",
        webhook["id"].as_str().unwrap()
    );
    hub.run(&["tenant", "create", "acme"]).ok();
    let tried = eventually_some(TIMEOUT, async || {
        let client = Client::builder().no_proxy().build().unwrap();
        let request = client.get(format!("{}{path}", hub.url));
        let text = request.bearer_auth(hub.token()).send().await.unwrap();
        let found: Value = serde_json::from_str(&text.text().await.unwrap()).unwrap();
        let delivery = found["deliveries"][0].clone();
        (delivery["attempts"] == 1).then_some(delivery)
    });
    let tried = tried.await.expect("nothing was sent");
    assert_eq!(tried["state"], "pending");
    hub.process.kill();
    let ids = listen(TcpListener::bind(address).unwrap());
    let hub = HubProcess::with_settings(hub.home, &settings);
    let is_there = || !ids.lock().unwrap().is_empty();
    assert!(eventually(TIMEOUT, is_there).await, "it was lost");
    assert_eq!(*ids.lock().unwrap(), [tried["id"].as_str().unwrap()]);
    drop(hub);
}
