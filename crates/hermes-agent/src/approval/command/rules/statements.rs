//! SQL on the command line.

use super::Invocation;
use crate::approval::command::{
    programs,
    sql::{DestructiveStatement, find_destructive},
};

/// Programs whose arguments are text to print, search or store.
const TEXT_TOOLS: [&str; 13] = [
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "git", "gh", "sed", "jq", "cat",
];
const CLIENTS: [&str; 10] = [
    "psql",
    "mysql",
    "mariadb",
    "sqlite3",
    "sqlite",
    "clickhouse-client",
    "duckdb",
    "sqlcmd",
    "cqlsh",
    "pgcli",
];

pub(super) fn drops_table(run: &Invocation<'_>) -> bool {
    find_in_command(run).contains(&DestructiveStatement::Drop)
}

pub(super) fn truncates_table(run: &Invocation<'_>) -> bool {
    find_in_command(run).contains(&DestructiveStatement::Truncate)
}

pub(super) fn deletes_all_rows(run: &Invocation<'_>) -> bool {
    find_in_command(run).contains(&DestructiveStatement::DeleteAll)
}

fn find_in_command(run: &Invocation<'_>) -> Vec<DestructiveStatement> {
    if TEXT_TOOLS.contains(&run.name) || programs::is_awk(run.name) {
        return Vec::new();
    }
    let words = run
        .arguments
        .iter()
        .map(|word| word.text.as_str())
        .filter(|text| text.contains(char::is_whitespace));
    let mut statements: Vec<DestructiveStatement> = words
        .flat_map(|text| {
            // `-e"…"`, `--command=…`
            let value = ["-e", "-c"]
                .iter()
                .find_map(|option| text.strip_prefix(option))
                .unwrap_or(text);
            let value = if value.starts_with("--") {
                value.split_once('=').map_or(value, |(_, v)| v)
            } else {
                value
            };
            find_destructive(value)
        })
        .collect();
    if CLIENTS.contains(&run.name) {
        statements.extend(run.input().iter().flat_map(|text| find_destructive(text)));
    }
    statements
}

/// The rule for a destructive statement, and its reason.
pub(in crate::approval) fn rule_for_sql(
    destruction: DestructiveStatement,
) -> (&'static str, &'static str) {
    match destruction {
        DestructiveStatement::Drop => ("SQL DROP", "drops a table or database"),
        DestructiveStatement::Truncate => ("SQL TRUNCATE", "empties a table"),
        DestructiveStatement::DeleteAll => {
            ("SQL DELETE without WHERE", "deletes every row of a table")
        }
    }
}
