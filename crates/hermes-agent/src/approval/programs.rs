//! Programs that run other commands: `sudo`, `xargs`, `find -exec`, shells, interpreters.

mod wrappers;

use std::path::Path;

use self::wrappers::{WRAPPERS, Wrapper};
use super::{
    classify::Run,
    shell::{Word, text_of},
};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    Words(Vec<Word>),
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

const SCRIPT_ENDINGS: [&str; 10] = [
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

pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Whether a program runs code that it reads.
pub(super) fn is_interpreter(name: &str) -> bool {
    interpreter(name).is_some_and(|interpreter| !interpreter.options.is_empty())
}

fn interpreter(name: &str) -> Option<&'static Interpreter> {
    // `python3.12` is python.
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS
        .iter()
        .find(|interpreter| interpreter.name == name)
}

pub(super) fn inner(run: &Run<'_>) -> Vec<Inner> {
    let name = run.name;
    if let Some(wrapper) = WRAPPERS
        .iter()
        .find(|wrapper| wrapper.names.contains(&name))
    {
        return wrapped(wrapper, run);
    }
    match name {
        _ if is_shell(name) => shell(run),
        "eval" | "watch" => vec![Inner::Line(text_of(without_options(
            run.arguments,
            &["-n", "-d"],
        )))],
        "trap" | "alias" => run
            .arguments
            .iter()
            .take(1)
            .map(|word| Inner::Line(aliased(&word.text)))
            .collect(),
        "su" | "script" | "sg" => after_option(run.arguments, &["-c", "--command"])
            .map(Inner::Line)
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
                .map(|command| Inner::Line(text_of(command)))
                .into_iter()
                .collect()
        }
        "at" | "batch" => run.input().map(Inner::Line).into_iter().collect(),
        "find" | "gfind" => find(run.arguments),
        _ => match interpreter(name) {
            Some(interpreter) => code(interpreter, run),
            None => Vec::new(),
        },
    }
}

fn wrapped(wrapper: &Wrapper, run: &Run<'_>) -> Vec<Inner> {
    let is_query = run.name == "command"
        && run
            .arguments
            .first()
            .is_some_and(|word| word.text.starts_with('-') && word.text.contains(['v', 'V']));
    if is_query {
        return Vec::new();
    }
    if run.name == "env"
        && let Some(line) = after_option(run.arguments, &["-S", "--split-string"]).next()
    {
        return vec![Inner::Line(line)];
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
                .map(Word::from),
        );
    }
    if run.name == "parallel"
        || (run.name == "sudo" && words.len() == 1 && words[0].text.contains(' '))
    {
        return vec![Inner::Line(text_of(&words))];
    }
    if words.is_empty() {
        Vec::new()
    } else {
        vec![Inner::Words(words)]
    }
}

fn shell(run: &Run<'_>) -> Vec<Inner> {
    let mut inner = Vec::new();
    let mut reads_input = true;
    let mut arguments = run.arguments.iter();
    while let Some(word) = arguments.next() {
        let text = word.text.as_str();
        let is_short = text.starts_with('-') && !text.starts_with("--");
        if is_short && text.contains('c') {
            inner.extend(arguments.next().map(|line| Inner::Line(line.text.clone())));
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
        inner.extend(run.input().map(Inner::Line));
    }
    inner
}

fn code(interpreter: &Interpreter, run: &Run<'_>) -> Vec<Inner> {
    if interpreter.name == "awk" {
        let program = run
            .arguments
            .iter()
            .find(|word| !word.text.starts_with('-'));
        return program
            .map(|word| Inner::Code(word.text.clone()))
            .into_iter()
            .collect();
    }
    // What follows a script are the script's own arguments.
    let script = run.arguments.iter().position(|word| is_script(&word.text));
    let own = &run.arguments[..script.unwrap_or(run.arguments.len())];
    let mut inner: Vec<Inner> = after_option(own, interpreter.options)
        .map(Inner::Code)
        .collect();
    let names_script = run.arguments.iter().any(|word| !word.text.starts_with('-'));
    if inner.is_empty() && !names_script {
        inner.extend(run.input().map(Inner::Code));
    }
    inner
}

/// Whether a word names a script, by its ending.
pub(super) fn is_script(word: &str) -> bool {
    let ending = Path::new(word)
        .extension()
        .and_then(|ending| ending.to_str());
    !word.starts_with('-') && ending.is_some_and(|ending| SCRIPT_ENDINGS.contains(&ending))
}

fn find(arguments: &[Word]) -> Vec<Inner> {
    let starts = find_starts(arguments);
    let is_narrowed = find_is_narrowed(arguments);
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
            inner.push(Inner::Words(words));
        }
        rest = &command[end..];
    }
    inner
}

/// The paths `find` begins at.
pub(super) fn find_starts(arguments: &[Word]) -> Vec<Word> {
    let starts: Vec<Word> = arguments
        .iter()
        .skip_while(|word| matches!(&*word.text, "-H" | "-L" | "-P"))
        .take_while(|word| !word.text.starts_with(['-', '(', '!']))
        .cloned()
        .collect();
    if starts.is_empty() {
        vec![Word::from(".")]
    } else {
        starts
    }
}

/// Whether `find` has tests that narrow its results.
pub(super) fn find_is_narrowed(arguments: &[Word]) -> bool {
    arguments
        .iter()
        .any(|word| FIND_TESTS.contains(&&*word.text))
}

/// What comes after the options; those in `values` consume the next word.
pub(super) fn without_options<'a>(mut words: &'a [Word], values: &[&str]) -> &'a [Word] {
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
fn after_option<'a>(words: &'a [Word], options: &'a [&str]) -> impl Iterator<Item = String> + 'a {
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
fn aliased(text: &str) -> String {
    text.split_once('=')
        .map_or(text, |(_, command)| command)
        .to_owned()
}
