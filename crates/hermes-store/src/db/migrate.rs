//! Numbered steps from an empty file to the present tables.

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::{Database, sibling_path, write_copy};
use crate::StoreError;

/// What is done before a database with tables is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MigrationBackup {
    /// Nothing: what is in it can be lost.
    Skip,
    /// It is copied to a file beside it, named after its schema.
    Copy,
}

/// Takes the steps that are missing, each in a transaction of its own. Refuses a database that has taken more.
pub(crate) async fn migrate(
    database: &Database,
    steps: &[&'static str],
    before: MigrationBackup,
) -> Result<(), StoreError> {
    let error = |error| database.error(error);
    let done = schema_version(&mut *database.writer().await?)
        .await
        .map_err(error)?;
    if done > steps.len() {
        return Err(StoreError::NewerSchema {
            path: database.path().to_path_buf(),
            version: done,
            known: steps.len(),
        });
    }
    if before == MigrationBackup::Copy && (1..steps.len()).contains(&done) {
        let copy = sibling_path(database.path(), &format!(".schema-{done}.bak"));
        write_copy(&mut *database.writer().await?, &copy)
            .await
            .map_err(|source| StoreError::Backup { path: copy, source })?;
    }
    for (step, sql) in steps.iter().enumerate().skip(done) {
        let mut write = database.begin().await?;
        // Another process may have been quicker.
        if schema_version(&mut write).await.map_err(error)? > step {
            continue;
        }
        sqlx::raw_sql(*sql)
            .execute(&mut *write)
            .await
            .map_err(error)?;
        // A pragma takes no bound value; this one is a number we counted.
        sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {}", step + 1)))
            .execute(&mut *write)
            .await
            .map_err(error)?;
        write.commit().await?;
    }
    Ok(())
}

async fn schema_version(connection: &mut SqliteConnection) -> Result<usize, sqlx::Error> {
    let version: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(connection)
        .await?;
    Ok(usize::try_from(version).unwrap_or_default())
}
