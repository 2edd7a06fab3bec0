//! pgbouncer in transaction mode.

#![allow(
    clippy::expect_used,
    reason = "a test without its equipment ends here, and says which part of it"
)]

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    TestDatabase,
    cluster::{AsServer, give_to_server},
};
use crate::{ReservedPort, wait_until};

/// A pooler before one database; it ends with this value.
#[derive(Debug)]
pub struct Pgbouncer {
    directory: tempfile::TempDir,
    port: u16,
    database: String,
    process: Option<Child>,
}

impl Pgbouncer {
    /// Lends connections of this database by transaction, from so many.
    ///
    /// # Panics
    ///
    /// If it is not installed, or does not start.
    pub fn start(database: &TestDatabase, connections: u32) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("hermes-pgbouncer-")
            .tempdir()
            .expect("a temporary directory");
        give_to_server(directory.path());
        let reserved = ReservedPort::reserve().expect("a port");
        let port = reserved.number();
        let settings = format!(
            "[databases]\n{name} = host=127.0.0.1 port={server} user=hermes\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = {connections}\n\
             max_client_conn = 200\nlogfile = {directory}/log\n",
            name = database.name(),
            server = database.cluster().port(),
            directory = directory.path().display(),
        );
        let file = directory.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("the configuration");
        give_to_server(&file);
        let mut pooler = Self {
            directory,
            port,
            database: database.name().to_owned(),
            process: None,
        };
        pooler.start_process();
        drop(reserved);
        pooler
    }

    fn start_process(&mut self) {
        let process = Command::new("pgbouncer")
            .arg(self.directory.path().join("pgbouncer.ini"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .as_server()
            .spawn();
        self.process = Some(process.unwrap_or_else(|error| {
            panic!("pgbouncer ({error}): `scripts/equipment install balancers` installs it")
        }));
        let port = self.port;
        let is_there = move || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(
            wait_until(Duration::from_secs(20), is_there),
            "pgbouncer does not listen: {}",
            fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
        );
    }

    /// Ends it with all connections, and starts it again.
    pub fn restart(&mut self) {
        self.stop();
        self.start_process();
    }

    /// Ends it with all connections.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn url(&self) -> String {
        format!(
            "postgres://hermes@127.0.0.1:{}/{}",
            self.port, self.database
        )
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        self.stop();
    }
}
