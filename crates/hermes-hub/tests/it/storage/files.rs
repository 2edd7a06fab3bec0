//! Shares in directories.

mod attacks;
mod changes;
mod disk;
pub(crate) mod fixture;
mod processes;
mod quotas;
mod race;
mod reading;
mod searching;
mod special;
mod workspace;
mod writing;
