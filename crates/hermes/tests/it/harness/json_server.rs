//! A web service on a loopback port that answers by path, for what no fake platform says.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

/// An answer: for requests whose path ends with this text.
#[derive(Clone)]
pub(crate) struct JsonRoute {
    pub(crate) path: &'static str,
    pub(crate) status: u16,
    pub(crate) header: &'static str,
    pub(crate) body: Value,
}

impl JsonRoute {
    pub(crate) fn new(path: &'static str, body: Value) -> Self {
        Self {
            path,
            status: 200,
            header: "",
            body,
        }
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// `Name: value`.
    pub(crate) fn with_header(mut self, header: &'static str) -> Self {
        self.header = header;
        self
    }
}

/// The service. Its thread ends with the test's process.
pub(crate) struct JsonServer {
    pub(crate) base_url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl JsonServer {
    pub(crate) fn start(routes: Vec<JsonRoute>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &routes, &log);
            }
        });
        Self { base_url, seen }
    }

    /// The request lines so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, routes: &[JsonRoute], log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    reader.read_line(&mut request).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() <= 2 {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    log.lock().unwrap().push(request.trim().to_owned());
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let found = routes.iter().find(|route| path.ends_with(route.path));
    let (status, header, body) = match found {
        Some(route) => (route.status, route.header, route.body.to_string()),
        None => (404, "", r#"{"ok":false,"error":"not_found"}"#.to_owned()),
    };
    let header = if header.is_empty() {
        String::new()
    } else {
        format!("{header}\r\n")
    };
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n{header}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
}
