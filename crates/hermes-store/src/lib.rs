//! What a Hermes home remembers: sessions and their messages, full-text search over them, the gateway's routing,
//! cron jobs and skills.
//!
//! `state.db` and the JSON files are shared with Hermes Agent 0.19, which may use the same home in turn: names,
//! types and meanings are its own. What it has no place for is in `runtime.db`. Every database is opened in `db`;
//! every path comes from a [`Home`](hermes_config::Home) that the caller passes in.
//!
//! Databases are asynchronous. The small files (`mirror`, `cron`, `skills`) are plain blocking reads and writes.

pub mod cron;
pub mod db;
pub mod mirror;
pub mod pairing;
pub mod runtime;
pub mod skills;

mod clock;
mod error;
mod file;
mod ids;
mod json;
mod messages;
mod origin;
mod search;
mod sessions;
mod store;
mod watch;

pub use clock::{epoch_seconds, local_iso, utc_iso, zoned_iso};
pub use error::StoreError;
pub use file::lock_with_timeout;
pub use ids::{BadSessionId, MessageId, SessionId, SessionKey};
pub use messages::{
    ActiveRows, CompactionFailure, Content, MessageQuery, MessageRows, MessageState, MessageWindow,
    NewMessage, PlatformTurn, RecentTexts, RewindResult, Role, StoredMessage, TextMessage,
};
pub use origin::{Origin, SessionKeyPolicy};
pub use search::{SearchHit, SearchMatching, SearchOrder, SearchQuery};
pub use sessions::{
    ChatMark, ChatMarks, ChatSession, EndReason, ModelUsage, NewSession, OwnPlatform, Session,
    SessionListing, SessionOrder, SessionQuery, SessionSummary, SessionUsage, clean_title,
};
pub use store::{Access, Store};
pub use watch::{CurrentStore, LiveStore, StoreVersion};
