//! Another process that keeps a database for itself.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Keeps the database until its stdin closes.
const LOCK_SCRIPT: &str = "
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute('PRAGMA journal_mode = DELETE')
connection.execute('BEGIN EXCLUSIVE')
print('locked', flush=True)
sys.stdin.read()
";

/// A lock on an SQLite database, held by another process until this is dropped.
pub struct DatabaseLock(Child);

impl DatabaseLock {
    /// Takes the lock. A database that does not exist is made.
    ///
    /// # Panics
    ///
    /// If it cannot be had.
    pub fn acquire(database: &Path) -> Self {
        let locker = Command::new("python3")
            .args(["-c", LOCK_SCRIPT])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut locker = locker.unwrap_or_else(|error| panic!("no python3: {error}"));
        let mut line = String::new();
        if let Some(output) = locker.stdout.take() {
            let _ = BufReader::new(output).read_line(&mut line);
        }
        assert_eq!(line, "locked\n", "{}", database.display());
        Self(locker)
    }
}

impl Drop for DatabaseLock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
