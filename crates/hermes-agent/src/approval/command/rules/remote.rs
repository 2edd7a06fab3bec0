//! Commands that run downloaded or decoded content.

use super::Invocation;
use crate::approval::command::{
    programs,
    rules::unreviewed,
    shell,
    written_files::{FileOrigin, downloads},
};

const DECODERS: [&str; 11] = [
    "base64", "base32", "basenc", "xxd", "openssl", "gunzip", "zcat", "uudecode", "tr", "rev",
    "gpg",
];

/// `curl … | sh`, `curl … | xargs sh -c`, `bash <(curl …)`, `eval "$(curl …)"`, `curl -o x …; sh x`
pub(super) fn runs_download(run: &Invocation<'_>) -> bool {
    let runs_pipe = runs_its_input(run) || hands_input_to_shell(run);
    if runs_pipe && run.command.reads_pipe && run.preceding.iter().any(downloads) {
        return true;
    }
    if unreviewed::runs_file_from(run, FileOrigin::Download) {
        return true;
    }
    runs_text(run)
        && run
            .arguments
            .iter()
            .flat_map(|word| &word.substitutions)
            .any(|line| shell::parse(line).is_ok_and(|commands| commands.iter().any(downloads)))
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
    (is_shell || programs::is_interpreter(run.name)) && (reads_script || !has_own)
}

/// A program that runs its arguments as code.
fn runs_text(run: &Invocation<'_>) -> bool {
    programs::is_shell(run.name)
        || programs::is_interpreter(run.name)
        || matches!(run.name, "eval" | "source" | ".")
}
