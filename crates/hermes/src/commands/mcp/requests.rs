//! Commands that ask something of servers: tools, resources, prompts and calls.

pub(crate) mod call;
pub(crate) mod offer;
pub(crate) mod probe;
pub(crate) mod resources;
pub(crate) mod running_process;
pub(crate) mod signature;
pub(crate) mod tools;
