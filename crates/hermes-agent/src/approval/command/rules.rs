//! The rules: what each matches, and whether it asks or blocks.
//!
//! An "always" answer is remembered by the rule's name. The names are those of Hermes Agent
//! where it has the same rule, so that its list of allowed commands keeps working.

mod builds;
mod deletion;
mod own_program;
mod packages;
mod processes;
mod statements;
mod unreviewed;
mod writes;

use super::classify::{Invocation, Severity};

pub(super) use statements::rule_for_sql;

pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    /// What a matching command would do.
    pub(crate) reason: &'static str,
    pub(crate) applies: fn(&Invocation<'_>) -> bool,
}

const fn block_rule(
    name: &'static str,
    reason: &'static str,
    holds: fn(&Invocation<'_>) -> bool,
) -> Rule {
    Rule {
        name,
        severity: Severity::Block,
        reason,
        applies: holds,
    }
}

const fn approval_rule(
    name: &'static str,
    reason: &'static str,
    holds: fn(&Invocation<'_>) -> bool,
) -> Rule {
    Rule {
        name,
        severity: Severity::Ask,
        reason,
        applies: holds,
    }
}

/// Rules about what a sandbox prevents by itself: nothing outside the workspace can be reached in it, whatever
/// runs.
pub(crate) const SANDBOX_COVERED_RULES: [&str; 9] = [
    "use of Hermes itself",
    "computed program name",
    "run script written in this session",
    "command too complex to check",
    "code that names protected files",
    "overwrite system config",
    "overwrite startup file",
    "overwrite Hermes config",
    "credential file access",
];

pub(crate) const RULES: &[Rule] = &[
    block_rule(
        "recursive delete of system",
        "deletes the root, a system or a home directory",
        deletion::deletes_system,
    ),
    block_rule(
        "format filesystem",
        "makes a new file system and loses the old one",
        deletion::formats_disk,
    ),
    block_rule(
        "wipe raw block device",
        "erases a disk",
        deletion::wipes_disk,
    ),
    block_rule(
        "write to raw block device",
        "writes over a disk",
        deletion::writes_disk,
    ),
    block_rule(
        "fork bomb",
        "starts processes without end",
        processes::is_fork_bomb,
    ),
    block_rule(
        "kill all processes",
        "ends every process of the machine",
        processes::kills_all,
    ),
    block_rule(
        "system shutdown/reboot",
        "stops the machine",
        processes::shuts_down,
    ),
    block_rule(
        "sudo password via stdin",
        "hands a password to sudo",
        processes::reads_sudo_password,
    ),
    approval_rule(
        "recursive delete",
        "deletes a directory with everything in it",
        deletion::deletes_recursively,
    ),
    approval_rule(
        "find -delete",
        "deletes everything that is found",
        deletion::find_deletes,
    ),
    approval_rule(
        "find -exec/-execdir rm",
        "deletes everything that is found",
        deletion::find_runs_rm,
    ),
    approval_rule(
        "xargs with rm",
        "deletes whatever it reads the names of",
        deletion::xargs_runs_rm,
    ),
    approval_rule(
        "world/other-writable permissions",
        "lets every user of the machine write",
        processes::makes_world_writable,
    ),
    approval_rule(
        "approve MCP tool",
        "accepts a changed tool in your place",
        processes::approves_tool,
    ),
    approval_rule(
        "use of Hermes itself",
        "would change or use Hermes itself",
        own_program::uses_hermes,
    ),
    approval_rule(
        "SQL DROP",
        "drops a table or database",
        statements::drops_table,
    ),
    approval_rule(
        "SQL TRUNCATE",
        "empties a table",
        statements::truncates_table,
    ),
    approval_rule(
        "SQL DELETE without WHERE",
        "deletes every row of a table",
        statements::deletes_all_rows,
    ),
    approval_rule(
        "stop/restart system service",
        "stops or disables a service",
        processes::stops_service,
    ),
    approval_rule(
        "force kill processes",
        "ends processes by name without letting them finish",
        processes::force_kills,
    ),
    approval_rule(
        "pipe remote content to shell",
        "runs something straight from the network",
        unreviewed::runs_download,
    ),
    approval_rule(
        "pipe decoded content to shell",
        "runs something that cannot be checked here",
        unreviewed::runs_decoded,
    ),
    approval_rule(
        "computed program name",
        "runs a program whose name is only known when it runs",
        unreviewed::runs_computed_program,
    ),
    approval_rule(
        "run script written in this session",
        "runs a script that was just written, and that nobody has read",
        unreviewed::runs_session_script,
    ),
    approval_rule(
        "overwrite system config",
        "changes the system's configuration",
        writes::writes_system_config,
    ),
    approval_rule(
        "overwrite startup file",
        "changes what runs or is trusted at your next login",
        writes::writes_startup_file,
    ),
    approval_rule(
        "overwrite Hermes config",
        "changes the settings of Hermes",
        writes::writes_hermes_config,
    ),
    approval_rule(
        "credential file access",
        "touches stored credentials",
        writes::uses_credentials,
    ),
];
