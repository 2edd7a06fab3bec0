//! `hermes gateway`: as a process, with a model that answers by script, over real sockets.

mod accounts;
mod chats;
mod cron;
mod hub;
mod processes;
mod questions;
mod real_servers;
mod service;
mod setup;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use hermes_testkit::model::{ModelScript, ModelServer};
use serde_json::{Value, json};

use crate::harness::test_home::{BackgroundProcess, TIMEOUT, TestHome};

const KEY: &str = "0123456789abcdef";

/// A home that uses a model, and a gateway that works for it.
struct GatewayHome {
    home: TestHome,
    model: ModelServer,
}

impl GatewayHome {
    fn new(script: ModelScript) -> Self {
        Self::with_more(script, "")
    }

    fn with_more(script: ModelScript, more: &str) -> Self {
        let model = ModelServer::start(script);
        let home = TestHome::with_servers(&[]);
        home.write_config(&format!(
            "model: {{default: m, provider: custom, base_url: '{}'}}\nagent: {{api_max_retries: 0}}\n\
             api_server: {{port: 0}}\n{more}\n",
            model.base_url()
        ));
        Self { home, model }
    }

    /// Starts a gateway and waits until its API listens.
    fn start(&self) -> GatewayProcess {
        self.start_with(&["gateway", "run"])
    }

    fn start_with(&self, arguments: &[&str]) -> GatewayProcess {
        let mut command = self.home.command(arguments);
        command.env("API_SERVER_KEY", KEY);
        let mut process = BackgroundProcess::start(command);
        let line = process.wait_for("HTTP API on http://");
        let address = line.split("http://").nth(1).unwrap().trim().to_owned();
        GatewayProcess { process, address }
    }
}

/// A gateway and where its API is.
struct GatewayProcess {
    process: BackgroundProcess,
    address: String,
}

impl GatewayProcess {
    fn get(&self, path: &str) -> Value {
        self.request("GET", path, "", &Value::Null).1
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.request("POST", path, "", body)
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &Value) -> (u16, Value) {
        let stream = TcpStream::connect(&self.address).unwrap();
        send_request(stream, method, path, headers, body)
    }

    fn run(&self, body: &Value) -> String {
        let (status, started) = self.post("/v1/runs", body);
        assert_eq!(status, 202, "{started}");
        started["run_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has got so far.
    fn wait_for(&self, run: &str, status: &str) -> Value {
        let path = format!("/v1/runs/{run}");
        let mut shown = Value::Null;
        crate::harness::test_home::wait_until(status, || {
            shown = self.get(&path);
            shown["status"] == status
        });
        shown
    }

    /// All events of a run that is over.
    fn events(&self, run: &str) -> Vec<Value> {
        let stream = TcpStream::connect(&self.address).unwrap();
        let path = format!("/v1/runs/{run}/events");
        let text = exchange(stream, "GET", &path, "", &Value::Null);
        text.lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

/// One request on a connection of its own.
fn send_request(
    stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> (u16, Value) {
    let text = exchange(stream, method, path, headers, body);
    let status = text[9..12].parse().unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap_or(json!(body)))
}

fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> String {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let authorization = if headers.contains("Authorization") {
        String::new()
    } else {
        format!("Authorization: Bearer {KEY}\r\n")
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
