//! A reserved loopback port, whether anybody listens on it or not.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::TcpSocket;

/// A port on which nobody listens: connections are refused.
///
/// A port that was merely free a moment ago may be another test's a moment later, for all of them ask for any that is
/// free. This one is bound, and so it is given only to those who ask for its number, where the system allows that.
#[derive(Debug)]
pub struct ReservedPort {
    _socket: TcpSocket,
    number: u16,
}

impl ReservedPort {
    /// Takes a free port.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn reserve() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Linux then lets others listen there who ask for this very port.
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self {
            number: socket.local_addr()?.port(),
            _socket: socket,
        })
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn nobody_listens_there_and_whoever_asks_for_any_port_gets_another() {
        let kept = ReservedPort::reserve().unwrap();
        let address = (Ipv4Addr::LOCALHOST, kept.number());
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        for _ in 0..1000 {
            let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            assert_ne!(other.local_addr().unwrap().port(), kept.number());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_may_come_and_go_there() {
        let kept = ReservedPort::reserve().unwrap();
        let address = (Ipv4Addr::LOCALHOST, kept.number());
        for _ in 0..2 {
            let listener = TcpListener::bind(address).unwrap();
            TcpStream::connect(address).unwrap();
            drop(listener);
            assert!(TcpStream::connect(address).is_err());
        }
    }
}
