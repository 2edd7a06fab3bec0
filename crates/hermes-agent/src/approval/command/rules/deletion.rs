//! Commands that delete directories.

use super::Invocation;
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
