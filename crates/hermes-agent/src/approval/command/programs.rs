//! Programs that run other commands: `sudo`, `xargs`, `find -exec`, shells, interpreters.

mod awk;
mod interpreters;
mod option_commands;
mod runners;
mod sed;
mod wrappers;

use self::wrappers::{WRAPPERS, Wrapper};
pub(crate) use self::{
    awk::{awk_files, is_awk},
    interpreters::{is_interpreter, is_script},
    runners::package_words,
};
use super::{
    classify::Invocation,
    shell::{ShellWord, join_words},
    written_files,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NestedCommand {
    Words(Vec<ShellWord>),
    Line(String),
    Code(String),
}

const SHELLS: [&str; 9] = [
    "sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "rbash",
];
/// Tests that narrow the results of `find`.
const FIND_TESTS: [&str; 18] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-ctime",
    "-newer",
    "-user",
    "-group",
    "-empty",
    "-maxdepth",
    "-perm",
];

pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

pub(crate) fn nested_commands(run: &Invocation<'_>) -> Vec<NestedCommand> {
    if let Some(wrapper) = find_wrapper(run.name) {
        return wrapped_commands(wrapper, run);
    }
    let mut inner = own_commands(run);
    inner.extend(option_commands::option_commands(run));
    inner.extend(runners::runner_commands(run));
    inner
}

fn find_wrapper(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS
        .iter()
        .find(|wrapper| wrapper.names.contains(&name))
}

/// The directory in which a wrapper starts its command, as in `env -C d`.
pub(crate) fn inner_directory(run: &Invocation<'_>) -> Option<String> {
    const OPTIONS: [&str; 5] = ["-C", "-D", "--chdir", "--workdir", "--working-directory"];
    let wrapper = find_wrapper(run.name)?;
    let command = without_options(run.arguments, wrapper.values);
    let own = &run.arguments[..run.arguments.len() - command.len()];
    let options = OPTIONS.iter().filter(|option| {
        // Other programs have other options of one letter.
        match **option {
            "-C" => run.name == "env",
            "-D" => run.name == "sudo",
            _ => true,
        }
    });
    let options: Vec<&str> = options.copied().collect();
    written_files::option_values(own, &options).pop()
}

/// A command without `sudo`, `env` and their like before it.
pub(crate) fn without_wrappers(mut words: &[ShellWord]) -> &[ShellWord] {
    while let Some((first, arguments)) = words.split_first() {
        let name = first.text.rsplit('/').next().unwrap_or_default();
        let Some(wrapper) = find_wrapper(name) else {
            break;
        };
        words = inner_words(wrapper, arguments);
    }
    words
}

/// The words of the command that a wrapper runs.
fn inner_words<'a>(wrapper: &Wrapper, arguments: &'a [ShellWord]) -> &'a [ShellWord] {
    let mut rest = without_options(arguments, wrapper.values);
    while rest
        .first()
        .is_some_and(|word| word.text.contains('=') && !word.text.starts_with('/'))
    {
        rest = without_options(&rest[1..], wrapper.values);
    }
    rest.get(wrapper.operands..).unwrap_or_default()
}

fn own_commands(run: &Invocation<'_>) -> Vec<NestedCommand> {
    let name = run.name;
    match name {
        _ if is_shell(name) => shell_commands(run),
        "eval" | "watch" => vec![NestedCommand::Line(join_words(without_options(
            run.arguments,
            &["-n", "-d"],
        )))],
        "trap" | "alias" => run
            .arguments
            .iter()
            .take(1)
            .map(|word| NestedCommand::Line(alias_command(&word.text)))
            .collect(),
        "su" | "script" | "sg" => option_values(run.arguments, &["-c", "--command"])
            .map(NestedCommand::Line)
            .collect(),
        "ssh" => {
            let rest = without_options(
                run.arguments,
                &[
                    "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-o",
                    "-p", "-R", "-S", "-W", "-w",
                ],
            );
            rest.get(1..)
                .filter(|command| !command.is_empty())
                .map(|command| NestedCommand::Line(join_words(command)))
                .into_iter()
                .collect()
        }
        "at" | "batch" => run.input().map(NestedCommand::Line).into_iter().collect(),
        "find" | "gfind" => find_exec_commands(run.arguments),
        _ if is_awk(name) => awk::awk_code(run).into_iter().collect(),
        _ => interpreters::interpreter_code(run),
    }
}

fn wrapped_commands(wrapper: &Wrapper, run: &Invocation<'_>) -> Vec<NestedCommand> {
    let is_query = run.name == "command"
        && run
            .arguments
            .first()
            .is_some_and(|word| word.text.starts_with('-') && word.text.contains(['v', 'V']));
    if is_query {
        return Vec::new();
    }
    if run.name == "env"
        && let Some(line) = option_values(run.arguments, &["-S", "--split-string"]).next()
    {
        return vec![NestedCommand::Line(line)];
    }
    let mut words = inner_words(wrapper, run.arguments).to_vec();
    if matches!(run.name, "xargs" | "gxargs" | "parallel") && !words.is_empty() {
        // Its arguments come from its input.
        words.extend(
            run.input()
                .unwrap_or_default()
                .split_whitespace()
                .map(ShellWord::from),
        );
    }
    if run.name == "parallel"
        || (run.name == "sudo" && words.len() == 1 && words[0].text.contains(' '))
    {
        return vec![NestedCommand::Line(join_words(&words))];
    }
    if words.is_empty() {
        Vec::new()
    } else {
        vec![NestedCommand::Words(words)]
    }
}

fn shell_commands(run: &Invocation<'_>) -> Vec<NestedCommand> {
    let mut inner = Vec::new();
    let mut reads_input = true;
    let mut arguments = run.arguments.iter();
    while let Some(word) = arguments.next() {
        let text = word.text.as_str();
        let is_short = text.starts_with('-') && !text.starts_with("--");
        if is_short && text.contains('c') {
            inner.extend(
                arguments
                    .next()
                    .map(|line| NestedCommand::Line(line.text.clone())),
            );
            reads_input = false;
            break;
        }
        if matches!(text, "-o" | "-O" | "--rcfile" | "--init-file") {
            arguments.next();
        } else if is_short && text.contains('s') {
            break;
        } else if !text.starts_with(['-', '+']) {
            // A script.
            reads_input = false;
            break;
        }
    }
    if reads_input {
        inner.extend(run.input().map(NestedCommand::Line));
    }
    inner
}

fn find_exec_commands(arguments: &[ShellWord]) -> Vec<NestedCommand> {
    let starts = find_roots(arguments);
    let is_narrowed = find_has_tests(arguments);
    let mut inner = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest
        .iter()
        .position(|word| matches!(&*word.text, "-exec" | "-execdir" | "-ok" | "-okdir"))
    {
        let command = &rest[at + 1..];
        let end = command
            .iter()
            .position(|word| word.text == ";" || word.text == "+")
            .unwrap_or(command.len());
        let mut words = Vec::new();
        for word in &command[..end] {
            match &*word.text {
                // Without a test, the start itself is found first.
                "{}" if !is_narrowed => words.extend(starts.iter().cloned()),
                _ => words.push(word.clone()),
            }
        }
        if !words.is_empty() {
            inner.push(NestedCommand::Words(words));
        }
        rest = &command[end..];
    }
    inner
}

/// The paths `find` begins at.
pub(crate) fn find_roots(arguments: &[ShellWord]) -> Vec<ShellWord> {
    let starts: Vec<ShellWord> = arguments
        .iter()
        .skip_while(|word| matches!(&*word.text, "-H" | "-L" | "-P"))
        .take_while(|word| !word.text.starts_with(['-', '(', '!']))
        .cloned()
        .collect();
    if starts.is_empty() {
        vec![ShellWord::from(".")]
    } else {
        starts
    }
}

/// Whether `find` has tests that narrow its results.
pub(crate) fn find_has_tests(arguments: &[ShellWord]) -> bool {
    arguments
        .iter()
        .any(|word| FIND_TESTS.contains(&&*word.text))
}

/// What comes after the options; those in `values` consume the next word.
pub(crate) fn without_options<'a>(mut words: &'a [ShellWord], values: &[&str]) -> &'a [ShellWord] {
    while let [first, rest @ ..] = words {
        let text = first.text.as_str();
        if text == "--" {
            return rest;
        }
        if !text.starts_with('-') || text == "-" {
            break;
        }
        words = if takes_next(text, values) {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
    }
    words
}

/// Whether the value of an option is the next word: `-u X`, `-nu X`, but not `-uX`.
fn takes_next(option: &str, values: &[&str]) -> bool {
    if values.contains(&option) {
        return true;
    }
    let Some(letters) = option
        .strip_prefix('-')
        .filter(|letters| !letters.starts_with('-'))
    else {
        return false;
    };
    let takes_value = |letter: char| {
        let mut short = values.iter().filter_map(|value| value.strip_prefix('-'));
        short.any(|value| value.chars().eq([letter]))
    };
    let first = letters
        .char_indices()
        .find(|(_, letter)| takes_value(*letter));
    first.is_some_and(|(at, letter)| at + letter.len_utf8() == letters.len())
}

/// The values of options, in the forms `-c X`, `-cX`, `-xc X` and `--long=X`.
fn option_values<'a>(
    words: &'a [ShellWord],
    options: &'a [&str],
) -> impl Iterator<Item = String> + 'a {
    words.iter().enumerate().filter_map(move |(index, word)| {
        let text = word.text.as_str();
        options.iter().find_map(|option| {
            let next = || words.get(index + 1).map(|word| word.text.clone());
            if text == *option {
                return next();
            }
            let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
            match letter {
                None => text
                    .strip_prefix(option)?
                    .strip_prefix('=')
                    .map(str::to_owned),
                Some(letter) => {
                    let flags = text
                        .strip_prefix('-')
                        .filter(|flags| !flags.starts_with('-'))?;
                    let (before, after) = flags.split_once(letter)?;
                    // Digits are the value of an option, as in `perl -0777ne`.
                    let letters = before.chars().filter(|c| !c.is_ascii_digit());
                    let is_bundle =
                        letters.clone().all(|c| c.is_ascii_alphabetic()) && letters.count() < 4;
                    match after {
                        "" if is_bundle => next(),
                        _ if before.is_empty() => Some(after.to_owned()),
                        _ => None,
                    }
                }
            }
        })
    })
}

/// The command of `x='command'`.
fn alias_command(text: &str) -> String {
    text.split_once('=')
        .map_or(text, |(_, command)| command)
        .to_owned()
}
