//! Consistent copies of databases in homes, to which agents write at the same time.

use std::{fs, io, path::Path};

use hermes_store::db;
use tokio::task::spawn_blocking;

use crate::storage::linked_database::LinkedDatabase;

/// An agent may start or stop during a copy.
const MAX_COPY_ATTEMPTS: u32 = 5;

/// Copies the database at a path below the root to a new file in a directory of the Hub.
pub(super) async fn copy_database(root: &Path, path: &Path, copy: &Path) -> io::Result<()> {
    for _ in 0..MAX_COPY_ATTEMPTS {
        let (root, path) = (root.to_owned(), path.to_owned());
        let second = copy.with_extension("link");
        let link = spawn_blocking(move || LinkedDatabase::new(&root, &path, second));
        let linked = link.await.map_err(io::Error::other)??;
        let copied = db::copy_database(linked.path(), copy).await;
        if linked.is_unchanged() {
            return copied.map_err(io::Error::other);
        }
        let _ = fs::remove_file(copy);
    }
    Err(io::Error::other("it keeps being replaced"))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{MetadataExt, symlink},
        time::Duration,
    };

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
