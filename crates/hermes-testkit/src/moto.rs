//! moto, an S3 server of others, as a program.

#![allow(
    clippy::expect_used,
    reason = "a test without its equipment ends here, and says which part of it"
)]

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{ReservedPort, wait_until};

const PROGRAMS_VARIABLE: &str = "HERMES_TEST_MOTO";
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Whether requests must be signed with keys that the server knows. It knows none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MotoKeys {
    Any,
    None,
}

/// A running server; it ends with this value.
#[derive(Debug)]
pub struct MotoServer {
    process: Child,
    address: SocketAddr,
    _port: ReservedPort,
}

impl MotoServer {
    /// Starts a server with an empty bucket.
    ///
    /// # Panics
    ///
    /// If moto is not installed, or does not start.
    pub fn start(bucket: &str, keys: MotoKeys) -> Self {
        let Some(programs) = std::env::var_os(PROGRAMS_VARIABLE) else {
            panic!(
                "{PROGRAMS_VARIABLE} is not set: `./test` installs moto and sets it; for a single test run \
                 `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`"
            );
        };
        let port = ReservedPort::reserve().expect("a port");
        let mut command = Command::new(PathBuf::from(programs).join("moto_server"));
        command
            .args(["-H", "127.0.0.1", "-p", &port.number().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if keys == MotoKeys::None {
            // Making the bucket is the one request that needs none.
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", "1");
        }
        let process = command.spawn().expect("moto_server");
        let server = Self {
            process,
            address: (Ipv4Addr::LOCALHOST, port.number()).into(),
            _port: port,
        };
        let listens = || TcpStream::connect(server.address).is_ok();
        assert!(wait_until(START_TIMEOUT, listens), "moto does not listen");
        server.make_bucket(bucket);
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn make_bucket(&self, bucket: &str) {
        let mut stream = TcpStream::connect(self.address).expect("moto answers");
        let request = format!(
            "PUT /{bucket} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }
}

impl Drop for MotoServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
