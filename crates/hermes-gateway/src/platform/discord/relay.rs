//! The gateway's WebSocket through the HTTP client, for systems that reach Discord by a proxy only.
//!
//! Twilight connects to a port of this machine. The handshake is repeated by the HTTP client, with its proxy and its
//! certificates; what follows is passed on as it is.

use std::{io, net::Ipv4Addr, sync::Arc, time::Duration};

use hermes_config::sync::Mutex;
use reqwest::{
    Client, Upgraded,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The opening of a WebSocket is far smaller.
const MAX_HEAD_BYTES: usize = 8 << 10;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A port that leads to the gateway until it is dropped.
pub(super) struct SocketRelay {
    port: u16,
    /// Why the gateway could not be reached last.
    failure: Arc<Mutex<Option<String>>>,
    /// Ends with the relay.
    _task: JoinSet<()>,
}

impl SocketRelay {
    /// `target`: the gateway, as `wss://host`.
    pub(super) async fn start(client: Client, target: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let target = match target.split_once("://") {
            Some(("wss", rest)) => format!("https://{rest}"),
            Some((_, rest)) => format!("http://{rest}"),
            None => target.to_owned(),
        };
        let failure = Arc::default();
        let told: Arc<Mutex<Option<String>>> = Arc::clone(&failure);
        let mut task = JoinSet::new();
        task.spawn(async move {
            // One at a time: a second connection begins when the first is over.
            while let Ok((mut stream, _)) = listener.accept().await {
                // It is open until the reason is known: whoever sees its end asks for that.
                if let Err(error) = relay(&client, &target, &mut stream).await {
                    tracing::info!(%error, "Discord gateway cannot be reached through the proxy");
                    *told.lock() = Some(error.to_string());
                }
            }
        });
        Ok(Self {
            port,
            failure,
            _task: task,
        })
    }

    /// Why the gateway could not be reached: twilight sees a connection that ends, no more.
    pub(super) fn take_failure(&self) -> Option<String> {
        self.failure.lock().take()
    }

    pub(super) fn address(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }
}

async fn relay(client: &Client, target: &str, stream: &mut TcpStream) -> io::Result<()> {
    let opening = open_upstream(client, target, stream);
    let opened = tokio::time::timeout(HANDSHAKE_TIMEOUT, opening).await;
    let mut upstream = opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    // How an open connection ends is seen at its near end.
    let _ = tokio::io::copy_bidirectional(stream, &mut upstream).await;
    Ok(())
}

/// Repeats the handshake of a stream, and answers it as it was answered.
async fn open_upstream(
    client: &Client,
    target: &str,
    stream: &mut TcpStream,
) -> io::Result<Upgraded> {
    let head = read_head(stream).await?;
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let path = head.split(' ').nth(1).unwrap_or("/");
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_key = name.trim().eq_ignore_ascii_case("sec-websocket-key");
        is_key.then(|| value.trim().to_owned())
    });
    let key = key.ok_or_else(|| invalid("the request does not open a WebSocket"))?;
    let response = client
        .get(format!("{target}{path}"))
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, key)
        .send()
        .await
        .map_err(|error| io::Error::other(crate::send::root_cause(&error.without_url())))?;
    let status = response.status().as_u16();
    let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    let accept = accept
        .and_then(|accept| accept.to_str().ok())
        .map(str::to_owned);
    let (101, Some(accept)) = (status, accept) else {
        return Err(invalid(&format!(
            "the WebSocket was refused with status {status}"
        )));
    };
    let upgraded = response.upgrade().await;
    let upgraded = upgraded.map_err(|error| io::Error::other(crate::send::root_cause(&error)))?;
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    Ok(upgraded)
}

/// Reads up to the empty line. A client sends nothing behind it before it is answered.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES || stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
