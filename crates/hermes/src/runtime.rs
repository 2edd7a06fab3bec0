//! What runs the tenants of a Hub: one process each, of this same program, confined as far as the machine allows.
//!
//! ```text
//! Hub --> watchdog                     (`hermes __guard`, one per tenant, as for local MCP servers)
//!  |        `- guard                   (ends the whole tree when the Hub goes, however it goes)
//!  |             `- hermes gateway run (was `hermes __tenant` until it had confined itself)
//!  `--- Unix socket, passed down -------'
//! ```
//!
//! [`ProcessRuntime`] is the way in. [`Isolation`] is what the operator wants, [`Means`] what the machine has, and the
//! [`launcher`] is what a tenant's process does to itself before it becomes the agent.

mod api;
mod cgroup;
mod environment;
mod event_stream;
pub mod handover;
mod isolation;
pub mod launcher;
mod linked;
mod niceness;
mod plan;
mod process;
mod process_runtime;
pub mod reach;
mod sandbox;
mod socket;
mod trial;
mod users;
mod watch;

pub(crate) use self::{
    environment::{COMMAND_SANDBOX, READ_PATHS},
    linked::TakeVariables,
};
pub use self::{
    isolation::{Isolation, Means, Mode, closed_to_users},
    linked::{LinkedAgent, LinkedRuntime},
    process_runtime::{ProcessRuntime, Setup},
    socket::{Callers, private_routes},
    trial::{Attempt, Outcome, try_isolation},
};
