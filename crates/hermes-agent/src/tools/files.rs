//! Tools for files: reading, writing, patching and searching, what paths they may reach, and the files of groups.

pub(crate) mod patch;
pub(crate) mod path_access;
pub(crate) mod read_file;
pub(crate) mod search_files;
pub mod teams;
pub(crate) mod write_file;
