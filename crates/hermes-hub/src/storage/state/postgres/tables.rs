//! The tables of a PostgreSQL database, for copies of the whole database.

use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Row, postgres::PgRow};
use tokio::sync::mpsc;

use super::{PostgresState, session::database_error};
use crate::storage::state::{
    StateError,
    tables::{
        ColumnKind, INCOMPLETE, ROWS_AT_ONCE, RowValue, TableColumn, TableRow, TableShape,
        TableStore, column_list, quoted, receiver_gone, select_all,
    },
};

/// Copies may take long.
const BEGIN_COPY: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 2000";

#[async_trait]
impl TableStore for PostgresState {
    async fn tables(&self) -> Result<Vec<TableShape>, StateError> {
        let found = sqlx::query(
            "SELECT columns.table_name::text AS table_name, column_name::text AS column_name, data_type::text AS data_type,
                 is_identity::text AS is_identity
             FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
             WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'
             ORDER BY to_regclass(quote_ident(columns.table_name))::oid, ordinal_position",
        );
        let rows = self.read().await?.rows(found).await?;
        let mut tables: Vec<TableShape> = Vec::new();
        let mut others = Vec::new();
        for row in &rows {
            let name: String = row.try_get("table_name")?;
            if tables.last().is_none_or(|table| table.name != name) {
                tables.push(TableShape {
                    name: name.clone(),
                    columns: Vec::new(),
                });
            }
            match column_of(row)? {
                Some(column) => {
                    if let Some(table) = tables.last_mut() {
                        table.columns.push(column);
                    }
                }
                // Only tables of several nodes have columns of other types.
                None => others.push(name),
            }
        }
        tables.retain(|table| !others.contains(&table.name));
        Ok(tables)
    }

    async fn read_rows(
        &self,
        table: &TableShape,
        rows: mpsc::Sender<Vec<TableRow>>,
    ) -> Result<(), StateError> {
        let sql = select_all(table);
        let begun = self.readers.begin_with(BEGIN_COPY).await;
        let mut transaction = begun.map_err(database_error)?;
        let query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        let mut found = query.fetch(&mut *transaction);
        let mut portion = Vec::new();
        while let Some(row) = found.try_next().await.map_err(database_error)? {
            portion.push(row_of(table, &row)?);
            if portion.len() == ROWS_AT_ONCE {
                let full = std::mem::take(&mut portion);
                rows.send(full).await.map_err(|_| receiver_gone())?;
            }
        }
        rows.send(portion).await.map_err(|_| receiver_gone())
    }

    async fn write_rows(&self, table: &TableShape, rows: Vec<TableRow>) -> Result<(), StateError> {
        let arrays: Vec<String> = table
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| format!("${}::{}[]", index + 1, type_of(column.kind)))
            .collect();
        let overriding = if table.columns.iter().any(|column| column.is_identity) {
            " OVERRIDING SYSTEM VALUE"
        } else {
            ""
        };
        let sql = format!(
            "INSERT INTO {} ({}){overriding} SELECT * FROM unnest({})",
            quoted(&table.name),
            column_list(table),
            arrays.join(", ")
        );
        let mut insert = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        for (index, column) in table.columns.iter().enumerate() {
            let values = rows.iter().map(|row| &row[index]);
            insert = match column.kind {
                ColumnKind::Integer => insert.bind(values.map(integer).collect::<Vec<_>>()),
                ColumnKind::Flag => insert.bind(values.map(flag).collect::<Vec<_>>()),
                ColumnKind::Text => insert.bind(values.map(text).collect::<Vec<_>>()),
                ColumnKind::Bytes => insert.bind(values.map(bytes).collect::<Vec<_>>()),
            };
        }
        let begun = self.readers.begin_with(BEGIN_COPY).await;
        let mut transaction = begun.map_err(database_error)?;
        insert
            .execute(&mut *transaction)
            .await
            .map_err(database_error)?;
        transaction.commit().await.map_err(database_error)
    }

    async fn clear(&self, tables: &[TableShape]) -> Result<(), StateError> {
        let others = tables.iter().filter(|table| table.name != "meta");
        let names: Vec<String> = others.map(|table| quoted(&table.name)).collect();
        let own = "share_entries, share_usage, share_trash, checkpoints, usage_totals";
        let sql = format!("TRUNCATE {}, {own} CASCADE", names.join(", "));
        let begun = self.readers.begin_with(BEGIN_COPY).await;
        let mut transaction = begun.map_err(database_error)?;
        sqlx::query(AssertSqlSafe(sql))
            .persistent(false)
            .execute(&mut *transaction)
            .await
            .map_err(database_error)?;
        let rest = sqlx::query("DELETE FROM meta WHERE name <> $1").bind(INCOMPLETE);
        rest.execute(&mut *transaction)
            .await
            .map_err(database_error)?;
        transaction.commit().await.map_err(database_error)
    }

    /// The next numbers follow the greatest ones.
    async fn finish(&self, tables: &[TableShape]) -> Result<(), StateError> {
        for table in tables {
            for column in table.columns.iter().filter(|column| column.is_identity) {
                let (name, column) = (quoted(&table.name), quoted(&column.name));
                let sql = format!(
                    "SELECT setval(pg_get_serial_sequence($1, $2), coalesce(max({column}), 0) + 1, false) FROM {name}"
                );
                let query = sqlx::query(AssertSqlSafe(sql))
                    .bind(&table.name)
                    .bind(column.trim_matches('"').to_owned());
                let mut session = self.read_directly().await?;
                tokio::time::timeout(Duration::from_mins(1), session.one(query))
                    .await
                    .map_err(|_| {
                        StateError::Unavailable("a counter was not set in time".into())
                    })??;
            }
        }
        Ok(())
    }
}

fn type_of(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Integer => "bigint",
        ColumnKind::Flag => "boolean",
        ColumnKind::Text => "text",
        ColumnKind::Bytes => "bytea",
    }
}

fn column_of(row: &PgRow) -> Result<Option<TableColumn>, StateError> {
    let kind: String = row.try_get("data_type")?;
    let kind = match kind.as_str() {
        "bigint" => ColumnKind::Integer,
        "boolean" => ColumnKind::Flag,
        "text" => ColumnKind::Text,
        "bytea" => ColumnKind::Bytes,
        _ => return Ok(None),
    };
    let is_identity: String = row.try_get("is_identity")?;
    Ok(Some(TableColumn {
        name: row.try_get("column_name")?,
        kind,
        is_identity: is_identity == "YES",
    }))
}

fn row_of(table: &TableShape, row: &PgRow) -> Result<TableRow, StateError> {
    let mut values = Vec::with_capacity(table.columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        values.push(match column.kind {
            ColumnKind::Integer => RowValue::Integer(row.try_get(index)?),
            ColumnKind::Flag => RowValue::Flag(row.try_get(index)?),
            ColumnKind::Text => RowValue::Text(row.try_get(index)?),
            ColumnKind::Bytes => RowValue::Bytes(row.try_get(index)?),
        });
    }
    Ok(values)
}

fn integer(value: &RowValue) -> Option<i64> {
    match value {
        RowValue::Integer(number) => *number,
        _ => None,
    }
}

fn flag(value: &RowValue) -> Option<bool> {
    match value {
        RowValue::Flag(flag) => *flag,
        _ => None,
    }
}

fn text(value: &RowValue) -> Option<String> {
    match value {
        RowValue::Text(text) => text.clone(),
        _ => None,
    }
}

fn bytes(value: &RowValue) -> Option<Vec<u8>> {
    match value {
        RowValue::Bytes(bytes) => bytes.clone(),
        _ => None,
    }
}
