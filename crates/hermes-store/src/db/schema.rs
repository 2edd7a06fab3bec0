//! The tables of `state.db`, schema 22, which Hermes Agent 0.19 shares: one list that makes a new database, fills
//! up an older one and fills in for what a reader does not find.

/// The schema version a new database gets.
pub(crate) const SCHEMA_VERSION: i64 = 22;

/// A table: its columns, and what follows them.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    constraint: &'static str,
}

impl Table {
    /// The statement that makes the table, unless it is there.
    pub(crate) fn create_statement(&self) -> String {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|(name, declaration)| format!("{name} {declaration}"))
            .collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({}{})",
            self.name,
            columns.join(", "),
            self.constraint
        )
    }

    /// The columns that are not among these, with what declares them.
    pub(crate) fn missing_columns(
        &self,
        present: &[String],
    ) -> impl Iterator<Item = &(&'static str, &'static str)> {
        self.columns
            .iter()
            .filter(|(name, _)| !present.iter().any(|column| column == name))
    }

    /// What a reader selects from: the table, or a query that fills in the columns it lacks. A column without
    /// which nothing can be read is the error.
    pub(crate) fn select_source(&self, present: &[String]) -> Result<String, &'static str> {
        if self.missing_columns(present).next().is_none() {
            return Ok(self.name.to_owned());
        }
        let mut columns = Vec::new();
        for (name, declaration) in self.columns {
            if present.iter().any(|column| column == name) {
                columns.push((*name).to_owned());
            } else {
                match default_value(declaration) {
                    Some(value) => columns.push(format!("{value} AS {name}")),
                    None if is_required(declaration) => return Err(name),
                    None => columns.push(format!("NULL AS {name}")),
                }
            }
        }
        Ok(format!(
            "(SELECT {} FROM {})",
            columns.join(", "),
            self.name
        ))
    }
}

/// Whether an existing table cannot be given such a column.
pub(crate) fn is_required(declaration: &str) -> bool {
    (declaration.contains("NOT NULL") && default_value(declaration).is_none())
        || declaration.contains("PRIMARY KEY")
}

fn default_value(declaration: &str) -> Option<&str> {
    declaration.split_once("DEFAULT ").map(|(_, value)| value)
}

pub(crate) const SESSIONS: Table = Table {
    name: "sessions",
    columns: &[
        ("id", "TEXT PRIMARY KEY"),
        ("source", "TEXT NOT NULL"),
        ("user_id", "TEXT"),
        ("session_key", "TEXT"),
        ("chat_id", "TEXT"),
        ("chat_type", "TEXT"),
        ("thread_id", "TEXT"),
        ("display_name", "TEXT"),
        ("origin_json", "TEXT"),
        ("expiry_finalized", "INTEGER DEFAULT 0"),
        ("model", "TEXT"),
        ("model_config", "TEXT"),
        ("system_prompt", "TEXT"),
        ("parent_session_id", "TEXT REFERENCES sessions(id)"),
        ("started_at", "REAL NOT NULL"),
        ("ended_at", "REAL"),
        ("end_reason", "TEXT"),
        ("message_count", "INTEGER DEFAULT 0"),
        ("tool_call_count", "INTEGER DEFAULT 0"),
        ("input_tokens", "INTEGER DEFAULT 0"),
        ("output_tokens", "INTEGER DEFAULT 0"),
        ("cache_read_tokens", "INTEGER DEFAULT 0"),
        ("cache_write_tokens", "INTEGER DEFAULT 0"),
        ("reasoning_tokens", "INTEGER DEFAULT 0"),
        ("cwd", "TEXT"),
        ("git_branch", "TEXT"),
        ("git_repo_root", "TEXT"),
        ("billing_provider", "TEXT"),
        ("billing_base_url", "TEXT"),
        ("billing_mode", "TEXT"),
        ("estimated_cost_usd", "REAL"),
        ("actual_cost_usd", "REAL"),
        ("cost_status", "TEXT"),
        ("cost_source", "TEXT"),
        ("pricing_version", "TEXT"),
        ("title", "TEXT"),
        ("api_call_count", "INTEGER DEFAULT 0"),
        ("handoff_state", "TEXT"),
        ("handoff_platform", "TEXT"),
        ("handoff_error", "TEXT"),
        ("compression_failure_cooldown_until", "REAL"),
        ("compression_failure_error", "TEXT"),
        ("compression_fallback_streak", "INTEGER NOT NULL DEFAULT 0"),
        ("profile_name", "TEXT"),
        ("rewind_count", "INTEGER NOT NULL DEFAULT 0"),
        ("archived", "INTEGER NOT NULL DEFAULT 0"),
    ],
    constraint: "",
};

pub(crate) const MESSAGES: Table = Table {
    name: "messages",
    columns: &[
        ("id", "INTEGER PRIMARY KEY AUTOINCREMENT"),
        ("session_id", "TEXT NOT NULL REFERENCES sessions(id)"),
        ("role", "TEXT NOT NULL"),
        ("content", "TEXT"),
        ("tool_call_id", "TEXT"),
        ("tool_calls", "TEXT"),
        ("tool_name", "TEXT"),
        ("effect_disposition", "TEXT"),
        ("timestamp", "REAL NOT NULL"),
        ("token_count", "INTEGER"),
        ("finish_reason", "TEXT"),
        ("reasoning", "TEXT"),
        ("reasoning_content", "TEXT"),
        ("reasoning_details", "TEXT"),
        ("codex_reasoning_items", "TEXT"),
        ("codex_message_items", "TEXT"),
        ("platform_message_id", "TEXT"),
        ("observed", "INTEGER DEFAULT 0"),
        ("active", "INTEGER NOT NULL DEFAULT 1"),
        ("compacted", "INTEGER NOT NULL DEFAULT 0"),
        ("api_content", "TEXT"),
    ],
    constraint: "",
};

/// Every table, in an order in which references find their target.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "schema_version",
        columns: &[("version", "INTEGER NOT NULL")],
        constraint: "",
    },
    SESSIONS,
    MESSAGES,
    Table {
        name: "session_model_usage",
        columns: &[
            (
                "session_id",
                "TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE",
            ),
            ("model", "TEXT NOT NULL"),
            ("billing_provider", "TEXT NOT NULL DEFAULT ''"),
            ("billing_base_url", "TEXT NOT NULL DEFAULT ''"),
            ("billing_mode", "TEXT NOT NULL DEFAULT ''"),
            ("task", "TEXT NOT NULL DEFAULT ''"),
            ("api_call_count", "INTEGER NOT NULL DEFAULT 0"),
            ("input_tokens", "INTEGER NOT NULL DEFAULT 0"),
            ("output_tokens", "INTEGER NOT NULL DEFAULT 0"),
            ("cache_read_tokens", "INTEGER NOT NULL DEFAULT 0"),
            ("cache_write_tokens", "INTEGER NOT NULL DEFAULT 0"),
            ("reasoning_tokens", "INTEGER NOT NULL DEFAULT 0"),
            ("estimated_cost_usd", "REAL NOT NULL DEFAULT 0"),
            ("actual_cost_usd", "REAL NOT NULL DEFAULT 0"),
            ("cost_status", "TEXT"),
            ("cost_source", "TEXT"),
            ("first_seen", "REAL"),
            ("last_seen", "REAL"),
        ],
        constraint: ", PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)",
    },
    Table {
        name: "state_meta",
        columns: &[("key", "TEXT PRIMARY KEY"), ("value", "TEXT")],
        constraint: "",
    },
    Table {
        name: "gateway_routing",
        columns: &[
            ("scope", "TEXT NOT NULL DEFAULT ''"),
            ("session_key", "TEXT NOT NULL"),
            ("entry_json", "TEXT NOT NULL"),
            ("updated_at", "REAL NOT NULL"),
        ],
        constraint: ", PRIMARY KEY (scope, session_key)",
    },
    Table {
        name: "compression_locks",
        columns: &[
            ("session_id", "TEXT PRIMARY KEY"),
            ("holder", "TEXT NOT NULL"),
            ("acquired_at", "REAL NOT NULL"),
            ("expires_at", "REAL NOT NULL"),
        ],
        constraint: "",
    },
    Table {
        name: "async_delegations",
        columns: &[
            ("delegation_id", "TEXT PRIMARY KEY"),
            ("origin_session", "TEXT NOT NULL"),
            ("origin_ui_session_id", "TEXT NOT NULL DEFAULT ''"),
            ("parent_session_id", "TEXT"),
            ("state", "TEXT NOT NULL"),
            ("dispatched_at", "REAL NOT NULL"),
            ("completed_at", "REAL"),
            ("updated_at", "REAL NOT NULL"),
            ("event_json", "TEXT"),
            ("result_json", "TEXT"),
            ("delivery_state", "TEXT NOT NULL DEFAULT 'pending'"),
            ("delivery_attempts", "INTEGER NOT NULL DEFAULT 0"),
            ("delivered_at", "REAL"),
            ("owner_pid", "INTEGER"),
            ("owner_started_at", "INTEGER"),
            ("task_json", "TEXT"),
            ("delivery_claim", "TEXT"),
            ("delivery_claimed_at", "REAL"),
        ],
        constraint: "",
    },
];

/// Each index by its name.
pub(crate) const INDEXES: &[(&str, &str)] = &[
    (
        "idx_sessions_source",
        "CREATE INDEX IF NOT EXISTS idx_sessions_source ON sessions(source)",
    ),
    (
        "idx_sessions_source_id",
        "CREATE INDEX IF NOT EXISTS idx_sessions_source_id ON sessions(source, id)",
    ),
    (
        "idx_sessions_parent",
        "CREATE INDEX IF NOT EXISTS idx_sessions_parent ON sessions(parent_session_id)",
    ),
    (
        "idx_sessions_started",
        "CREATE INDEX IF NOT EXISTS idx_sessions_started ON sessions(started_at DESC)",
    ),
    (
        "idx_sessions_session_key",
        "CREATE INDEX IF NOT EXISTS idx_sessions_session_key ON sessions(session_key, started_at DESC)",
    ),
    // Ours alone: all that a list of chats is made of. In the table it lies behind each session's prompt, several pages
    // further on.
    (
        "idx_sessions_chat_marks",
        "CREATE INDEX IF NOT EXISTS idx_sessions_chat_marks ON sessions(session_key, started_at DESC, ended_at, id, \
         source, user_id, chat_id, chat_type, thread_id, display_name, origin_json, title, input_tokens, \
         output_tokens, message_count, tool_call_count) WHERE session_key IS NOT NULL",
    ),
    (
        "idx_sessions_gateway_peer",
        "CREATE INDEX IF NOT EXISTS idx_sessions_gateway_peer \
         ON sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC)",
    ),
    (
        "idx_sessions_handoff_state",
        "CREATE INDEX IF NOT EXISTS idx_sessions_handoff_state ON sessions(handoff_state, started_at)",
    ),
    (
        "idx_sessions_title_unique",
        "CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL",
    ),
    (
        "idx_messages_session",
        "CREATE INDEX IF NOT EXISTS idx_messages_session ON messages(session_id, timestamp)",
    ),
    (
        "idx_messages_session_active",
        "CREATE INDEX IF NOT EXISTS idx_messages_session_active ON messages(session_id, active, timestamp)",
    ),
    (
        "idx_messages_active_null",
        "CREATE INDEX IF NOT EXISTS idx_messages_active_null ON messages(active) WHERE active IS NULL",
    ),
    (
        "idx_messages_platform_msg_id",
        "CREATE INDEX IF NOT EXISTS idx_messages_platform_msg_id \
         ON messages(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL",
    ),
    (
        "idx_compression_locks_expires",
        "CREATE INDEX IF NOT EXISTS idx_compression_locks_expires ON compression_locks(expires_at)",
    ),
    (
        "idx_session_model_usage_session",
        "CREATE INDEX IF NOT EXISTS idx_session_model_usage_session ON session_model_usage(session_id)",
    ),
    (
        "idx_session_model_usage_model",
        "CREATE INDEX IF NOT EXISTS idx_session_model_usage_model ON session_model_usage(model)",
    ),
    (
        "idx_async_delegations_delivery",
        "CREATE INDEX IF NOT EXISTS idx_async_delegations_delivery ON async_delegations(delivery_state, completed_at)",
    ),
];

/// A full-text table over messages and what keeps it up to date.
pub(crate) struct FullTextTable {
    pub(crate) table: &'static str,
    /// What makes the table.
    pub(crate) create: &'static str,
    /// Fills it from the messages that are there already.
    pub(crate) fill: &'static str,
    /// Each trigger by its name.
    pub(crate) triggers: &'static [(&'static str, &'static str)],
}

/// One statement of a full-text table. The text indexed is the same everywhere: content, tool name, tool calls.
macro_rules! fts {
    ($table:literal, $options:literal) => {
        FullTextTable {
            table: $table,
            create: concat!(
                "CREATE VIRTUAL TABLE IF NOT EXISTS ",
                $table,
                " USING fts5(content",
                $options,
                ")"
            ),
            fill: concat!(
                "INSERT INTO ",
                $table,
                "(rowid, content) SELECT id, COALESCE(content, '') || ' ' || COALESCE(tool_name, '') \
                 || ' ' || COALESCE(tool_calls, '') FROM messages"
            ),
            triggers: &[
                (
                    concat!($table, "_insert"),
                    concat!(
                        "CREATE TRIGGER IF NOT EXISTS ",
                        $table,
                        "_insert AFTER INSERT ON messages BEGIN INSERT INTO ",
                        $table,
                        "(rowid, content) VALUES (new.id, COALESCE(new.content, '') || ' ' || \
                         COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')); END"
                    ),
                ),
                (
                    concat!($table, "_delete"),
                    concat!(
                        "CREATE TRIGGER IF NOT EXISTS ",
                        $table,
                        "_delete AFTER DELETE ON messages BEGIN DELETE FROM ",
                        $table,
                        " WHERE rowid = old.id; END"
                    ),
                ),
                (
                    concat!($table, "_update"),
                    concat!(
                        "CREATE TRIGGER IF NOT EXISTS ",
                        $table,
                        "_update AFTER UPDATE ON messages BEGIN DELETE FROM ",
                        $table,
                        " WHERE rowid = old.id; INSERT INTO ",
                        $table,
                        "(rowid, content) VALUES (new.id, COALESCE(new.content, '') || ' ' || \
                         COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')); END"
                    ),
                ),
            ],
        }
    };
}

/// Words, and substrings of three characters or more.
pub(crate) const FTS: &[FullTextTable] = &[
    fts!("messages_fts", ""),
    fts!("messages_fts_trigram", ", tokenize='trigram'"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_fills_in_what_a_table_lacks() {
        let present: Vec<String> = MESSAGES
            .columns
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .filter(|name| !["active", "observed", "api_content"].contains(&name.as_str()))
            .collect();
        let source = MESSAGES.select_source(&present).unwrap();
        assert!(source.contains("1 AS active"), "{source}");
        assert!(source.contains("0 AS observed"), "{source}");
        assert!(source.contains("NULL AS api_content"), "{source}");
        assert_eq!(MESSAGES.select_source(&["id".into()]), Err("session_id"));
    }

    #[test]
    fn only_columns_with_a_value_for_old_rows_can_be_added() {
        assert!(is_required("TEXT NOT NULL"));
        assert!(is_required("TEXT PRIMARY KEY"));
        assert!(!is_required("INTEGER NOT NULL DEFAULT 1"));
        assert!(!is_required("TEXT"));
    }
}
