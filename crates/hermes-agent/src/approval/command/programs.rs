//! Programs that run other commands: `sudo`, `xargs`, `find -exec`, shells, interpreters.

mod wrappers;

use std::path::Path;

use self::wrappers::{WRAPPERS, Wrapper};
use super::{
    classify::Invocation,
    shell::{ShellWord, join_words},
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

const SCRIPT_EXTENSIONS: [&str; 10] = [
    "py", "pl", "rb", "js", "mjs", "cjs", "ts", "php", "lua", "R",
];

/// An interpreter and the options that precede its code.
struct Interpreter {
    name: &'static str,
    options: &'static [&'static str],
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        name: "python",
        options: &["-c"],
    },
    Interpreter {
        name: "pypy",
        options: &["-c"],
    },
    Interpreter {
        name: "perl",
        options: &["-e", "-E"],
    },
    Interpreter {
        name: "ruby",
        options: &["-e"],
    },
    Interpreter {
        name: "node",
        options: &["-e", "-p", "--eval", "--print"],
    },
    Interpreter {
        name: "bun",
        options: &["-e", "--eval"],
    },
    Interpreter {
        name: "deno",
        options: &["eval"],
    },
    Interpreter {
        name: "php",
        options: &["-r"],
    },
    Interpreter {
        name: "lua",
        options: &["-e"],
    },
    Interpreter {
        name: "osascript",
        options: &["-e"],
    },
    Interpreter {
        name: "Rscript",
        options: &["-e"],
    },
    Interpreter {
        name: "awk",
        options: &[],
    },
];

pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Whether a program runs code that it reads.
pub(crate) fn is_interpreter(name: &str) -> bool {
    interpreter(name).is_some_and(|interpreter| !interpreter.options.is_empty())
}

fn interpreter(name: &str) -> Option<&'static Interpreter> {
    // `python3.12` is python.
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS
        .iter()
        .find(|interpreter| interpreter.name == name)
}

pub(crate) fn nested_commands(run: &Invocation<'_>) -> Vec<NestedCommand> {
    let name = run.name;
    if let Some(wrapper) = WRAPPERS
        .iter()
        .find(|wrapper| wrapper.names.contains(&name))
    {
        return wrapped_commands(wrapper, run);
    }
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
        _ => match interpreter(name) {
            Some(interpreter) => interpreter_code(interpreter, run),
            None => Vec::new(),
        },
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
    let mut rest = without_options(run.arguments, wrapper.values);
    while rest
        .first()
        .is_some_and(|word| word.text.contains('=') && !word.text.starts_with('/'))
    {
        rest = without_options(&rest[1..], wrapper.values);
    }
    let mut words = rest.get(wrapper.operands..).unwrap_or_default().to_vec();
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

fn interpreter_code(interpreter: &Interpreter, run: &Invocation<'_>) -> Vec<NestedCommand> {
    if interpreter.name == "awk" {
        let program = run
            .arguments
            .iter()
            .find(|word| !word.text.starts_with('-'));
        return program
            .map(|word| NestedCommand::Code(word.text.clone()))
            .into_iter()
            .collect();
    }
    // What follows a script are the script's own arguments.
    let script = run.arguments.iter().position(|word| is_script(&word.text));
    let own = &run.arguments[..script.unwrap_or(run.arguments.len())];
    let mut inner: Vec<NestedCommand> = option_values(own, interpreter.options)
        .map(NestedCommand::Code)
        .collect();
    let names_script = run.arguments.iter().any(|word| !word.text.starts_with('-'));
    if inner.is_empty() && !names_script {
        inner.extend(run.input().map(NestedCommand::Code));
    }
    inner
}

/// Whether a word names a script, by its ending.
pub(crate) fn is_script(word: &str) -> bool {
    let ending = Path::new(word)
        .extension()
        .and_then(|ending| ending.to_str());
    !word.starts_with('-') && ending.is_some_and(|ending| SCRIPT_EXTENSIONS.contains(&ending))
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
        words = if values.contains(&text) {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
    }
    words
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
                    let is_bundle =
                        before.chars().all(|c| c.is_ascii_alphabetic()) && before.len() < 4;
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
