//! The service manager that has started this process, and waits for signs of life on the socket that `NOTIFY_SOCKET` names.
//! Without that variable nothing is sent.

use std::{io, os::unix::net::UnixDatagram};

/// The socket of the service manager.
pub(crate) struct ServiceManagerSocket {
    socket: Option<(UnixDatagram, String)>,
}

impl ServiceManagerSocket {
    pub(crate) fn from_environment() -> Self {
        let address = std::env::var("NOTIFY_SOCKET").ok();
        let address = address.filter(|address| address.starts_with(['/', '@']));
        let socket = address.and_then(|address| match open_socket() {
            Ok(socket) => Some((socket, address)),
            Err(error) => {
                tracing::warn!(%error, "service manager cannot be notified");
                None
            }
        });
        Self { socket }
    }

    #[cfg(test)]
    pub(crate) fn at(address: &str) -> io::Result<Self> {
        Ok(Self {
            socket: Some((open_socket()?, address.to_owned())),
        })
    }

    pub(crate) fn notify_ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}", std::process::id()));
    }

    pub(crate) fn notify_stopping(&self) {
        self.send("STOPPING=1");
    }

    pub(crate) fn notify_alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        if let Err(error) = send_to(socket, address, message.as_bytes()) {
            tracing::warn!(%error, "service manager cannot be notified");
        }
    }
}

/// A service manager that reads nothing does not hold up this process: what its queue has no room for is not sent.
fn open_socket() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn send_to(socket: &UnixDatagram, address: &str, message: &[u8]) -> io::Result<()> {
    match address.strip_prefix('@') {
        None => socket.send_to(message, address).map(drop),
        Some(name) => send_to_abstract(socket, name, message),
    }
}

#[cfg(target_os = "linux")]
fn send_to_abstract(socket: &UnixDatagram, name: &str, message: &[u8]) -> io::Result<()> {
    use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
    let address = SocketAddr::from_abstract_name(name)?;
    socket.send_to_addr(message, &address).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn send_to_abstract(_: &UnixDatagram, _: &str, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
