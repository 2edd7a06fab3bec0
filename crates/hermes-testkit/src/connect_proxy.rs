//! An HTTP proxy that knows a few names, of which no resolver knows any.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    script::lock,
    server_thread::{BoundPort, ServerThread},
};

const MAX_HEAD_BYTES: usize = 16 << 10;

/// A proxy on a loopback port; it stops when dropped.
pub struct ConnectProxy {
    asked: Arc<Mutex<Vec<String>>>,
    thread: ServerThread,
}

impl ConnectProxy {
    /// Starts a proxy that leads these names to these ports, and refuses all others.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start<'a>(routes: impl IntoIterator<Item = (&'a str, SocketAddr)>) -> Self {
        let routes = routes
            .into_iter()
            .map(|(name, target)| (name.to_owned(), target));
        let routes: Arc<HashMap<String, SocketAddr>> = Arc::new(routes.collect());
        let asked = Arc::default();
        let seen = Arc::clone(&asked);
        let started =
            BoundPort::bind(0).and_then(|port| port.serve(|socket| serve(socket, routes, seen)));
        match started {
            Ok(thread) => Self { asked, thread },
            Err(error) => panic!("cannot start a proxy: {error}"),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.thread.address())
    }

    /// The hosts that were asked for, in order.
    pub fn hosts(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }
}

async fn serve(
    socket: TcpListener,
    routes: Arc<HashMap<String, SocketAddr>>,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = socket.accept().await {
        let (routes, asked) = (Arc::clone(&routes), Arc::clone(&asked));
        connections.spawn(async move { pass_on(stream, &routes, &asked).await });
    }
}

/// Leads one connection to where its first request wants to go.
async fn pass_on(
    mut near: TcpStream,
    routes: &HashMap<String, SocketAddr>,
    asked: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let head = read_head(&mut near).await?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut words = text.split(' ');
    let is_tunnel = words.next() == Some("CONNECT");
    let target = words.next().unwrap_or_default();
    // `host:443`, or `http://host:80/path`.
    let authority = target.split_once("://").map_or(target, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.split(':').next().unwrap_or_default();
    lock(asked).push(host.to_owned());
    let Some(route) = routes.get(host) else {
        let refusal = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return near.write_all(refusal).await;
    };
    let mut far = TcpStream::connect(route).await?;
    if is_tunnel {
        near.write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n")
            .await?;
    } else {
        far.write_all(&head).await?;
    }
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

/// Reads up to the empty line, and whatever came with it.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES || stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}
