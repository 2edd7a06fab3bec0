//! How text, calls and notices look on a terminal.

pub(crate) mod calls;
pub(crate) mod compaction;
pub(crate) mod markdown;
pub(crate) mod style;
pub(crate) mod todo;
pub(crate) mod truncate;
pub(crate) mod wrap;
