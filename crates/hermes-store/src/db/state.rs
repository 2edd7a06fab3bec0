//! Opening `state.db`: making it, filling up an older one, keeping hands off a newer one, and saving a copy before
//! the first write to a file that another program made.

use std::path::{Path, PathBuf};

use hermes_config::Home;
use jiff::Zoned;
use sqlx::{AssertSqlSafe, SqliteConnection, sqlite::SqliteConnectOptions};

use super::{
    Database, SqliteErrorKind, create_file, reader_options, row,
    schema::{self, FTS, INDEXES, MESSAGES, SESSIONS, TABLES, Table},
    sibling_path, sqlite_error_kind, use_write_ahead_log, write_copy,
};
use crate::StoreError;

/// The row of `state_meta` that says a file is ours or has been copied before.
const BACKUP_KEY: &str = "hermes_backup";

/// What a reader finds.
#[derive(Debug)]
pub(crate) struct Layout {
    /// What stands after `FROM` for the table of sessions.
    pub(crate) sessions: String,
    /// The same for messages.
    pub(crate) messages: String,
    objects: Vec<String>,
}

impl Layout {
    /// Whether there is such a table.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.objects.iter().any(|name| name == table)
    }
}

/// What a database file holds.
struct Inspection {
    objects: Vec<String>,
    version: Option<i64>,
    columns: Vec<(&'static Table, Vec<String>)>,
}

impl Inspection {
    async fn read(connection: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let rows = sqlx::query("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'")
            .fetch_all(&mut *connection)
            .await?;
        let mut objects = Vec::new();
        for found in &rows {
            objects.push(row::required_text(found, "name")?);
        }
        let mut columns = Vec::new();
        for table in TABLES {
            let rows = sqlx::query("SELECT name FROM pragma_table_info(?1)")
                .bind(table.name)
                .fetch_all(&mut *connection)
                .await?;
            let names: Result<Vec<_>, _> = rows
                .iter()
                .map(|found| row::required_text(found, "name"))
                .collect();
            columns.push((table, names?));
        }
        let version = if objects.iter().any(|name| name == "schema_version") {
            sqlx::query_scalar("SELECT version FROM schema_version LIMIT 1")
                .fetch_optional(&mut *connection)
                .await?
        } else {
            None
        };
        Ok(Self {
            objects,
            version,
            columns,
        })
    }

    fn has(&self, object: &str) -> bool {
        self.objects.iter().any(|name| name == object)
    }

    fn columns_of(&self, table: &Table) -> &[String] {
        self.columns
            .iter()
            .find(|(found, _)| found.name == table.name)
            .map_or(&[], |(_, columns)| columns)
    }

    fn layout(&self, path: &Path) -> Result<Layout, StoreError> {
        let source = |table: &Table| {
            let columns = self.columns_of(table);
            if columns.is_empty() {
                return Err(unavailable_error(path, format!("table `{}`", table.name)));
            }
            table.select_source(columns).map_err(|column| {
                unavailable_error(path, format!("column `{}.{column}`", table.name))
            })
        };
        Ok(Layout {
            sessions: source(&SESSIONS)?,
            messages: source(&MESSAGES)?,
            objects: self.objects.clone(),
        })
    }

    /// The first column that is not there, of a table we write to.
    fn first_missing(&self) -> Option<String> {
        self.columns.iter().find_map(|(table, present)| {
            let (column, _) = table.missing_columns(present).next()?;
            Some(format!("column `{}.{column}`", table.name))
        })
    }

    /// The statements that bring an older database up to what we write.
    fn additions(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        let mut statements = Vec::new();
        for (table, present) in &self.columns {
            if present.is_empty() {
                statements.push(table.create_statement());
                continue;
            }
            for (column, declaration) in table.missing_columns(present) {
                if schema::is_required(declaration) {
                    let missing = format!("column `{}.{column}`", table.name);
                    return Err(unavailable_error(path, missing));
                }
                statements.push(format!(
                    "ALTER TABLE {} ADD COLUMN {column} {declaration}",
                    table.name
                ));
            }
        }
        let absent = |(name, _): &&(&str, &str)| !self.has(name);
        statements.extend(
            INDEXES
                .iter()
                .filter(absent)
                .map(|(_, statement)| (*statement).to_owned()),
        );
        for fts in FTS {
            if !self.has(fts.table) {
                statements.extend([fts.create.to_owned(), fts.fill.to_owned()]);
            }
            statements.extend(
                fts.triggers
                    .iter()
                    .filter(absent)
                    .map(|(_, statement)| (*statement).to_owned()),
            );
        }
        Ok(statements)
    }
}

fn unavailable_error(path: &Path, missing: String) -> StoreError {
    StoreError::Unavailable {
        path: path.to_path_buf(),
        missing,
    }
}

pub(crate) fn database_path(home: &Home) -> PathBuf {
    home.path().join("state.db")
}

/// How the connections of a reader are kept.
type OpenReaders = fn(&Path, SqliteConnectOptions) -> Database;

/// Opens for reading. Nothing is created or changed.
pub(crate) async fn open_for_reading(home: &Home) -> Result<(Database, Layout), StoreError> {
    open_readers(home, Database::for_reading).await
}

/// Opens one connection for reading, which stays open.
pub(crate) async fn open_held(home: &Home) -> Result<(Database, Layout), StoreError> {
    open_readers(home, Database::with_held_reader).await
}

async fn open_readers(home: &Home, open: OpenReaders) -> Result<(Database, Layout), StoreError> {
    let path = database_path(home);
    if !path.exists() {
        return Err(StoreError::Absent { path });
    }
    let database = open(&path, reader_options(&path));
    let (database, inspection) = match inspect(&database).await {
        Ok(inspection) => (database, inspection),
        // SQLite wants files beside the database. Where it may not make them, and none holds newer data, the
        // database can still be read as it is.
        Err(error)
            if sqlite_error_kind(&error) == Some(SqliteErrorKind::CannotOpen)
                && !wal_path(&path).exists() =>
        {
            let database = open(&path, reader_options(&path).immutable(true));
            let inspection = inspect(&database)
                .await
                .map_err(|error| database.error(error))?;
            (database, inspection)
        }
        Err(error) => return Err(database.error(error)),
    };
    let layout = inspection.layout(&path)?;
    Ok((database, layout))
}

async fn inspect(database: &Database) -> Result<Inspection, sqlx::Error> {
    let mut connection = database.readers().acquire().await?;
    Inspection::read(&mut connection).await
}

fn wal_path(path: &Path) -> PathBuf {
    sibling_path(path, "-wal")
}

/// Opens for writing: makes the database, or fills up what an older one lacks.
pub(crate) async fn open_for_writing(home: &Home) -> Result<(Database, Layout), StoreError> {
    let path = database_path(home);
    home.create().map_err(|source| StoreError::Io {
        path: home.path().to_path_buf(),
        source,
    })?;
    create_file(&path)?;
    let database = Database::for_writing(&path);
    let layout = prepare_for_writing(&database).await?;
    Ok((database, layout))
}

async fn prepare_for_writing(database: &Database) -> Result<Layout, StoreError> {
    let path = database.path();
    let mut found = inspect_for_writing(database).await?;
    let newer = found
        .version
        .filter(|version| *version > schema::SCHEMA_VERSION);
    if let (Some(version), Some(missing)) = (newer, found.first_missing()) {
        return Err(StoreError::Newer {
            path: path.to_path_buf(),
            version,
            missing,
        });
    }
    if !found.objects.is_empty() {
        if !found.has("sessions") && !found.has("schema_version") {
            return Err(unavailable_error(path, "table `sessions`".into()));
        }
        back_up_once(database, &found).await?;
    }
    use_write_ahead_log(&mut *database.writer().await?)
        .await
        .map_err(|error| database.error(error))?;
    if newer.is_none() && !found.additions(path)?.is_empty() {
        add_missing(database).await?;
        found = inspect_for_writing(database).await?;
    }
    activate_old_rows(database).await?;
    found.layout(path)
}

async fn inspect_for_writing(database: &Database) -> Result<Inspection, StoreError> {
    Inspection::read(&mut *database.writer().await?)
        .await
        .map_err(|error| database.error(error))
}

/// Adds what is missing. Two processes may come here together: what that is, is looked up under the lock.
async fn add_missing(database: &Database) -> Result<(), StoreError> {
    let error = |error| database.error(error);
    let mut write = database.begin().await?;
    let found = Inspection::read(&mut write).await.map_err(error)?;
    for statement in found.additions(database.path())? {
        // Put together from the constants of `schema`.
        sqlx::query(AssertSqlSafe(statement))
            .execute(&mut *write)
            .await
            .map_err(error)?;
    }
    let is_new = found.objects.is_empty();
    if is_new {
        sqlx::query("INSERT INTO schema_version (version) VALUES (?1)")
            .bind(schema::SCHEMA_VERSION)
            .execute(&mut *write)
            .await
            .map_err(error)?;
    }
    set_backup_mark(&mut write, if is_new { "created here" } else { "copied" })
        .await
        .map_err(error)?;
    write.commit().await
}

/// Rows of very old databases have no `active`; they count as live.
async fn activate_old_rows(database: &Database) -> Result<(), StoreError> {
    let error = |error| database.error(error);
    let asleep: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM messages WHERE active IS NULL)")
            .fetch_one(&mut *database.writer().await?)
            .await
            .map_err(error)?;
    if asleep {
        let mut write = database.begin().await?;
        sqlx::query("UPDATE messages SET active = 1 WHERE active IS NULL")
            .execute(&mut *write)
            .await
            .map_err(error)?;
        write.commit().await?;
    }
    Ok(())
}

/// Copies a database that another program made, once. SQLite itself writes the copy: reading the file past it
/// would drop the locks this process holds.
async fn back_up_once(database: &Database, found: &Inspection) -> Result<(), StoreError> {
    let error = |error| database.error(error);
    let marks = found.has("state_meta");
    let mut connection = database.writer().await?;
    if marks && has_backup_mark(&mut connection).await.map_err(error)? {
        return Ok(());
    }
    let today = Zoned::now().strftime("%Y%m%d").to_string();
    let copy = sibling_path(database.path(), &format!(".bak-{today}"));
    // A copy of the same day stays as it is.
    if !copy.exists() {
        write_copy(&mut connection, &copy)
            .await
            .map_err(|source| StoreError::Backup {
                path: copy.clone(),
                source,
            })?;
    }
    drop(connection);
    if marks {
        let mut write = database.begin().await?;
        let name = copy.file_name().unwrap_or_default().to_string_lossy();
        set_backup_mark(&mut write, &name).await.map_err(error)?;
        write.commit().await?;
    }
    Ok(())
}

async fn has_backup_mark(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM state_meta WHERE key = ?1)")
        .bind(BACKUP_KEY)
        .fetch_one(connection)
        .await
}

async fn set_backup_mark(
    connection: &mut SqliteConnection,
    value: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO state_meta (key, value) VALUES (?1, ?2) ON CONFLICT(key) DO NOTHING")
        .bind(BACKUP_KEY)
        .bind(value)
        .execute(connection)
        .await?;
    Ok(())
}
