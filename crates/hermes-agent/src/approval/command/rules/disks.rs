//! Commands that destroy a disk.

use super::{Invocation, writes};
use crate::approval::command::paths;

/// `mkfs` and its relatives.
pub(super) fn formats_disk(run: &Invocation<'_>) -> bool {
    let name = run.name;
    if name == "mkfs" || name.starts_with("mkfs.") || name == "mke2fs" {
        return run.operands().next().is_some();
    }
    if name == "mkswap" || name.starts_with("newfs") {
        return names_disk(run);
    }
    name == "diskutil"
        && run.operands().take(2).any(|verb| {
            let verb = verb.to_ascii_lowercase();
            [
                "erase",
                "zero",
                "random",
                "secureerase",
                "reformat",
                "partitiondisk",
            ]
            .iter()
            .any(|start| verb.starts_with(start))
        })
}

/// `wipefs -a`, `blkdiscard` and the like.
pub(super) fn wipes_disk(run: &Invocation<'_>) -> bool {
    let destroys = match run.name {
        "wipefs" => run.has_flag('a', "all") && !run.has_flag('n', "no-act"),
        "sgdisk" => run
            .arguments
            .iter()
            .any(|w| matches!(&*w.text, "-Z" | "--zap-all" | "-o" | "--clear")),
        "blkdiscard" | "shred" => true,
        _ => false,
    };
    destroys && names_disk(run)
}

/// `dd of=/dev/…`, a redirection, or a copy to a disk.
pub(super) fn writes_disk(run: &Invocation<'_>) -> bool {
    writes::write_targets(run)
        .iter()
        .any(|target| run.paths(target).iter().any(|path| paths::is_disk(path)))
}

fn names_disk(run: &Invocation<'_>) -> bool {
    run.operands()
        .any(|word| run.paths(word).iter().any(|path| paths::is_disk(path)))
}
