//! SQL on the command line.

use super::Run;
use crate::approval::sql::{Destruction, destructions};

/// Programs whose arguments are text to print, search or store.
const TEXT_TOOLS: [&str; 14] = [
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "git", "gh", "sed", "awk", "jq",
    "cat",
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

pub(super) fn drops(run: &Run<'_>) -> bool {
    found(run).contains(&Destruction::Drop)
}

pub(super) fn truncates(run: &Run<'_>) -> bool {
    found(run).contains(&Destruction::Truncate)
}

pub(super) fn deletes_all(run: &Run<'_>) -> bool {
    found(run).contains(&Destruction::DeleteAll)
}

fn found(run: &Run<'_>) -> Vec<Destruction> {
    if TEXT_TOOLS.contains(&run.name) {
        return Vec::new();
    }
    let words = run
        .arguments
        .iter()
        .map(|word| word.text.as_str())
        .filter(|text| text.contains(char::is_whitespace));
    let mut found: Vec<Destruction> = words
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
            destructions(value)
        })
        .collect();
    if CLIENTS.contains(&run.name) {
        found.extend(run.input().iter().flat_map(|text| destructions(text)));
    }
    found
}

/// The rule for a destructive statement, and its reason.
pub(in crate::approval) fn of_sql(destruction: Destruction) -> (&'static str, &'static str) {
    match destruction {
        Destruction::Drop => ("SQL DROP", "drops a table or database"),
        Destruction::Truncate => ("SQL TRUNCATE", "empties a table"),
        Destruction::DeleteAll => ("SQL DELETE without WHERE", "deletes every row of a table"),
    }
}
