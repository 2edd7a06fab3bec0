//! Copying all tables from one database to another one of any kind, row by row, and comparing what arrived.

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::StateError;

/// The value in `meta` of a database whose migration was not finished. It is not part of a copy.
pub(super) const INCOMPLETE: &str = "migration_incomplete";
/// Rows that are read and written at once.
pub(super) const ROWS_AT_ONCE: usize = 500;
/// Portions that wait for the writer.
const QUEUE: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Integer,
    Flag,
    Text,
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableColumn {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
    /// The database numbers rows by it.
    pub(super) is_identity: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableShape {
    pub(super) name: String,
    pub(super) columns: Vec<TableColumn>,
}

/// A value as both databases have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowValue {
    Integer(Option<i64>),
    Flag(Option<bool>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

pub(super) type TableRow = Vec<RowValue>;

/// The tables of a database.
#[async_trait]
pub(super) trait TableStore: Send + Sync {
    /// Tables with their columns; those that others refer to come first.
    async fn tables(&self) -> Result<Vec<TableShape>, StateError>;

    /// Sends all rows of a table, in any order.
    async fn read_rows(
        &self,
        table: &TableShape,
        rows: mpsc::Sender<Vec<TableRow>>,
    ) -> Result<(), StateError>;

    async fn write_rows(&self, table: &TableShape, rows: Vec<TableRow>) -> Result<(), StateError>;

    /// Deletes all rows of these tables.
    async fn clear(&self, tables: &[TableShape]) -> Result<(), StateError>;

    /// Makes up for what is not in the rows: counters, and what is derived from tables.
    async fn finish(&self, tables: &[TableShape]) -> Result<(), StateError>;
}

/// How many rows a table has, and what is in them, whatever their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    pub name: String,
    pub rows: u64,
    digest: [u64; 4],
}

impl CopiedTable {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            rows: 0,
            digest: [0; 4],
        }
    }

    fn add(&mut self, row: &TableRow) {
        let mut hash = Sha256::new();
        for value in row {
            // Each value with its kind and length, so that no two rows give the same bytes.
            let (kind, bytes) = match value {
                RowValue::Integer(Some(number)) => (1u8, number.to_le_bytes().to_vec()),
                RowValue::Flag(Some(flag)) => (2, vec![u8::from(*flag)]),
                RowValue::Text(Some(text)) => (3, text.clone().into_bytes()),
                RowValue::Bytes(Some(bytes)) => (4, bytes.clone()),
                _ => (0, Vec::new()),
            };
            hash.update([kind]);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        let hash: [u8; 32] = hash.finalize().into();
        for (sum, part) in self.digest.iter_mut().zip(hash.chunks_exact(8)) {
            let part = part.try_into().map_or(0, u64::from_le_bytes);
            *sum = sum.wrapping_add(part);
        }
        self.rows += 1;
    }
}

/// The tables that both databases have, with the columns of the target.
async fn shared_tables(
    from: &dyn TableStore,
    to: &dyn TableStore,
) -> Result<Vec<TableShape>, StateError> {
    let targets = to.tables().await?;
    let mut shared = Vec::new();
    for source in from.tables().await? {
        let Some(target) = targets.iter().find(|target| target.name == source.name) else {
            continue;
        };
        let mut names: Vec<&str> = source.columns.iter().map(|one| one.name.as_str()).collect();
        let mut others: Vec<&str> = target.columns.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        others.sort_unstable();
        if names != others {
            return Err(StateError::Broken(format!(
                "the table `{}` has other columns in the other database",
                source.name
            )));
        }
        // Kinds are those of PostgreSQL, which tells flags from numbers.
        let tells_flags = |table: &TableShape| {
            table
                .columns
                .iter()
                .any(|column| column.kind == ColumnKind::Flag)
        };
        let mut shape = if tells_flags(&source) {
            source
        } else {
            target.clone()
        };
        for column in &mut shape.columns {
            let own = target.columns.iter().find(|one| one.name == column.name);
            column.is_identity = own.is_some_and(|own| own.is_identity);
        }
        shared.push(shape);
    }
    Ok(shared)
}

pub(super) async fn clear_tables(
    from: &dyn TableStore,
    to: &dyn TableStore,
) -> Result<(), StateError> {
    let tables = shared_tables(from, to).await?;
    to.clear(&tables).await
}

/// Copies all tables and compares the copies with the originals.
pub(super) async fn copy_tables(
    from: &dyn TableStore,
    to: &dyn TableStore,
) -> Result<Vec<CopiedTable>, StateError> {
    let tables = shared_tables(from, to).await?;
    let mut copied = Vec::new();
    for table in &tables {
        let original = copy_table(from, to, table).await?;
        let copy = count_table(to, table).await?;
        if original != copy {
            return Err(StateError::Broken(format!(
                "the table `{}` has {} rows and its copy {}, or they differ",
                table.name, original.rows, copy.rows
            )));
        }
        copied.push(original);
    }
    to.finish(&tables).await?;
    Ok(copied)
}

async fn copy_table(
    from: &dyn TableStore,
    to: &dyn TableStore,
    table: &TableShape,
) -> Result<CopiedTable, StateError> {
    let (sender, mut receiver) = mpsc::channel::<Vec<TableRow>>(QUEUE);
    let mut counted = CopiedTable::new(&table.name);
    let write = async {
        while let Some(rows) = receiver.recv().await {
            for row in &rows {
                counted.add(row);
            }
            if let Err(error) = to.write_rows(table, rows).await {
                receiver.close();
                return Err(error);
            }
        }
        Ok(())
    };
    let (read, written) = tokio::join!(from.read_rows(table, sender), write);
    written?;
    read?;
    Ok(counted)
}

async fn count_table(
    store: &dyn TableStore,
    table: &TableShape,
) -> Result<CopiedTable, StateError> {
    let (sender, mut receiver) = mpsc::channel::<Vec<TableRow>>(QUEUE);
    let mut counted = CopiedTable::new(&table.name);
    let count = async {
        while let Some(rows) = receiver.recv().await {
            for row in &rows {
                counted.add(row);
            }
        }
    };
    let (read, ()) = tokio::join!(store.read_rows(table, sender), count);
    read?;
    Ok(counted)
}

/// A name in SQL. They come from the databases themselves.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn column_list(table: &TableShape) -> String {
    let names: Vec<String> = table
        .columns
        .iter()
        .map(|column| quoted(&column.name))
        .collect();
    names.join(", ")
}

/// All rows of a table, except for what says that it is incomplete.
pub(super) fn select_all(table: &TableShape) -> String {
    let condition = if table.name == "meta" {
        format!(" WHERE name <> '{INCOMPLETE}'")
    } else {
        String::new()
    };
    format!(
        "SELECT {} FROM {}{condition}",
        column_list(table),
        quoted(&table.name)
    )
}

/// The receiver has gone: it has the reason.
pub(super) fn receiver_gone() -> StateError {
    StateError::Broken("the copy of a table was given up".into())
}
