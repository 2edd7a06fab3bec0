//! What a Hub keeps: its database, the files of shares and homes, the audit log, secrets, backups.

pub mod audit;
pub mod backup;
pub mod checkpoints;
pub mod data_dir;
pub mod encryption;
pub mod files;
pub(crate) mod linked_database;
pub mod migration;
pub mod objects;
pub mod state;
pub mod sync;
