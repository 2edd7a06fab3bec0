//! What a tenant tries. It worked if its process ends well.

/// Seen from a tenant's home, since the paths of sockets must be short: where the other agent listens, and the Hub.
pub(super) const OTHER_AGENT_SOCKET: &str = "../../../run/other.sock";
const HUB_SOCKET: &str = "../../../internal/hub.sock";

/// Variables of scripts: the home of the other tenant, the process of its agent, the directory of the Hub.
pub(super) const OTHER_VARIABLE: &str = "OTHER";
pub(super) const PID_VARIABLE: &str = "OTHER_PID";
pub(super) const HUB_VARIABLE: &str = "HUB";

pub(super) struct Probe {
    pub(super) what: &'static str,
    pub(super) method: ProbeMethod,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeMethod {
    /// Commands of a shell, which begins in the tenant's home.
    Script(&'static str),
    /// Connecting to a socket.
    Socket(&'static str),
    /// Connecting to a socket that has a name and no path.
    #[cfg(target_os = "linux")]
    AbstractSocket,
}

const fn script(what: &'static str, script: &'static str) -> Probe {
    let method = ProbeMethod::Script(script);
    Probe { what, method }
}

const fn socket(what: &'static str, path: &'static str) -> Probe {
    let method = ProbeMethod::Socket(path);
    Probe { what, method }
}

/// What a tenant must be able to do.
pub(super) const NEEDED: &[Probe] = &[
    script("use its own home", "cat secret.txt && echo new > made.txt"),
    socket("ask the Hub", HUB_SOCKET),
];

/// What it must not be able to do.
pub(super) const FORBIDDEN: &[Probe] = &[
    script("read another tenant's file", "cat \"$OTHER/secret.txt\""),
    script("list another tenant's home", "ls \"$OTHER/\""),
    script(
        "write into another tenant's home",
        "echo x > \"$OTHER/planted.txt\"",
    ),
    script(
        "remove another tenant's file",
        "rm -f \"$OTHER/secret.txt\" && ! test -e \"$OTHER/secret.txt\"",
    ),
    script(
        "move a file into another tenant's home",
        "echo x > mine.txt && mv mine.txt \"$OTHER/moved.txt\"",
    ),
    script(
        "read through a link to another tenant's file",
        "ln -sf \"$OTHER/secret.txt\" soft && cat soft",
    ),
    script(
        "give another tenant's file a name of its own",
        "ln \"$OTHER/secret.txt\" hard && cat hard",
    ),
    script("read the Hub's database", "cat \"$HUB/hub.db\""),
    script("read the Hub's secret key", "cat \"$HUB/secret.key\""),
    script("read the Hub's admin token", "cat \"$HUB/admin.token\""),
    script(
        "write into the Hub's directory",
        "echo x > \"$HUB/planted.txt\"",
    ),
    script("list the tenants", "ls \"$HUB/tenants\""),
    script(
        "read a share past the Hub",
        "cat \"$HUB/shares/division/a.md\"",
    ),
    script(
        "write to a share past the Hub",
        "echo x > \"$HUB/shares/division/b.md\"",
    ),
    script(
        "read another agent's environment",
        "cat /proc/$OTHER_PID/environ | grep -q .",
    ),
    script(
        "reach another agent's files through its process",
        "cat /proc/$OTHER_PID/cwd/../secret.txt",
    ),
    // Their numbers can be listed where both have one user, and say nothing.
    script(
        "see another agent's open files",
        "readlink /proc/$OTHER_PID/fd/* | grep -q .",
    ),
    script(
        "read another agent's memory",
        "head -c 1 /proc/$OTHER_PID/mem || cat /proc/$OTHER_PID/maps | grep -q .",
    ),
    script("signal another agent", "kill -0 $OTHER_PID"),
    socket("reach another agent's socket", OTHER_AGENT_SOCKET),
    #[cfg(target_os = "linux")]
    Probe {
        what: "reach a socket without a path",
        method: ProbeMethod::AbstractSocket,
    },
];
