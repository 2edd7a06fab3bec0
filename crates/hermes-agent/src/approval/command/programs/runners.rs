//! Programs with a verb that runs another program: of a package, or in an environment.

use std::path::Path;

use super::{NestedCommand, is_script, option_values, without_options};
use crate::approval::command::{classify::Invocation, shell::ShellWord};

/// A program that runs what comes after one of its verbs, or after its options if it has none.
struct Runner {
    names: &'static [&'static str],
    verbs: &'static [&'static str],
    /// Options that are followed by a value.
    values: &'static [&'static str],
    /// Options that name packages which are fetched first.
    packages: &'static [&'static str],
    /// Arguments before the command.
    operands: usize,
}

const RUNNERS: &[Runner] = &[
    Runner {
        names: &["uv"],
        verbs: &["run"],
        values: &[
            "--with",
            "--with-requirements",
            "--with-editable",
            "--python",
            "-p",
            "--project",
            "--directory",
            "--package",
            "--extra",
            "--group",
            "--env-file",
            "--index",
            "--index-url",
            "--default-index",
        ],
        packages: &["--with", "--with-requirements"],
        operands: 0,
    },
    Runner {
        names: &["uvx"],
        verbs: &[],
        values: &[
            "--from",
            "--with",
            "--python",
            "-p",
            "--index",
            "--index-url",
        ],
        packages: &["--from", "--with"],
        operands: 0,
    },
    Runner {
        names: &["pipx"],
        verbs: &["run"],
        values: &["--spec", "--python", "--index-url", "-i", "--pip-args"],
        packages: &["--spec"],
        operands: 0,
    },
    Runner {
        names: &["npx", "bunx", "pnpx"],
        verbs: &[],
        values: &["-p", "--package", "-w", "--workspace", "-c", "--call"],
        packages: &["-p", "--package"],
        operands: 0,
    },
    Runner {
        names: &["npm", "pnpm", "yarn", "bun"],
        verbs: &["exec", "x", "dlx"],
        values: &["-p", "--package", "-w", "--workspace", "-c", "--call"],
        packages: &["-p", "--package"],
        operands: 0,
    },
    Runner {
        names: &["poetry", "pipenv", "pdm", "hatch", "rye", "pixi"],
        verbs: &["run"],
        values: &["-e", "-p", "--project"],
        packages: &[],
        operands: 0,
    },
    Runner {
        names: &["bundle", "mise", "asdf"],
        verbs: &["exec"],
        values: &[],
        packages: &[],
        operands: 0,
    },
    Runner {
        names: &["direnv"],
        verbs: &["exec"],
        values: &[],
        packages: &[],
        operands: 1,
    },
    Runner {
        names: &["conda", "mamba", "micromamba"],
        verbs: &["run"],
        values: &["-n", "--name", "-p", "--prefix", "--cwd"],
        packages: &[],
        operands: 0,
    },
];
/// Runners whose first operand is a package or an address, and no program to look at.
const FETCHERS: &[Runner] = &[
    Runner {
        names: &["deno"],
        verbs: &["run", "install", "x"],
        values: &["-c", "--config", "--import-map", "--lock", "-n", "--name"],
        packages: &["--import-map"],
        operands: 0,
    },
    Runner {
        names: &["go"],
        verbs: &["run"],
        values: &["-C", "-exec", "-mod", "-tags", "-ldflags", "-p"],
        packages: &[],
        operands: 0,
    },
    Runner {
        names: &["nix"],
        verbs: &["run", "shell", "develop", "profile"],
        values: &["--option"],
        packages: &[],
        operands: 0,
    },
];

/// The program that a runner is given.
pub(super) fn runner_commands(run: &Invocation<'_>) -> Option<NestedCommand> {
    let (runner, rest) = find_runner(RUNNERS, run)?;
    // `npx -c 'a | b'`
    if runner.values.contains(&"--call") {
        let mut lines = option_values(leading_options(runner, rest), &["-c", "--call"]);
        if let Some(line) = lines.next() {
            return Some(NestedCommand::Line(line));
        }
    }
    let command = without_options(rest, runner.values).get(runner.operands..)?;
    let first = command.first()?;
    let mut words = command.to_vec();
    let extension = Path::new(&first.text).extension();
    if is_script(&first.text) && extension.is_some_and(|it| it == "py") {
        words.insert(0, ShellWord::from("python"));
    }
    Some(NestedCommand::Words(words))
}

/// The packages that a runner fetches: what options name, and the first operand.
pub(crate) fn package_words(run: &Invocation<'_>) -> Vec<String> {
    let Some((runner, rest)) = find_runner(RUNNERS, run).or_else(|| find_runner(FETCHERS, run))
    else {
        return Vec::new();
    };
    let options = leading_options(runner, rest);
    let mut words: Vec<String> = option_values(options, runner.packages).collect();
    let operand = without_options(rest, runner.values).first();
    words.extend(operand.map(|word| word.text.clone()));
    words
}

/// The runner that a program is, and what comes after its verb.
fn find_runner<'a>(
    runners: &'static [Runner],
    run: &Invocation<'a>,
) -> Option<(&'static Runner, &'a [ShellWord])> {
    let runner = runners
        .iter()
        .find(|runner| runner.names.contains(&run.name))?;
    if runner.verbs.is_empty() {
        return Some((runner, run.arguments));
    }
    // `uv tool run`
    let mut words = without_options(run.arguments, runner.values);
    if words.first().is_some_and(|word| word.text == "tool") {
        words = &words[1..];
    }
    let (verb, rest) = words.split_first()?;
    runner
        .verbs
        .contains(&&*verb.text)
        .then_some((runner, rest))
}

fn leading_options<'a>(runner: &Runner, words: &'a [ShellWord]) -> &'a [ShellWord] {
    let rest = without_options(words, runner.values);
    &words[..words.len() - rest.len()]
}
