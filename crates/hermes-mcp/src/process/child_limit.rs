//! What a process forbids: others to look into it, and what it starts to take all processes.
//!
//! A limit on child processes, lower than that of the agent itself, where its user may have only so many processes.
//!
//! Threads are processes, too, when they are counted. An agent whose commands have used up all of them could not even
//! read its own database any more. So whoever limits an agent allows it a few more than it may start, and says here how
//! many those are.

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::process::Command;

/// Names, to an agent that is limited, how many processes there may be before what it starts can start no more.
pub const CHILD_LIMIT_VARIABLE: &str = "HERMES_CHILD_PROCESSES";

/// Holds what a command starts to fewer processes than this one, if this one is to do so.
#[expect(unsafe_code, reason = "pre_exec has no safe form")]
pub fn limit_child_processes(command: &mut Command) {
    let most = std::env::var(CHILD_LIMIT_VARIABLE).ok();
    let Some(most) = most.and_then(|most| most.parse().ok()) else {
        return;
    };
    let limit = move || {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(Resource::Nproc, limit)?;
        Ok(())
    };
    // SAFETY: a plain system call; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(limit) };
}

/// Switches core files and inspection off, for this process: from now on neither its memory nor its variables nor its
/// open files can be read by another process of the same user, and none can trace it. Programs that it starts are
/// themselves again.
///
/// Call it before anything is started. What holds keys and starts programs needs it.
pub fn forbid_inspection() {
    // A kernel that refuses this leaves things as they were; nothing could be done about it here.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
