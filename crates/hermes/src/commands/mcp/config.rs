//! Commands that change which servers are configured, and how.

pub(crate) mod add;
pub(crate) mod catalog;
pub(crate) mod configure;
pub(crate) mod enable;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod pins;
pub(crate) mod reload;
pub(crate) mod remove;
pub(crate) mod save;
pub(crate) mod secrets;
