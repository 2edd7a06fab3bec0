//! Phoenix, a collector of traces of others, as a program.

#![allow(
    clippy::expect_used,
    reason = "a test without its equipment ends here, and says which part of it"
)]

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use crate::{ReservedPort, wait_until};

/// It loads a lot before it listens: half a minute on two cores that have nothing else to do.
const START_TIMEOUT: Duration = Duration::from_mins(5);

/// A running collector; it ends with this value.
#[derive(Debug)]
pub struct PhoenixServer {
    process: Child,
    address: SocketAddr,
    _ports: [ReservedPort; 2],
    _directory: TempDir,
}

impl PhoenixServer {
    /// Starts a collector without any traces.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(program: &Path) -> Self {
        let ports = [(); 2].map(|()| ReservedPort::reserve().expect("a port"));
        let directory = tempfile::tempdir().expect("a directory");
        let process = Command::new(program)
            .arg("serve")
            .env("PHOENIX_HOST", "127.0.0.1")
            .env("PHOENIX_PORT", ports[0].number().to_string())
            .env("PHOENIX_GRPC_PORT", ports[1].number().to_string())
            .env("PHOENIX_WORKING_DIR", directory.path())
            .env("PHOENIX_TELEMETRY_ENABLED", "false")
            .env("PHOENIX_ALLOW_EXTERNAL_RESOURCES", "false")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("phoenix");
        let server = Self {
            process,
            address: (Ipv4Addr::LOCALHOST, ports[0].number()).into(),
            _ports: ports,
            _directory: directory,
        };
        assert!(
            wait_until(START_TIMEOUT, || server.is_healthy()),
            "phoenix does not answer"
        );
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn is_healthy(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            write!(
                stream,
                "GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                self.address
            )?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            Ok(reply)
        };
        ask().is_ok_and(|reply| reply.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for PhoenixServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
