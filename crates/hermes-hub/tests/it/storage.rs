//! Database, files, backup and sync.
pub(crate) mod backup;
pub(crate) mod files;
pub(crate) mod state;
pub(crate) mod sync;
