//! A request to a node over a connection of its own, with an end to every wait: nodes that stand still accept
//! connections and say nothing.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::Value;

/// What a node answered.
#[derive(Debug, Clone)]
pub struct NodeReply {
    pub status: u16,
    pub body: String,
}

impl NodeReply {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body, or null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoReply {
    /// Nobody listens: nothing was done.
    NotSent,
    /// It may have been done, and may still be.
    Unknown(io::Error),
}

/// A request without its node.
#[derive(Debug, Clone)]
pub struct NodeRequest {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Value>,
    pub idempotency_key: Option<String>,
}

impl NodeRequest {
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path, None)
    }

    pub fn new(method: &'static str, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method,
            path: path.into(),
            body,
            idempotency_key: None,
        }
    }

    /// Sends it to the node at a port of this machine.
    pub fn send(&self, port: u16, token: &str, timeout: Duration) -> Result<NodeReply, NoReply> {
        let end = Instant::now() + timeout;
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let mut stream =
            TcpStream::connect_timeout(&address, timeout).map_err(|_| NoReply::NotSent)?;
        let body = self.body.as_ref().map(Value::to_string).unwrap_or_default();
        let key = self.idempotency_key.as_deref();
        let key = key.map_or_else(String::new, |key| format!("Idempotency-Key: {key}\r\n"));
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n{key}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.method,
            self.path,
            body.len()
        );
        let answered = stream
            .set_write_timeout(Some(timeout))
            .and_then(|()| stream.write_all(format!("{head}{body}").as_bytes()))
            .and_then(|()| read_to_end(&mut stream, end))
            .and_then(|bytes| parse(&bytes));
        answered.map_err(NoReply::Unknown)
    }
}

fn read_to_end(stream: &mut TcpStream, end: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn parse(bytes: &[u8]) -> io::Result<NodeReply> {
    let broken = || io::Error::from(ErrorKind::InvalidData);
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    };
    let body = if header("transfer-encoding").is_some() {
        join_chunks(body).ok_or_else(broken)?
    } else {
        let length = header("content-length").and_then(|length| length.parse().ok());
        if length.is_some_and(|length: usize| body.len() < length) {
            return Err(broken());
        }
        body.to_owned()
    };
    Ok(NodeReply {
        status: status.ok_or_else(broken)?,
        body,
    })
}

/// The body of a reply in chunks; nothing if its end is missing.
fn join_chunks(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_or_none() {
        let whole = parse(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((whole.status, whole.body.as_str()), (201, "{}"));
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}").is_err());
        let chunks =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(parse(chunks).unwrap().body, "abc");
        assert!(
            parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n").is_err()
        );
    }
}
