//! A conversation in the store: its row, its messages, resuming and compaction.

pub(crate) mod compaction;
pub(crate) mod message_rows;
pub(crate) mod past_calls;
pub(crate) mod recorder;
pub(crate) mod resume;
pub(crate) mod session_row;
