//! Reading columns whatever type another program stored in them: text that is not UTF-8, numbers as text.

use sqlx::{Row, sqlite::SqliteRow};

/// Text; bytes that are not UTF-8 are replaced. NUL characters are text like any other.
pub(crate) fn text(row: &SqliteRow, column: &str) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(column)?;
    Ok(bytes.map(|bytes| match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }))
}

/// Text that is there in every row.
pub(crate) fn required_text(row: &SqliteRow, column: &str) -> Result<String, sqlx::Error> {
    text(row, column).map(Option::unwrap_or_default)
}

/// A JSON value; text that is none is left out.
pub(crate) fn json(
    row: &SqliteRow,
    column: &str,
) -> Result<Option<serde_json::Value>, sqlx::Error> {
    Ok(text(row, column)?.and_then(|text| crate::json::parse_json(&text)))
}

/// A whole number, 0 where there is none.
pub(crate) fn integer(row: &SqliteRow, column: &str) -> Result<i64, sqlx::Error> {
    optional_integer(row, column).map(Option::unwrap_or_default)
}

/// A whole number.
pub(crate) fn optional_integer(row: &SqliteRow, column: &str) -> Result<Option<i64>, sqlx::Error> {
    row.try_get_unchecked(column)
}

/// A number.
pub(crate) fn real(row: &SqliteRow, column: &str) -> Result<Option<f64>, sqlx::Error> {
    row.try_get_unchecked(column)
}
