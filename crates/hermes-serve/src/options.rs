//! What a server over HTTP allows.

use std::{sync::Arc, time::Duration};

use crate::records::SessionRecords;

/// What a server over HTTP allows.
#[derive(Debug, Clone)]
pub struct HttpServeOptions {
    pub path: String,
    /// Names it may be called by, `host` or `host:port`, besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call it, `scheme://host:port` with `*` for any port, besides those of this machine.
    pub allowed_origins: Vec<String>,
    /// After so long without a message an MCP session ends.
    pub session_idle_timeout: Duration,
    /// So many MCP sessions may be open.
    pub max_sessions: usize,
    /// So many may be open for one principal: then the one longest idle gives way, unless all are in use.
    pub max_sessions_per_principal: usize,
    /// So large may a request be.
    pub max_body_bytes: usize,
    /// Where MCP sessions are kept, if they are to outlive this process. It also sees to the number for one principal.
    pub records: Option<Arc<dyn SessionRecords>>,
}

impl Default for HttpServeOptions {
    fn default() -> Self {
        Self {
            path: "/mcp".into(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            // Many clients never open a new one when theirs is gone.
            session_idle_timeout: Duration::from_hours(12),
            max_sessions: 64,
            max_sessions_per_principal: usize::MAX,
            max_body_bytes: 4 * 1024 * 1024,
            records: None,
        }
    }
}
