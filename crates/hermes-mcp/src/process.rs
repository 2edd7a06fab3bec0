//! Servers as child processes: how they are started, watched, ended, logged and recorded.
//!
//! The host never starts a server itself. It has one small **guard** process, which is the parent of all servers and,
//! on Linux, the one to which detached descendants fall. The guard ends the whole tree of a server when the host asks
//! for it, when the server exits, or when its socket to the host closes, which the kernel does even after `kill -9` of
//! the host. Above the guard is the **watchdog**, which kills what is left if somebody kills the guard.
//!
//! ```text
//! host --> watchdog                (waits for the guard, nothing else)
//!   |        `- guard              (parent of all servers, subreaper)
//!   `--sockets---'  `- server      (one socket each, leader of its process group)
//! ```
//!
//! [`GuardHandle::spawn`] is the way in. [`StderrLog`] drains what servers print, [`records`] keeps the list of processes on
//! disk for `mcp ps` and for the next host.

#![cfg(unix)]

pub mod command_marker;
mod deadline;
pub mod descendants;
pub mod environment;
pub mod guard;
mod process_table;
mod processes;
pub mod records;
pub mod sandbox;
mod server_process;
mod spawn;
mod spawn_error;
pub mod stderr_log;
mod wire;

pub(crate) use self::{
    process_table::has_children,
    processes::{Processes, RunningProcess, StartError},
};
pub use self::{
    process_table::{
        ProcessTree, is_gone, is_in_session_of_parent, may_be_running, start_time, trees,
    },
    sandbox::forbid_inspection,
    server_process::{ServerExit, ServerProcess, StopError},
    spawn::{GuardHandle, GuardProgram, SpawnRequest, SpawnedServer},
    spawn_error::SpawnError,
    stderr_log::{ServerStderr, StderrLog},
};
