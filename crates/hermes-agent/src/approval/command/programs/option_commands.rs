//! Options, settings and scripts of programs that run a command, such as `tar --checkpoint-action=exec=…`.

use super::{
    NestedCommand, option_values,
    sed::{SedEffect, sed_effects},
};
use crate::approval::command::{classify::Invocation, shell::ShellWord, written_files};

/// Programs, and their options whose value is a command.
const COMMAND_OPTIONS: &[(&[&str], &[&str])] = &[
    (
        &["tar", "bsdtar", "gtar"],
        &[
            "--to-command",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
            "-I",
            "-F",
        ],
    ),
    (&["rsync"], &["-e", "--rsh", "--rsync-path"]),
    (&["scp", "sftp"], &["-S"]),
    (&["zip"], &["-TT", "--unzip-command"]),
    (&["rg"], &["--pre"]),
    (&["sort"], &["--compress-program"]),
    (&["split"], &["--filter"]),
    (&["man"], &["-P", "--pager"]),
    (&["go"], &["-exec", "-toolexec"]),
    (&["nodemon"], &["-x", "--exec"]),
    (&["nix-shell"], &["--run", "--command"]),
    (&["tcpdump"], &["-z"]),
    (&["make", "gmake"], &["--eval"]),
    (&["xterm", "konsole"], &["-e"]),
];
/// Settings of `git` whose value is a command, by the end of their name.
const GIT_SETTINGS: [&str; 18] = [
    "core.sshcommand",
    "core.editor",
    "core.pager",
    "core.fsmonitor",
    "core.askpass",
    "core.gitproxy",
    "sequence.editor",
    "diff.external",
    "gpg.program",
    "credential.helper",
    ".cmd",
    ".driver",
    ".clean",
    ".smudge",
    ".process",
    ".textconv",
    ".command",
    ".packobjectshook",
];

/// Verbs of `git`, and their options whose value is a command.
const GIT_OPTIONS: [(&str, &[&str]); 8] = [
    ("rebase", &["-x", "--exec"]),
    ("difftool", &["-x", "--extcmd"]),
    (
        "filter-branch",
        &[
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "--commit-filter",
        ],
    ),
    ("fetch", &["--upload-pack"]),
    ("clone", &["--upload-pack"]),
    ("pull", &["--upload-pack"]),
    ("ls-remote", &["--upload-pack"]),
    ("push", &["--receive-pack"]),
];

/// The commands in the options of a program.
pub(super) fn option_commands(run: &Invocation<'_>) -> Vec<NestedCommand> {
    let mut lines: Vec<String> = Vec::new();
    for (names, options) in COMMAND_OPTIONS {
        if names.contains(&run.name) {
            lines.extend(option_values(run.arguments, options));
        }
    }
    let mut inner: Vec<NestedCommand> = Vec::new();
    match run.name {
        "tar" | "bsdtar" | "gtar" => lines.extend(checkpoint_actions(run.arguments)),
        "git" => lines.extend(git_commands(run.arguments)),
        "ssh" | "scp" | "sftp" => lines.extend(ssh_settings(run.arguments)),
        "sed" | "gsed" => inner.extend(sed_effects(run.arguments).into_iter().map(sed_command)),
        "vi" | "vim" | "nvim" | "view" | "ex" | "gvim" => {
            let commands = editor_commands(run.arguments);
            lines.extend(commands.iter().flat_map(|command| shell_escapes(command)));
            inner.extend(commands.into_iter().map(NestedCommand::Code));
        }
        "emacs" | "emacsclient" => {
            let code = option_values(run.arguments, &["-e", "-eval", "--eval", "--execute"]);
            inner.extend(code.map(NestedCommand::Code));
        }
        "ed" => lines.extend(input_escapes(run, &["!"])),
        "gdb" | "lldb" => lines.extend(debugger_commands(run.arguments)),
        "sqlite3" | "sqlite" | "psql" | "mysql" | "mariadb" => {
            let escapes = ["\\!", ".shell ", ".system ", "system "];
            lines.extend(input_escapes(run, &escapes));
            let words = run.arguments.iter();
            lines.extend(words.flat_map(|word| escaped_lines(&word.text, &escapes)));
        }
        _ => {}
    }
    inner.extend(lines.into_iter().map(NestedCommand::Line));
    inner
}

/// `tar --checkpoint-action=exec=…`
fn checkpoint_actions(arguments: &[ShellWord]) -> Vec<String> {
    option_values(arguments, &["--checkpoint-action"])
        .filter_map(|action| action.strip_prefix("exec=").map(str::to_owned))
        .collect()
}

/// `git -c alias.x='!…'`, `git rebase --exec …`, `git clone ext::…`
fn git_commands(arguments: &[ShellWord]) -> Vec<String> {
    let words: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    let mut lines = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let setting = match words.get(at.wrapping_sub(1)) {
            Some(&("-c" | "--config")) => word.split_once('='),
            // `git config alias.x '!…'`
            _ if words.contains(&"config") => words.get(at + 1).map(|value| (*word, *value)),
            _ => None,
        };
        if let Some((name, value)) = setting {
            lines.extend(git_setting(name, value));
        }
        if let Some(command) = word.strip_prefix("ext::") {
            lines.push(command.to_owned());
        }
        if matches!(words.get(..at), Some([.., "bisect"])) && *word == "run" {
            lines.push(words[at + 1..].join(" "));
        }
        if *word == "foreach" && words.contains(&"submodule") {
            let command = words[at + 1..].iter().copied();
            let command: Vec<&str> = command.skip_while(|word| word.starts_with('-')).collect();
            lines.push(command.join(" "));
        }
    }
    let verbs = GIT_OPTIONS.iter().filter(|(verb, _)| words.contains(verb));
    for (_, options) in verbs {
        lines.extend(written_files::option_values(arguments, options));
    }
    lines
}

fn git_setting(name: &str, value: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    if let Some(command) = value.strip_prefix('!') {
        let runs = name.starts_with("alias.") || name.starts_with("credential.");
        return runs.then(|| command.to_owned());
    }
    GIT_SETTINGS
        .iter()
        .any(|setting| name.ends_with(setting))
        .then(|| value.to_owned())
}

/// `ssh -o ProxyCommand=…`
fn ssh_settings(arguments: &[ShellWord]) -> Vec<String> {
    const SETTINGS: [&str; 3] = ["proxycommand", "localcommand", "knownhostscommand"];
    let settings = written_files::option_values(arguments, &["-o"]);
    let commands = settings.iter().filter_map(|setting| {
        let (name, command) = setting.split_once(['=', ' '])?;
        let name = name.trim().to_ascii_lowercase();
        SETTINGS
            .contains(&&*name)
            .then(|| command.trim().to_owned())
    });
    commands.collect()
}

fn sed_command(effect: SedEffect) -> NestedCommand {
    match effect {
        SedEffect::Command(line) => NestedCommand::Line(line),
        SedEffect::ComputedCommand => {
            NestedCommand::Words(vec![ShellWord::from("$(line that sed has edited)")])
        }
        SedEffect::Write(file) => {
            NestedCommand::Words(vec![ShellWord::from("tee"), ShellWord::from(&*file)])
        }
    }
}

/// `vim -c '…'`, `vim +…`
fn editor_commands(arguments: &[ShellWord]) -> Vec<String> {
    let mut commands = written_files::option_values(arguments, &["-c", "--cmd"]);
    let attached = arguments.iter();
    commands.extend(attached.filter_map(|word| word.text.strip_prefix('+').map(str::to_owned)));
    commands
}

/// What an editor hands to a shell: `!…`, `w !…`, `%!…`; in `wq!` nothing.
fn shell_escapes(command: &str) -> Vec<String> {
    let parts = command.split(['|', '\n']);
    let escapes = parts.filter_map(|part| part.split_once('!'));
    escapes
        .map(|(_, line)| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

fn debugger_commands(arguments: &[ShellWord]) -> Vec<String> {
    let options = ["-ex", "-iex", "--eval-command", "-o", "--one-line"];
    let commands = written_files::option_values(arguments, &options);
    let starts = ["shell ", "!", "platform shell "];
    commands
        .iter()
        .flat_map(|command| escaped_lines(command, &starts))
        .collect()
}

fn input_escapes(run: &Invocation<'_>, starts: &[&str]) -> Vec<String> {
    let input = run.input().unwrap_or_default();
    escaped_lines(&input, starts)
}

/// What comes after one of these at the beginning of a line.
fn escaped_lines(text: &str, starts: &[&str]) -> Vec<String> {
    let escaped = text.lines().filter_map(|line| {
        let line = line.trim();
        starts.iter().find_map(|start| line.strip_prefix(*start))
    });
    escaped.map(|line| line.trim().to_owned()).collect()
}
