//! Commands that tell about servers: what is configured, what state they are in, what is wrong.

pub(crate) mod cached_servers;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod ps;
pub(crate) mod status;
pub(crate) mod test;
