//! The built-in tools.

#[cfg(unix)]
#[cfg(unix)]
pub(crate) mod deps;
pub(crate) mod files;
pub(crate) mod home;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod search_files;
pub(crate) mod terminal;
pub(crate) mod web;
