//! Opening a tenant's `state.db` to read it. The tenant may have put anything there.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use hermes_config::{Home, random::random_hex};
use hermes_store::{Access, Store, StoreError};

use crate::{
    Problem, ProblemCode,
    service::{call::Call, run_blocking},
    storage::{
        data_dir::{READING_DIR, ensure_private_dir},
        linked_database::LinkedDatabase,
    },
};

const DATABASE: &str = "state.db";
/// An agent may start or stop meanwhile.
const MAX_ATTEMPTS: u32 = 5;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A directory of the Hub with a link to the database.
struct LinkedStore {
    database: LinkedDatabase,
    directory: PathBuf,
}

impl LinkedStore {
    fn new(data_dir: &Path, home: &Path) -> io::Result<Self> {
        let path = home.strip_prefix(data_dir).map_err(io::Error::other)?;
        let random = random_hex::<8>().map_err(io::Error::other)?;
        let parent = data_dir.join(READING_DIR);
        let directory = parent.join(random);
        ensure_private_dir(&parent)?;
        ensure_private_dir(&directory)?;
        let linked = LinkedDatabase::new(data_dir, &path.join(DATABASE), directory.join(DATABASE));
        match linked {
            Ok(database) => Ok(Self {
                database,
                directory,
            }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                Err(error)
            }
        }
    }
}

impl Drop for LinkedStore {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Reads from the tenant's conversations; `None` if it has none yet.
pub(super) async fn read_store<T, F>(
    call: &Call,
    read: impl Fn(Store) -> F,
) -> Result<Option<T>, Problem>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let record = call.tenant()?;
    let home = call.hub.home(record);
    if record.linked_home.is_some() {
        // The user's own home: nobody else writes there.
        return read_home(&home, &read).await;
    }
    for _ in 0..MAX_ATTEMPTS {
        let (data_dir, path) = (call.hub.settings().data_dir.clone(), home.path().to_owned());
        let linked = run_blocking(move || match LinkedStore::new(&data_dir, &path) {
            Ok(linked) => Ok(Some(linked)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                tracing::warn!(%error, "failed to open a tenant's conversations");
                Err(Problem::precondition(
                    "the tenant's `state.db` is a link or not a file, and the Hub does not follow links there",
                )
                .with_reason("wrong_type"))
            }
        })
        .await?;
        let Some(linked) = linked else {
            return Ok(None);
        };
        let found = read_home(&Home::at(&linked.directory), &read).await;
        let is_unchanged = linked.database.is_unchanged();
        let _ = tokio::task::spawn_blocking(move || drop(linked)).await;
        if is_unchanged {
            return found;
        }
    }
    Err(Problem::new(
        ProblemCode::Unavailable,
        "the tenant's `state.db` keeps being replaced; try again",
    )
    .with_retry_after(1000))
}

async fn read_home<T, F>(home: &Home, read: &impl Fn(Store) -> F) -> Result<Option<T>, Problem>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let work = async {
        let store = match Store::open(home, Access::ReadOnly).await {
            Err(StoreError::Absent { .. }) => return Ok(None),
            opened => opened.map_err(|error| store_problem(&error))?,
        };
        let is_plain = store.has_plain_tables().await;
        let found = match is_plain {
            Ok(true) => read(store.clone()).await.map(Some),
            Ok(false) => {
                store.close().await;
                return Err(damaged("it has views or computed columns"));
            }
            Err(error) => Err(error),
        };
        store.close().await;
        found.map_err(|error| store_problem(&error))
    };
    match tokio::time::timeout(READ_TIMEOUT, work).await {
        Ok(found) => found,
        Err(_) => Err(Problem::new(
            ProblemCode::DeadlineExceeded,
            "the tenant's conversations could not be read in time; ask for less",
        )),
    }
}

fn store_problem(error: &StoreError) -> Problem {
    tracing::warn!(%error, "failed to read a tenant's conversations");
    match error {
        StoreError::Locked { .. } => Problem::new(
            ProblemCode::Unavailable,
            "the tenant's agent holds its conversations; try again in a moment",
        )
        .with_retry_after(1000),
        StoreError::DiskFull { .. } => Problem::new(
            ProblemCode::OutOfSpace,
            "the Hub's disk is full; its operator must make room",
        )
        .with_reason("disk_full"),
        _ => damaged("the Hub's log has the reason"),
    }
}

fn damaged(reason: &str) -> Problem {
    Problem::precondition(format!(
        "the tenant's `state.db` cannot be read: {reason}; move it away, or put a backup in its place"
    ))
    .with_reason("damaged")
}
