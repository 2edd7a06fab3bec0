//! A host while its configuration changes.

mod config_watch;
mod reload;
