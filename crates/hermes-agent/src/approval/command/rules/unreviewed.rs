//! Commands that could not be reviewed: programs whose names are only known when they run, and scripts that were just
//! written.

use std::path::PathBuf;

use super::Invocation;
use crate::approval::command::{programs, written_files::FileOrigin};

/// `$(printf rm) -r d`, `$X -r d`, `/bin/r? -r d`
pub(super) fn runs_computed_program(run: &Invocation<'_>) -> bool {
    let program = run.program;
    let text = program.text.as_str();
    // An element of an array assignment.
    if text
        .split_once('[')
        .is_some_and(|(_, rest)| rest.contains("]="))
    {
        return false;
    }
    let is_pattern = text.contains('/') && text.contains(['*', '?', '[']);
    !program.substitutions.is_empty() || text.contains('$') || is_pattern
}

/// `cat > x.sh …; sh x.sh`, in one line or in two commands of a session.
pub(super) fn runs_session_script(run: &Invocation<'_>) -> bool {
    runs_file_from(run, FileOrigin::Session)
}

/// Whether it runs a file that was written in this session and has this origin.
pub(super) fn runs_file_from(run: &Invocation<'_>, origin: FileOrigin) -> bool {
    executed_files(run)
        .iter()
        .any(|path| run.written_files.origin(path) == Some(origin))
}

/// The files that it would run.
fn executed_files(run: &Invocation<'_>) -> Vec<PathBuf> {
    let mut words: Vec<&str> = Vec::new();
    if run.program.text.contains('/') {
        words.push(&run.program.text);
    }
    if programs::is_shell(run.name) || programs::is_interpreter(run.name) {
        let mut operands = run.operands();
        words.extend(operands.next());
        words.extend(operands.filter(|word| programs::is_script(word)));
    }
    if matches!(run.name, "source" | ".") {
        words.extend(run.operands().next());
    }
    words.iter().flat_map(|word| run.paths(word)).collect()
}
