//! Commands that delete directories.

use super::Run;
use crate::approval::{
    programs::{self, Inner},
    targets,
};

/// `rm -r`
pub(super) fn recursive(run: &Run<'_>) -> bool {
    matches!(run.name, "rm" | "grm")
        && (run.has_flag('r', "recursive") || run.has_flag('R', "recursive"))
}

/// `rm -r /`, or `find / -delete`.
pub(super) fn of_everything(run: &Run<'_>) -> bool {
    let is_lost = |word: &str| {
        let paths = run.paths(word);
        paths
            .iter()
            .any(|path| targets::loss(path, run.landmarks).is_some())
    };
    if recursive(run) {
        return run.operands().any(is_lost);
    }
    find_delete(run)
        && !programs::find_is_narrowed(run.arguments)
        && programs::find_starts(run.arguments)
            .iter()
            .any(|start| is_lost(&start.text))
}

/// `find … -delete`
pub(super) fn find_delete(run: &Run<'_>) -> bool {
    is_find(run) && run.arguments.iter().any(|word| word.text == "-delete")
}

/// `find … -exec rm`
pub(super) fn find_exec(run: &Run<'_>) -> bool {
    is_find(run) && runs_rm(run)
}

/// `… | xargs rm`
pub(super) fn xargs(run: &Run<'_>) -> bool {
    matches!(run.name, "xargs" | "gxargs") && runs_rm(run)
}

fn is_find(run: &Run<'_>) -> bool {
    matches!(run.name, "find" | "gfind")
}

fn runs_rm(run: &Run<'_>) -> bool {
    programs::inner(run).iter().any(|inner| match inner {
        Inner::Words(words) => words.first().is_some_and(|word| {
            let program = word.text.rsplit('/').next();
            matches!(program, Some("rm" | "unlink" | "shred"))
        }),
        _ => false,
    })
}
