//! What runs the tenants of a Hub: one process each, of this same program, confined as far as the machine allows.
//!
//! ```text
//! Hub --> watchdog                     (`hermes __guard`, one per tenant, as for local MCP servers)
//!  |        `- guard                   (ends the whole tree when the Hub goes, however it goes)
//!  |             `- hermes gateway run (was `hermes __tenant` until it had confined itself)
//!  `--- Unix socket, passed down -------'
//! ```
//!
//! [`ProcessRuntime`] is the way in. [`Isolation`] is what the operator wants, [`IsolationSupport`] what the machine has, and the
//! [`launcher`] is what a tenant's process does to itself before it becomes the agent.

mod api;
mod cgroup;
mod environment;
mod event_stream;
pub mod handover;
mod isolation;
mod isolation_selftest;
pub mod launcher;
mod linked;
mod process;
mod process_runtime;
mod sandbox;
mod socket;
mod users;
mod watch;

pub(crate) use self::{
    environment::{COMMAND_SANDBOX, READ_PATHS},
    linked::ApplyVariables,
};
pub use self::{
    isolation::{ConfinementMode, Isolation, IsolationSupport, directory_closed_to_users},
    linked::{LinkedAgent, LinkedRuntime},
    process_runtime::{ProcessRuntime, ProcessRuntimeSetup},
    socket::{SocketCallers, listen_private_routes},
};
pub use crate::embedded_hub::runtime::isolation_selftest::{
    AttemptOutcome, CONNECT_ARGUMENT, SelftestAttempt, run_selftest, try_connect,
};
