//! As much of HTTP as a load client needs, so that little of a measured request is its own.

use std::str;

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Read at once.
const READ_SIZE: usize = 64 * 1024;

/// One connection that is kept.
pub(crate) struct RawConnection {
    stream: TcpStream,
    /// What was read; answers begin at its start.
    buffer: Vec<u8>,
    body: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct RawReply<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    /// The MCP session it opens.
    pub(crate) session: Option<String>,
    /// The cookie it sets, without attributes.
    pub(crate) cookie: Option<String>,
}

impl RawReply<'_> {
    /// Makes sure that it is a good one.
    pub(crate) fn check(&self) -> Result<()> {
        let is_failure = find(self.body, b"\"isError\":true").is_some();
        if !(200..300).contains(&self.status) || is_failure {
            let body = String::from_utf8_lossy(self.body);
            bail!("the answer is {} {}", self.status, body.trim());
        }
        Ok(())
    }
}

/// What the head of an answer says.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReplyHead {
    status: u16,
    length: Option<usize>,
    is_chunked: bool,
    session: Option<String>,
    cookie: Option<String>,
}

impl RawConnection {
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(READ_SIZE),
            body: Vec::new(),
        })
    }

    /// Sends a request and reads all of its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<RawReply<'_>> {
        let head = self.send_and_read_head(request).await?;
        self.body.clear();
        if head.is_chunked {
            while self.read_chunk().await? {}
        } else {
            let length = head.length.unwrap_or(0);
            self.fill_to(length).await?;
            self.body.extend(self.buffer.drain(..length));
        }
        Ok(RawReply {
            status: head.status,
            body: &self.body,
            session: head.session,
            cookie: head.cookie,
        })
    }

    /// Sends a request and reads its answer, a stream, until this text has come.
    pub(crate) async fn read_until(&mut self, request: &[u8], text: &[u8]) -> Result<()> {
        self.open_stream(request).await?;
        while find(&self.buffer, text).is_none() {
            self.read_more().await?;
        }
        Ok(())
    }

    /// Sends a request whose answer is a stream of events.
    pub(crate) async fn open_stream(&mut self, request: &[u8]) -> Result<()> {
        let head = self.send_and_read_head(request).await?;
        ensure!(head.status == 200, "the stream has status {}", head.status);
        Ok(())
    }

    /// The next event of the stream; nothing at its end. Each comes in a piece of its own.
    pub(crate) async fn next_event(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let data = b"data: ";
            if let Some(begin) = find(&self.buffer, data)
                && let Some(length) = find(&self.buffer[begin..], b"\n\n")
            {
                let event = self.buffer[begin + data.len()..begin + length].to_vec();
                self.buffer.drain(..begin + length);
                return Ok(Some(event));
            }
            if find(&self.buffer, b": stream closed").is_some() {
                return Ok(None);
            }
            self.read_more().await?;
        }
    }

    async fn send_and_read_head(&mut self, request: &[u8]) -> Result<ReplyHead> {
        self.stream.write_all(request).await?;
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head = ReplyHead::read(str::from_utf8(&self.buffer[..end])?)?;
        self.buffer.drain(..end);
        Ok(head)
    }

    /// Takes a piece of a body; whether it was not the last.
    async fn read_chunk(&mut self) -> Result<bool> {
        let line = loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                break at;
            }
            self.read_more().await?;
        };
        let length = usize::from_str_radix(str::from_utf8(&self.buffer[..line])?.trim(), 16)?;
        let start = line + 2;
        self.fill_to(start + length + 2).await?;
        self.body
            .extend_from_slice(&self.buffer[start..start + length]);
        self.buffer.drain(..start + length + 2);
        Ok(length > 0)
    }

    async fn fill_to(&mut self, length: usize) -> Result<()> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        Ok(())
    }

    async fn read_more(&mut self) -> Result<()> {
        self.buffer.reserve(READ_SIZE);
        let count = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(count > 0, "the server hung up");
        Ok(())
    }
}

impl ReplyHead {
    fn read(text: &str) -> Result<Self> {
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .context("no status")?;
        let mut head = Self {
            status: status.parse()?,
            ..Self::default()
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                head.length = Some(value.parse()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                head.is_chunked = value.eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                head.session = Some(value.to_owned());
            } else if name.eq_ignore_ascii_case("set-cookie") {
                head.cookie = value.split(';').next().map(str::to_owned);
            }
        }
        Ok(head)
    }
}

/// Where a text begins.
fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_whatever_the_case_of_its_names() {
        let text = "HTTP/1.1 202 Accepted\r\nContent-Length: 7\r\nMCP-Session-Id: abc\r\nSet-Cookie: a=b; Path=/\r\n\r\n";
        let expected = ReplyHead {
            status: 202,
            length: Some(7),
            is_chunked: false,
            session: Some("abc".into()),
            cookie: Some("a=b".into()),
        };
        assert_eq!(ReplyHead::read(text).unwrap(), expected);
        let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert!(ReplyHead::read(text).unwrap().is_chunked);
    }

    #[test]
    fn a_tool_that_failed_is_not_a_good_answer() {
        let answer = |status, body| RawReply {
            status,
            body,
            session: None,
            cookie: None,
        };
        assert!(answer(200, b"{\"isError\":false}").check().is_ok());
        assert!(answer(200, b"{\"isError\":true}").check().is_err());
        assert!(answer(429, b"").check().is_err());
    }
}
