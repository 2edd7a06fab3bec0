//! A streaming replica of a cluster, which can lag and take its place.

#![allow(
    clippy::expect_used,
    reason = "a test without its equipment ends here, and says which part of it"
)]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use super::cluster::{PostgresCluster, check, give_to_server};
use crate::wait_until;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A replica that listens on a socket only. It ends with this value.
#[derive(Debug)]
pub struct PostgresReplica {
    cluster: Arc<PostgresCluster>,
    directory: PathBuf,
    /// A link to the directory with the socket of whichever server is the primary one.
    primary: PathBuf,
}

impl PostgresReplica {
    /// Copies the cluster and follows it from then on.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(cluster: &Arc<PostgresCluster>) -> Self {
        let directory = cluster.directory().join("replica");
        fs::create_dir(&directory).expect("a directory");
        give_to_server(&directory);
        let primary = cluster.directory().join("primary");
        std::os::unix::fs::symlink(cluster.directory(), &primary).expect("a link");
        let replica = Self {
            cluster: Arc::clone(cluster),
            directory,
            primary,
        };
        let mut copy = cluster.server_program("pg_basebackup");
        copy.args([
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
            "-U",
            "hermes",
        ])
        .arg("-h")
        .arg(cluster.directory())
        .args(["-p", &cluster.port().to_string()])
        .arg("-D")
        .arg(replica.data());
        check(&copy.output(), "pg_basebackup");
        let settings = replica.data().join("postgresql.auto.conf");
        let mut file = fs::File::options()
            .append(true)
            .open(settings)
            .expect("the configuration");
        let lines = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nhot_standby = on\n",
            replica.directory.display()
        );
        file.write_all(lines.as_bytes()).expect("the configuration");
        replica.control(&["start", "-l"], Some(&replica.directory.join("log")));
        replica
    }

    /// A database of whichever server is the primary one.
    pub fn primary_url(&self, database: &str) -> String {
        url(&self.primary, self.cluster.port(), database)
    }

    /// Waits until it has everything that the cluster has committed.
    ///
    /// # Panics
    ///
    /// If it does not follow.
    pub fn wait_until_current(&self) {
        let written = self
            .cluster
            .run_sql("postgres", "SELECT pg_current_wal_lsn()");
        let has_it = || {
            let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn");
            self.try_sql(&replayed).is_ok_and(|reply| reply == "t")
        };
        assert!(wait_until(TIMEOUT, has_it), "the replica does not follow");
    }

    /// From now on it gets nothing any more.
    ///
    /// # Panics
    ///
    /// If it still does.
    pub fn cut_off(&self) {
        let cut = "ALTER SYSTEM SET primary_conninfo = ''";
        for sql in [cut, "SELECT pg_reload_conf()"] {
            self.try_sql(sql).expect("the replica answers");
        }
        let is_cut = || {
            let receivers = self.try_sql("SELECT count(*) FROM pg_stat_wal_receiver");
            receivers.is_ok_and(|count| count == "0")
        };
        assert!(wait_until(TIMEOUT, is_cut), "the replica still follows");
    }

    /// The server of the cluster is gone at once, and this one takes its place.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn take_over(&self) {
        self.cluster.stop_server();
        self.control(&["promote"], None);
        let next = self.cluster.directory().join("next");
        std::os::unix::fs::symlink(&self.directory, &next).expect("a link");
        fs::rename(next, &self.primary).expect("a link");
    }

    /// What `psql` prints, from the replica itself.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn run_sql(&self, database: &str, sql: &str) -> String {
        self.psql(database, sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn try_sql(&self, sql: &str) -> Result<String, String> {
        self.psql("postgres", sql)
    }

    fn psql(&self, database: &str, sql: &str) -> Result<String, String> {
        self.cluster.sql_at(&self.directory, database, sql)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn control(&self, arguments: &[&str], log: Option<&Path>) {
        let mut control = self.cluster.server_program("pg_ctl");
        control.args(["-w", "-t", "60"]).args(arguments).args(log);
        control.arg("-D").arg(self.data());
        // What it starts keeps the pipes open, so there are none.
        let status = control
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            status.as_ref().is_ok_and(std::process::ExitStatus::success),
            "pg_ctl {arguments:?} ({status:?}): {}",
            fs::read_to_string(self.directory.join("log")).unwrap_or_default()
        );
    }
}

impl Drop for PostgresReplica {
    fn drop(&mut self) {
        let mut stop: Command = self.cluster.server_program("pg_ctl");
        stop.args(["-m", "immediate", "-w", "stop", "-D"])
            .arg(self.data());
        let _ = stop.output();
    }
}

fn url(directory: &Path, port: u16, database: &str) -> String {
    let socket = directory.display().to_string().replace('/', "%2F");
    format!("postgres://hermes@{socket}:{port}/{database}")
}
