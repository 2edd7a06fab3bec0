//! From a server's own list to the tools that a model sees: what is offered, which of it is let through, under which
//! names, with which schemas, and whether it is what was accepted.

pub mod catalog;
pub mod description_scan;
pub mod filter;
pub mod names;
pub mod pins;
pub mod registry;
pub mod schema;
pub mod toolset;
