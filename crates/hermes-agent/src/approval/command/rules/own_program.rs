//! Commands that use Hermes itself: its program, by name or path, and the sockets of its processes.

use super::Invocation;

/// What only shows something, as the words behind the program.
const SHOWING: [&[&str]; 12] = [
    &["version"],
    &["status"],
    &["help"],
    &["mcp", "list"],
    &["mcp", "ls"],
    &["mcp", "status"],
    &["mcp", "ps"],
    &["mcp", "presets"],
    &["sessions", "list"],
    &["skills", "list"],
    &["cron", "list"],
    &["cron", "status"],
];
/// Programs that only tell whether a file is there.
const LOOKERS: [&str; 4] = ["ls", "stat", "test", "["];

/// `hermes mcp add …`, `/usr/bin/hermes up`, `nc -U ~/.hermes/run/…`
pub(super) fn uses_hermes(run: &Invocation<'_>) -> bool {
    (is_hermes(run) && !only_shows(run)) || names_socket(run)
}

/// Whether the program is Hermes: by its name, or as the file that runs here.
pub(super) fn is_hermes(run: &Invocation<'_>) -> bool {
    let text = run.program.text.as_str();
    let is_own_file = || {
        let paths = run.paths(text);
        paths
            .iter()
            .any(|path| run.protected_paths.is_program(path))
    };
    let of_process = text.starts_with("/proc/") && text.ends_with("/exe");
    run.name == "hermes" || of_process || (text.contains('/') && is_own_file())
}

fn only_shows(run: &Invocation<'_>) -> bool {
    // `xargs` adds words that are not known here.
    let adds_words = run.command.words.iter().any(|word| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        matches!(name, "xargs" | "gxargs" | "parallel")
    });
    let is_known = |word: &str| !word.contains(['$', '`', '*', '?', '[', '{']);
    let words: Vec<&str> = run
        .arguments
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    if adds_words || !words.iter().all(|word| is_known(word)) {
        return false;
    }
    match words.as_slice() {
        ["--version" | "-V" | "--help" | "-h"] => true,
        [verb, "--help" | "-h"] => !verb.starts_with('-'),
        [group, verb, "--help" | "-h"] => !group.starts_with('-') && !verb.starts_with('-'),
        words => {
            let words: Vec<&str> = words
                .iter()
                .copied()
                .filter(|word| *word != "--json")
                .collect();
            SHOWING.contains(&words.as_slice())
        }
    }
}

/// Whether a word or a redirection names a socket of a running Hermes.
fn names_socket(run: &Invocation<'_>) -> bool {
    if LOOKERS.contains(&run.name) {
        return false;
    }
    let words = run.arguments.iter().map(|word| word.text.as_str());
    let redirects = run.command.redirects.iter();
    let words = words.chain(redirects.map(|redirect| redirect.target.as_str()));
    words
        .flat_map(|word| word.split(['=', ':', ',']))
        .filter(|part| !part.is_empty() && !part.starts_with('-'))
        .any(|part| {
            let elsewhere = run.paths_elsewhere(part);
            let mut paths = run.paths(part).into_iter().chain(elsewhere);
            paths.any(|path| run.protected_paths.is_process_socket(&path))
        })
}
