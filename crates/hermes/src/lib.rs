//! What the `hermes` command is made of, apart from its command line.

pub mod catalog;
pub mod import;
pub mod presets;
