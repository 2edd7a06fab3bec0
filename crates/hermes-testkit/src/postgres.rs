//! PostgreSQL for tests: an ephemeral cluster, databases in it, and a pooler before it.
//!
//! Each test is a process of its own, and they share one cluster: the first that needs it starts it. Users hold a shared
//! lock on a file. A small program that waits for the exclusive lock ends the cluster when the last one is gone,
//! however that ended.

mod cluster;
mod pooler;
mod replica;

pub use cluster::PostgresCluster;
pub use pooler::Pgbouncer;
pub use replica::PostgresReplica;

use std::{fmt::Write as _, sync::Arc};

/// A database of its own, gone with this value.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    cluster: Arc<PostgresCluster>,
}

impl TestDatabase {
    /// In the cluster that all tests share.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed, or does not start.
    pub fn create() -> Self {
        Self::create_in(&Arc::new(PostgresCluster::shared()))
    }

    /// In the cluster of PostgreSQL 18 that all tests share.
    ///
    /// # Panics
    ///
    /// If it is not installed, or does not start.
    pub fn create_18() -> Self {
        Self::create_in(&Arc::new(PostgresCluster::shared_18()))
    }

    /// In a cluster of the caller.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn create_in(cluster: &Arc<PostgresCluster>) -> Self {
        let mut name = format!("t_{}", std::process::id());
        for word in std::thread::current().name().unwrap_or_default().chars() {
            // The name of the test, as far as a name may be long.
            if name.len() < 50 && (word.is_ascii_lowercase() || word == '_') {
                name.push(word);
            }
        }
        name.push_str(&next_number());
        cluster.run_sql("postgres", &format!("CREATE DATABASE {name}"));
        Self {
            name,
            cluster: Arc::clone(cluster),
        }
    }

    /// Over the socket of the cluster.
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Over a port of this machine.
    pub fn tcp_url(&self) -> String {
        format!(
            "postgres://hermes@127.0.0.1:{}/{}",
            self.cluster.port(),
            self.name
        )
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cluster(&self) -> &Arc<PostgresCluster> {
        &self.cluster
    }

    /// Whether a text is anywhere in its tables, as it is or as bytes.
    ///
    /// # Panics
    ///
    /// If they cannot be read.
    pub fn contains(&self, text: &str) -> bool {
        let tables = self.run_sql(
            "SELECT quote_ident(table_name) FROM information_schema.tables
             WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
        );
        let bytes = text.bytes().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        tables.lines().any(|table| {
            let rows = self.run_sql(&format!("SELECT one::text FROM {table} AS one"));
            rows.contains(text) || rows.contains(&bytes)
        })
    }

    /// What `psql` prints for a statement: the values alone.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn run_sql(&self, sql: &str) -> String {
        self.cluster.run_sql(&self.name, sql)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // The cluster may be stopped already, and is removed with all its databases.
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let _ = self.cluster.try_sql("postgres", &sql);
    }
}

fn next_number() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
