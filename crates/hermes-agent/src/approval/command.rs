//! Reads a command line and finds what in it is risky.

pub(crate) mod classify;
pub(crate) mod code;
pub(crate) mod directories;
pub(crate) mod downloads;
pub(crate) mod paths;
pub(crate) mod programs;
pub(crate) mod remote_code;
pub(crate) mod rules;
pub(crate) mod shell;
pub(crate) mod sql;
pub(crate) mod unpacking;
pub(crate) mod written_files;
