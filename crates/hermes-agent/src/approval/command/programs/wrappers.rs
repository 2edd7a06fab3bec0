//! Programs that run another command: `sudo`, `env`, `nice` and the like.

/// A program whose arguments end in a command.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    /// Options that are followed by a value.
    pub(super) values: &'static [&'static str],
    /// Arguments before the command.
    pub(super) operands: usize,
}

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["sudo"],
        values: &[
            "-u",
            "-g",
            "-h",
            "-p",
            "-C",
            "-r",
            "-t",
            "-T",
            "-U",
            "-D",
            "-R",
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--chdir",
            "--chroot",
            "--role",
            "--type",
            "--other-user",
            "--close-from",
        ],
        operands: 0,
    },
    Wrapper {
        names: &["doas"],
        values: &["-u", "-C"],
        operands: 0,
    },
    Wrapper {
        names: &["env"],
        values: &["-u", "-C", "--unset", "--chdir"],
        operands: 0,
    },
    Wrapper {
        names: &[
            "nohup",
            "setsid",
            "builtin",
            "busybox",
            "toybox",
            "caffeinate",
            "unshare",
            "setpriv",
            "firejail",
            "rlwrap",
            "command",
            "fakeroot",
            "proxychains",
            "proxychains4",
            "torsocks",
            "eatmydata",
            "noglob",
            "nocorrect",
        ],
        values: &[],
        operands: 0,
    },
    Wrapper {
        names: &["exec"],
        values: &["-a"],
        operands: 0,
    },
    Wrapper {
        names: &["time"],
        values: &["-f", "-o"],
        operands: 0,
    },
    Wrapper {
        names: &["nice"],
        values: &["-n", "--adjustment"],
        operands: 0,
    },
    Wrapper {
        names: &["ionice"],
        values: &["-c", "-n"],
        operands: 0,
    },
    Wrapper {
        names: &["stdbuf"],
        values: &["-i", "-o", "-e"],
        operands: 0,
    },
    Wrapper {
        names: &["timeout"],
        values: &["-k", "-s", "--kill-after", "--signal"],
        operands: 1,
    },
    Wrapper {
        names: &["chrt", "taskset", "chroot", "gosu", "su-exec"],
        values: &["--userspec"],
        operands: 1,
    },
    Wrapper {
        names: &["flock"],
        values: &["-w", "-E"],
        operands: 1,
    },
    Wrapper {
        names: &["nsenter"],
        values: &["-t"],
        operands: 0,
    },
    Wrapper {
        names: &["strace", "ltrace"],
        values: &["-e", "-o", "-p", "-s", "-u"],
        operands: 0,
    },
    Wrapper {
        names: &["runuser"],
        values: &["-u", "-g", "-G"],
        operands: 0,
    },
    Wrapper {
        names: &["systemd-run"],
        values: &["-p", "-u", "--unit", "-H", "-M", "--uid", "--gid"],
        operands: 0,
    },
    Wrapper {
        names: &["xargs", "gxargs"],
        values: &[
            "-I",
            "-n",
            "-P",
            "-d",
            "-L",
            "-s",
            "-a",
            "-E",
            "--max-args",
            "--max-procs",
            "--delimiter",
        ],
        operands: 0,
    },
    Wrapper {
        names: &["parallel"],
        values: &["-j", "--jobs", "-I", "-a"],
        operands: 0,
    },
];
