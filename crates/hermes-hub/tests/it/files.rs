//! Shares in directories.

mod attacks;
mod changes;
mod processes;
mod quotas;
mod race;
mod reading;
pub(crate) mod scene;
mod searching;
mod special;
mod workspace;
mod writing;
