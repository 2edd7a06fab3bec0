//! The tables of an SQLite file, for copies of the whole database.

use async_trait::async_trait;
use futures::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Row, sqlite::SqliteRow};
use tokio::sync::mpsc;

use super::{Affected, SqliteState, commit};
use crate::storage::state::{
    StateError,
    tables::{
        ColumnKind, INCOMPLETE, ROWS_AT_ONCE, RowValue, TableColumn, TableRow, TableShape,
        TableStore, column_list, quoted, receiver_gone, select_all,
    },
};

/// Derived from the audit log, and by triggers from what tenants used.
const DERIVED: [&str; 3] = ["audit_portions", "audit_of_tenants", "usage_totals"];
const DERIVE: [&str; 2] = [
    "INSERT INTO audit_portions (chain, last, oldest, newest)
         SELECT chain, MAX(seq), MIN(time), MAX(time) FROM audit GROUP BY chain",
    "INSERT INTO audit_of_tenants (chain, portion, tenant, time, seq)
         SELECT audit.chain, audit_portions.last, tenant, time, seq FROM audit JOIN audit_portions USING (chain)
         WHERE tenant IS NOT NULL ORDER BY audit.chain, tenant, time, seq",
];

#[async_trait]
impl TableStore for SqliteState {
    async fn tables(&self) -> Result<Vec<TableShape>, StateError> {
        // A table is made after those that it refers to.
        let names = sqlx::query(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid",
        );
        let names = names.fetch_all(self.readers()).await?;
        let mut tables = Vec::new();
        for row in names {
            let name: String = row.try_get("name")?;
            if DERIVED.contains(&name.as_str()) {
                continue;
            }
            let columns = sqlx::query("SELECT name, type FROM pragma_table_info(?1) ORDER BY cid");
            let columns = columns.bind(&name).fetch_all(self.readers()).await?;
            let columns = columns.iter().map(column_of).collect::<Result<_, _>>()?;
            tables.push(TableShape { name, columns });
        }
        Ok(tables)
    }

    async fn read_rows(
        &self,
        table: &TableShape,
        rows: mpsc::Sender<Vec<TableRow>>,
    ) -> Result<(), StateError> {
        let sql = select_all(table);
        let mut found = sqlx::query(AssertSqlSafe(sql)).fetch(self.readers());
        let mut portion = Vec::new();
        while let Some(row) = found.try_next().await? {
            portion.push(row_of(table, &row)?);
            if portion.len() == ROWS_AT_ONCE {
                let full = std::mem::take(&mut portion);
                rows.send(full).await.map_err(|_| receiver_gone())?;
            }
        }
        rows.send(portion).await.map_err(|_| receiver_gone())
    }

    async fn write_rows(&self, table: &TableShape, rows: Vec<TableRow>) -> Result<(), StateError> {
        let places = vec!["?"; table.columns.len()].join(", ");
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({places})",
            quoted(&table.name),
            column_list(table)
        );
        let mut write = self.begin_change(Affected::AllTenants).await?;
        for row in rows {
            let mut insert = sqlx::query(AssertSqlSafe(sql.clone()));
            for value in row {
                insert = match value {
                    RowValue::Integer(number) => insert.bind(number),
                    RowValue::Flag(flag) => insert.bind(flag.map(i64::from)),
                    RowValue::Text(text) => insert.bind(text),
                    RowValue::Bytes(bytes) => insert.bind(bytes),
                };
            }
            insert.execute(&mut *write).await?;
        }
        commit(write).await
    }

    async fn clear(&self, tables: &[TableShape]) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::AllTenants).await?;
        let names = tables.iter().rev().map(|table| table.name.as_str());
        for name in DERIVED.into_iter().chain(names) {
            let sql = if name == "meta" {
                format!("DELETE FROM meta WHERE name <> '{INCOMPLETE}'")
            } else {
                format!("DELETE FROM {}", quoted(name))
            };
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *write).await?;
        }
        commit(write).await
    }

    async fn finish(&self, _: &[TableShape]) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::AllTenants).await?;
        for sql in DERIVE {
            sqlx::query(sql).execute(&mut *write).await?;
        }
        commit(write).await
    }
}

fn column_of(row: &SqliteRow) -> Result<TableColumn, StateError> {
    let kind: String = row.try_get("type")?;
    Ok(TableColumn {
        name: row.try_get("name")?,
        kind: match kind.as_str() {
            "INTEGER" => ColumnKind::Integer,
            "TEXT" => ColumnKind::Text,
            "BLOB" => ColumnKind::Bytes,
            other => {
                return Err(StateError::Broken(format!(
                    "a column of the type `{other}`"
                )));
            }
        },
        is_identity: false,
    })
}

fn row_of(table: &TableShape, row: &SqliteRow) -> Result<TableRow, StateError> {
    let mut values = Vec::with_capacity(table.columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        values.push(match column.kind {
            ColumnKind::Integer => RowValue::Integer(row.try_get(index)?),
            ColumnKind::Flag => {
                let flag: Option<i64> = row.try_get(index)?;
                RowValue::Flag(flag.map(|flag| flag != 0))
            }
            // PostgreSQL does not store this character.
            ColumnKind::Text => {
                let text: Option<String> = row.try_get(index)?;
                RowValue::Text(text.map(|text| text.replace('\0', "\u{fffd}")))
            }
            ColumnKind::Bytes => RowValue::Bytes(row.try_get(index)?),
        });
    }
    Ok(values)
}
