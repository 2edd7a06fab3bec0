//! Commands that delete directories or destroy a disk.

use super::{Invocation, writes};
use crate::approval::command::{paths, programs, programs::NestedCommand};

/// `rm -r`
pub(super) fn deletes_recursively(run: &Invocation<'_>) -> bool {
    matches!(run.name, "rm" | "grm")
        && (run.has_flag('r', "recursive") || run.has_flag('R', "recursive"))
}

/// `rm -r /`, or `find / -delete`.
pub(super) fn deletes_system(run: &Invocation<'_>) -> bool {
    let is_lost = |word: &str| {
        let paths = run.paths(word);
        paths
            .iter()
            .any(|path| paths::describe_loss(path, run.protected_paths).is_some())
    };
    if deletes_recursively(run) {
        return run.operands().any(is_lost);
    }
    find_deletes(run)
        && !programs::find_has_tests(run.arguments)
        && programs::find_roots(run.arguments)
            .iter()
            .any(|start| is_lost(&start.text))
}

/// `find … -delete`
pub(super) fn find_deletes(run: &Invocation<'_>) -> bool {
    is_find(run) && run.arguments.iter().any(|word| word.text == "-delete")
}

/// `find … -exec rm`
pub(super) fn find_runs_rm(run: &Invocation<'_>) -> bool {
    is_find(run) && runs_rm(run)
}

/// `… | xargs rm`
pub(super) fn xargs_runs_rm(run: &Invocation<'_>) -> bool {
    matches!(run.name, "xargs" | "gxargs") && runs_rm(run)
}

fn is_find(run: &Invocation<'_>) -> bool {
    matches!(run.name, "find" | "gfind")
}

fn runs_rm(run: &Invocation<'_>) -> bool {
    programs::nested_commands(run)
        .iter()
        .any(|inner| match inner {
            NestedCommand::Words(words) => words.first().is_some_and(|word| {
                let program = word.text.rsplit('/').next();
                matches!(program, Some("rm" | "unlink" | "shred"))
            }),
            _ => false,
        })
}

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
