//! Commands that could not be reviewed: downloaded or decoded content, programs whose names are only known when they run,
//! and scripts that were just written.

use std::path::PathBuf;

use super::{Invocation, builds, packages};
use crate::approval::command::{
    downloads::{downloads, line_downloads},
    programs,
    programs::NestedCommand,
    remote_code, shell,
    written_files::FileOrigin,
};

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

/// `cat > x.sh …; sh x.sh`, in one line or in two commands of a session; or what was unpacked.
pub(super) fn runs_session_script(run: &Invocation<'_>) -> bool {
    let executed = executed_files(run);
    runs_file_from(run, &executed, FileOrigin::Session)
        || runs_file_from(run, &executed, FileOrigin::Archive)
        || runs_file_from(run, &builds::executed_files(run), FileOrigin::Archive)
}

/// Whether one of the files was written in this session and has this origin.
fn runs_file_from(run: &Invocation<'_>, files: &[PathBuf], origin: FileOrigin) -> bool {
    files
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
    if programs::is_awk(run.name) {
        words.extend(programs::awk_files(run.arguments));
    }
    words.iter().flat_map(|word| run.paths(word)).collect()
}

const DECODERS: [&str; 11] = [
    "base64", "base32", "basenc", "xxd", "openssl", "gunzip", "zcat", "uudecode", "tr", "rev",
    "gpg",
];

/// `curl … | sh`, `curl … | xargs sh -c`, `bash <(curl …)`, `eval "$(curl …)"`, `curl -o x …; sh x`,
/// `pip install https://…`
pub(super) fn runs_download(run: &Invocation<'_>) -> bool {
    if packages::installs_from_address(run) {
        return true;
    }
    let runs_pipe = runs_its_input(run) || hands_input_to_shell(run);
    if runs_pipe && run.command.reads_pipe && run.preceding.iter().any(downloads) {
        return true;
    }
    let executed = [
        executed_files(run),
        builds::executed_files(run),
        builds::installed_files(run),
    ];
    if runs_file_from(run, &executed.concat(), FileOrigin::Download) {
        return true;
    }
    runs_text(run)
        && run
            .arguments
            .iter()
            .flat_map(|word| &word.substitutions)
            .any(|line| line_downloads(line))
}

/// `echo … | base64 -d | sh`
pub(super) fn runs_decoded(run: &Invocation<'_>) -> bool {
    if !(runs_its_input(run) && run.command.reads_pipe) {
        return false;
    }
    for command in run.preceding.iter().rev() {
        if names_one(command, &DECODERS) {
            return true;
        }
        if !command.reads_pipe {
            break;
        }
    }
    false
}

fn names_one(command: &shell::ShellCommand, names: &[&str]) -> bool {
    // The program may follow `sudo` or `env`.
    command
        .words
        .iter()
        .take(3)
        .any(|word| names.contains(&word.text.rsplit('/').next().unwrap_or_default()))
}

/// `xargs sh -c`: its input becomes the code.
fn hands_input_to_shell(run: &Invocation<'_>) -> bool {
    matches!(run.name, "xargs" | "gxargs" | "parallel")
        && run.arguments.iter().any(|word| {
            let program = word.text.rsplit('/').next().unwrap_or_default();
            programs::is_shell(program) || programs::is_interpreter(program) || program == "env"
        })
}

/// A shell or interpreter without a script of its own.
fn runs_its_input(run: &Invocation<'_>) -> bool {
    let is_shell = programs::is_shell(run.name);
    let reads_script = run.arguments.iter().any(|word| {
        let stdin = ["-s", "-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
        stdin.contains(&word.text.as_str())
    });
    let has_own = run.operands().next().is_some()
        || run.arguments.iter().any(|word| {
            let text = word.text.as_str();
            text.starts_with('-') && !text.starts_with("--") && text.contains(['c', 'e', 'm', 'r'])
        });
    let reads_at = matches!(run.name, "source" | "." | "at" | "batch");
    let is_runner = is_shell || programs::is_interpreter(run.name);
    (is_runner && (reads_script || !has_own))
        || (reads_at && (reads_script || run.name == "at" || run.name == "batch"))
        || awk_reads_program(run)
        || code_runs_input(run)
}

/// `awk -f -`
fn awk_reads_program(run: &Invocation<'_>) -> bool {
    let files = programs::awk_files(run.arguments);
    programs::is_awk(run.name) && files.iter().any(|file| matches!(*file, "-" | "/dev/stdin"))
}

/// `python3 -c 'exec(sys.stdin.read())'`
fn code_runs_input(run: &Invocation<'_>) -> bool {
    let has_code = programs::is_interpreter(run.name) || programs::is_awk(run.name);
    has_code
        && run.command.reads_pipe
        && programs::nested_commands(run)
            .iter()
            .any(|inner| match inner {
                NestedCommand::Code(code) => {
                    let has_ticks =
                        matches!(run.name, "perl" | "ruby" | "php") && code.contains('`');
                    has_ticks || remote_code::runs_text(code)
                }
                NestedCommand::Words(_) | NestedCommand::Line(_) => false,
            })
}

/// A program that runs its arguments as code.
fn runs_text(run: &Invocation<'_>) -> bool {
    programs::is_shell(run.name)
        || programs::is_interpreter(run.name)
        || matches!(run.name, "eval" | "source" | ".")
}
