//! Database, files, backup and sync.
pub(crate) mod backup;
mod checkpoints_on_postgres;
pub(crate) mod files;
mod files_on_objects;
mod migration_on_postgres;
mod objects;
pub(crate) mod state;
mod state_on_postgres;
mod state_on_postgres_18;
pub(crate) mod sync;
