//! Consistent copies of databases in homes. Agents write to them at the same time and may replace them at any moment,
//! while SQLite opens files by path only. So a database is hard-linked into the Hub's own directory and opened there:
//! it is the same file with the same locks, and nobody can replace it by a symlink.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use hermes_store::db;
use rustix::{
    fs::{AtFlags, CWD, FileType, linkat, statat},
    io::Errno,
    path::Arg,
};
use tokio::task::spawn_blocking;

use crate::storage::backup::scan::open_parent;

/// The files of a SQLite database.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];
/// An agent may start or stop during a copy.
const MAX_COPY_ATTEMPTS: u32 = 5;

/// A database hard-linked into the Hub's directory.
struct LinkedDatabase {
    /// Its directory in the home.
    home: OwnedFd,
    name: std::ffi::OsString,
    link_path: PathBuf,
}

/// Copies the database at a path below the root to a new file in a directory of the Hub.
pub(super) async fn copy_database(root: &Path, path: &Path, copy: &Path) -> io::Result<()> {
    for _ in 0..MAX_COPY_ATTEMPTS {
        let (root, path) = (root.to_owned(), path.to_owned());
        let second = copy.with_extension("link");
        let link = spawn_blocking(move || LinkedDatabase::new(&root, &path, second));
        let linked = link.await.map_err(io::Error::other)??;
        let copied = db::copy_database(&linked.link_path, copy).await;
        if linked.is_unchanged() {
            return copied.map_err(io::Error::other);
        }
        let _ = fs::remove_file(copy);
    }
    Err(io::Error::other("it keeps being replaced"))
}

impl LinkedDatabase {
    fn new(root: &Path, path: &Path, second: PathBuf) -> io::Result<Self> {
        let linked = Self {
            home: open_parent(root, path)?,
            name: path.file_name().unwrap_or_default().to_owned(),
            link_path: second,
        };
        for suffix in SUFFIXES {
            let (from, to) = (linked.name_in_home(suffix), linked.linked_path(suffix));
            match linkat(&linked.home, &from, CWD, &to, AtFlags::empty()) {
                Err(Errno::NOENT) if !suffix.is_empty() => continue,
                made => made?,
            }
            // `linkat` does not follow a symlink but links it.
            if !fs::symlink_metadata(&to)?.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
        }
        Ok(linked)
    }

    fn name_in_home(&self, suffix: &str) -> std::ffi::OsString {
        let mut name = self.name.clone();
        name.push(suffix);
        name
    }

    fn linked_path(&self, suffix: &str) -> PathBuf {
        let mut path = self.link_path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// Whether database and log are still the linked files. The locks of a log created since would not be seen here.
    fn is_unchanged(&self) -> bool {
        ["", "-wal", "-journal"].iter().all(|suffix| {
            let there = file_identity(&self.home, self.name_in_home(suffix));
            let here = fs::symlink_metadata(self.linked_path(suffix)).ok();
            let here = here.map(|metadata| (metadata.dev(), metadata.ino()));
            // SQLite creates an empty log for a reader if there is none.
            there == here || there.is_none() && *suffix == "-wal"
        })
    }
}

impl Drop for LinkedDatabase {
    fn drop(&mut self) {
        for suffix in SUFFIXES {
            let _ = fs::remove_file(self.linked_path(suffix));
        }
    }
}

/// Device and inode of a file, if it exists.
fn file_identity(directory: impl AsFd, name: impl Arg) -> Option<(u64, u64)> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    is_file.then_some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, time::Duration};

    use hermes_store::db::{Database, DatabaseOptions, Durability};

    use super::*;

    const OPENING: DatabaseOptions<'static> = DatabaseOptions {
        steps: &["CREATE TABLE said (x INTEGER)"],
        durability: Durability::Process,
        write_timeout: Duration::from_secs(2),
    };

    async fn say(database: &Database) {
        let mut write = database.begin().await.unwrap();
        let insert = sqlx::query("INSERT INTO said VALUES (1)");
        insert.execute(&mut *write).await.unwrap();
        write.commit_without_checkpoint().await.unwrap();
    }

    async fn rows(path: &Path) -> i64 {
        let database = Database::open(path, OPENING).await.unwrap();
        let rows = sqlx::query_scalar("SELECT COUNT(*) FROM said");
        let rows = rows.fetch_one(database.readers()).await.unwrap();
        database.close().await;
        rows
    }

    #[tokio::test]
    async fn what_only_the_log_holds_is_copied_and_no_second_name_stays() {
        let ground = tempfile::tempdir().unwrap();
        let (root, home) = (ground.path(), ground.path().join("tenants/a/home"));
        fs::create_dir_all(&home).unwrap();
        let path = home.join("state.db");
        let database = Database::open(&path, OPENING).await.unwrap();
        say(&database).await;
        let within = Path::new("tenants/a/home/state.db");
        copy_database(root, within, &root.join("1.db"))
            .await
            .unwrap();
        assert_eq!(rows(&root.join("1.db")).await, 1);
        say(&database).await;
        database.close().await;
        copy_database(root, within, &root.join("2.db"))
            .await
            .unwrap();
        assert_eq!(rows(&root.join("2.db")).await, 2);
        assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
        assert_eq!(rows(&path).await, 2);
    }

    #[tokio::test]
    async fn links_do_not_lead_to_the_database_of_another() {
        let ground = tempfile::tempdir().unwrap();
        let (root, tenants) = (ground.path(), ground.path().join("tenants"));
        fs::create_dir_all(tenants.join("a/home")).unwrap();
        fs::create_dir_all(tenants.join("b/home")).unwrap();
        let theirs = tenants.join("b/home/state.db");
        let database = Database::open(&theirs, OPENING).await.unwrap();
        database.close().await;
        let own = tenants.join("a/home");
        symlink(&theirs, own.join("state.db")).unwrap();
        symlink(tenants.join("b/home"), own.join("deeper")).unwrap();
        for path in ["tenants/a/home/state.db", "tenants/a/home/deeper/state.db"] {
            let target = root.join("copy.db");
            assert!(
                copy_database(root, Path::new(path), &target).await.is_err(),
                "{path}"
            );
            assert!(!target.exists(), "{path}");
        }
    }
}
