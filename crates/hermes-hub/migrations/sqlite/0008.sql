-- People in the console, and links that sign them in once.

CREATE TABLE console_sessions (
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    -- Ends with its token, where it speaks for one.
    token TEXT REFERENCES tokens (id) ON DELETE CASCADE,
    holder TEXT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT;
CREATE INDEX console_sessions_by_token ON console_sessions (token);
CREATE INDEX console_sessions_by_use ON console_sessions (used_at);

CREATE TABLE sign_in_links (
    hash BLOB PRIMARY KEY,
    token TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    ends_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_in_links_by_end ON sign_in_links (ends_at);
