//! Servers as child processes: how they are started, watched, ended, logged and recorded.
//!
//! The host never forks a server itself. It starts one small **guard** process, and the guard forks one **keeper** per
//! server. The keeper is the server's parent and, on Linux, the one to which detached descendants fall. It ends the
//! whole tree when the host asks for it, when the server exits, or when its socket to the host closes, which the kernel
//! does even after `kill -9` of the host.
//!
//! ```text
//! host --socket--> guard            (takes orders to fork, nothing else)
//!   |                `- keeper      (one per server: parent, subreaper)
//!   `-----socket-------'   `- server, leader of its process group
//! ```
//!
//! [`Guard::spawn`] is the way in. [`StderrLog`] drains what servers print, [`records`] keeps the list of processes on
//! disk for `mcp ps` and for the next host.

#![cfg(unix)]

pub mod guard;
mod keeper;
mod process_table;
mod processes;
pub mod records;
mod server_process;
mod spawn;
mod spawn_error;
pub mod stderr_log;
mod utc;
mod wire;

pub(crate) use self::processes::{Processes, Running, StartError};
pub use self::{
    process_table::{may_be_running, start_time},
    server_process::{Exit, ServerProcess, StopError},
    spawn::{Child, Guard, GuardProgram, SpawnRequest},
    spawn_error::SpawnError,
    stderr_log::{ServerStderr, StderrLog},
};
