//! The rules: what each matches, and whether it asks or blocks.
//!
//! An "always" answer is remembered by the rule's name. The names are those of Hermes Agent
//! where it has the same rule, so that its list of allowed commands keeps working.

mod deletion;
mod disks;
mod permissions;
mod processes;
mod remote;
mod statements;
mod unread;
mod writes;

use super::classify::{Run, Weight};

pub(super) use statements::of_sql;

pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) weight: Weight,
    /// What a matching command would do.
    pub(super) reason: &'static str,
    pub(super) holds: fn(&Run<'_>) -> bool,
}

const fn never(name: &'static str, reason: &'static str, holds: fn(&Run<'_>) -> bool) -> Rule {
    Rule {
        name,
        weight: Weight::Never,
        reason,
        holds,
    }
}

const fn ask(name: &'static str, reason: &'static str, holds: fn(&Run<'_>) -> bool) -> Rule {
    Rule {
        name,
        weight: Weight::Ask,
        reason,
        holds,
    }
}

/// Rules about what a sandbox prevents by itself: nothing outside the workspace can be reached in it, whatever
/// runs.
pub(super) const HELD_BY_SANDBOX: [&str; 8] = [
    "computed program name",
    "run script written in this session",
    "command too complex to check",
    "code that names protected files",
    "overwrite system config",
    "overwrite startup file",
    "overwrite Hermes config",
    "credential file access",
];

pub(super) const RULES: &[Rule] = &[
    never(
        "recursive delete of system",
        "deletes the root, a system or a home directory",
        deletion::of_everything,
    ),
    never(
        "format filesystem",
        "makes a new file system and loses the old one",
        disks::formats,
    ),
    never("wipe raw block device", "erases a disk", disks::wipes),
    never(
        "write to raw block device",
        "writes over a disk",
        disks::writes,
    ),
    never(
        "fork bomb",
        "starts processes without end",
        processes::fork_bomb,
    ),
    never(
        "kill all processes",
        "ends every process of the machine",
        processes::kills_all,
    ),
    never(
        "system shutdown/reboot",
        "stops the machine",
        processes::shuts_down,
    ),
    never(
        "sudo password via stdin",
        "hands a password to sudo",
        permissions::sudo_from_stdin,
    ),
    ask(
        "recursive delete",
        "deletes a directory with everything in it",
        deletion::recursive,
    ),
    ask(
        "find -delete",
        "deletes everything that is found",
        deletion::find_delete,
    ),
    ask(
        "find -exec/-execdir rm",
        "deletes everything that is found",
        deletion::find_exec,
    ),
    ask(
        "xargs with rm",
        "deletes whatever it reads the names of",
        deletion::xargs,
    ),
    ask(
        "world/other-writable permissions",
        "lets every user of the machine write",
        permissions::world_writable,
    ),
    ask(
        "approve MCP tool",
        "accepts a changed tool in your place",
        permissions::approves_tool,
    ),
    ask("SQL DROP", "drops a table or database", statements::drops),
    ask("SQL TRUNCATE", "empties a table", statements::truncates),
    ask(
        "SQL DELETE without WHERE",
        "deletes every row of a table",
        statements::deletes_all,
    ),
    ask(
        "stop/restart system service",
        "stops or disables a service",
        processes::stops_service,
    ),
    ask(
        "force kill processes",
        "ends processes by name without letting them finish",
        processes::force_kills,
    ),
    ask(
        "pipe remote content to shell",
        "runs something straight from the network",
        remote::runs_download,
    ),
    ask(
        "pipe decoded content to shell",
        "runs something that cannot be checked here",
        remote::runs_decoded,
    ),
    ask(
        "computed program name",
        "runs a program whose name is only known when it runs",
        unread::computed_program,
    ),
    ask(
        "run script written in this session",
        "runs a script that was just written, and that nobody has read",
        unread::script_of_session,
    ),
    ask(
        "overwrite system config",
        "changes the system's configuration",
        writes::system_config,
    ),
    ask(
        "overwrite startup file",
        "changes what runs or is trusted at your next login",
        writes::startup_file,
    ),
    ask(
        "overwrite Hermes config",
        "changes the settings of Hermes",
        writes::hermes_config,
    ),
    ask(
        "credential file access",
        "touches stored credentials",
        writes::credentials,
    ),
];
