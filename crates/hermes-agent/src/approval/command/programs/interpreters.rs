//! Programs that run code in a language of their own.

use std::path::Path;

use super::{NestedCommand, option_values};
use crate::approval::command::{
    classify::Invocation,
    shell::{ShellWord, join_words},
};

const SCRIPT_EXTENSIONS: [&str; 14] = [
    "py", "pl", "rb", "js", "mjs", "cjs", "ts", "php", "lua", "R", "tcl", "exp", "jl", "exs",
];

/// Interpreters, and the options that precede their code.
struct Interpreter {
    names: &'static [&'static str],
    options: &'static [&'static str],
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["python", "pypy", "ipython", "micropython", "guile"],
        options: &["-c"],
    },
    Interpreter {
        names: &["perl"],
        options: &["-e", "-E"],
    },
    Interpreter {
        names: &["ruby", "jruby", "lua", "luajit", "groovy", "scala"],
        options: &["-e"],
    },
    Interpreter {
        names: &["osascript", "Rscript", "R"],
        options: &["-e"],
    },
    Interpreter {
        names: &["node", "nodejs", "bun", "tsx", "ts-node"],
        options: &["-e", "-p", "--eval", "--print"],
    },
    Interpreter {
        names: &["deno"],
        options: &["eval"],
    },
    Interpreter {
        names: &["php"],
        options: &["-r"],
    },
    Interpreter {
        names: &["julia"],
        options: &["-e", "-E", "--eval", "--print"],
    },
    Interpreter {
        names: &["elixir"],
        options: &["-e", "--eval"],
    },
    Interpreter {
        names: &["pwsh"],
        options: &["-c", "-C", "-Command", "-command"],
    },
    Interpreter {
        names: &["expect", "tclsh", "wish"],
        options: &["-c"],
    },
];

/// Whether a program runs code that it reads.
pub(crate) fn is_interpreter(name: &str) -> bool {
    find_interpreter(name).is_some()
}

fn find_interpreter(name: &str) -> Option<&'static Interpreter> {
    // `python3.12` is python.
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS
        .iter()
        .find(|interpreter| interpreter.names.contains(&name))
}

/// The code that an interpreter is given, if the program is one.
pub(super) fn interpreter_code(run: &Invocation<'_>) -> Vec<NestedCommand> {
    let Some(interpreter) = find_interpreter(run.name) else {
        return Vec::new();
    };
    let is_tcl = interpreter.names.contains(&"tclsh");
    let as_code = |code: String| {
        let code = if is_tcl { quote_words(&code) } else { code };
        NestedCommand::Code(code)
    };
    // What follows a script are the script's own arguments.
    let script = run.arguments.iter().position(|word| is_script(&word.text));
    let own = &run.arguments[..script.unwrap_or(run.arguments.len())];
    let mut inner: Vec<NestedCommand> = option_values(own, interpreter.options)
        .map(as_code)
        .collect();
    let names_script = run.arguments.iter().any(|word| !word.text.starts_with('-'));
    if inner.is_empty() && !names_script {
        inner.extend(run.input().map(as_code));
    }
    if interpreter.names.contains(&"python") {
        inner.extend(module_command(own));
    }
    inner
}

/// `python -m pip install x` is `pip install x`.
fn module_command(arguments: &[ShellWord]) -> Option<NestedCommand> {
    let at = arguments
        .iter()
        .position(|word| word.text.starts_with("-m") || !word.text.starts_with('-'))?;
    let module = arguments[at].text.strip_prefix("-m")?;
    let mut command = Vec::new();
    if !module.is_empty() {
        command.push(ShellWord::from(module));
    }
    command.extend_from_slice(&arguments[at + 1..]);
    (!command.is_empty()).then_some(NestedCommand::Words(command))
}

/// Tcl has no quotes around names: each statement, without what starts a process, and each word of it, as strings.
fn quote_words(code: &str) -> String {
    let ends = ['\n', ';', '[', ']', '{', '}'];
    let statements = code.split(ends).map(str::trim);
    let mut quoted = Vec::new();
    for statement in statements.filter(|statement| !statement.is_empty()) {
        let words: Vec<ShellWord> = statement
            .split_whitespace()
            .map(|word| ShellWord::from(word.trim_matches('"')))
            .collect();
        let command = match words.as_slice() {
            [start, command @ ..] if matches!(&*start.text, "exec" | "spawn") => command,
            all => all,
        };
        quoted.push(quote(&join_words(command)));
        quoted.extend(words.iter().map(|word| quote(&word.text)));
    }
    quoted.join(";\n")
}

/// A text as a string of a program.
pub(super) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether a word names a script, by its ending.
pub(crate) fn is_script(word: &str) -> bool {
    let ending = Path::new(word)
        .extension()
        .and_then(|ending| ending.to_str());
    !word.starts_with('-') && ending.is_some_and(|ending| SCRIPT_EXTENSIONS.contains(&ending))
}
