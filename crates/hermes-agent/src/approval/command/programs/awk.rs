//! The programs that `awk` is given, under all its names.

use super::{NestedCommand, interpreters::quote};
use crate::approval::command::{classify::Invocation, shell::ShellWord};

const NAMES: [&str; 7] = [
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "goawk",
    "igawk",
    "original-awk",
];
/// Options of one letter that take a value, from this word or the next.
const TAKE_VALUE: &str = "FfveEilW";
/// Options of one letter whose value, if there is one, is the rest of the word.
const TAKE_REST: &str = "dDLop";
const LONG_OPTIONS: [(&str, char); 7] = [
    ("field-separator", 'F'),
    ("file", 'f'),
    ("assign", 'v'),
    ("source", 'e'),
    ("exec", 'E'),
    ("include", 'i'),
    ("load", 'l'),
];

/// Whether a program is `awk`.
pub(crate) fn is_awk(name: &str) -> bool {
    NAMES.contains(&name) || name.starts_with("gawk-")
}

/// The files whose code it runs.
pub(crate) fn awk_files(arguments: &[ShellWord]) -> Vec<&str> {
    AwkArguments::read(arguments).files
}

/// Its program, and the values that the program is given.
pub(super) fn awk_code(run: &Invocation<'_>) -> Option<NestedCommand> {
    let found = AwkArguments::read(run.arguments);
    // Values may be commands or names of files, so they are strings of the program. They come first: a quote in a
    // pattern of the program cannot hide them.
    let mut code: Vec<String> = found.values.iter().map(|value| quote(value)).collect();
    code.extend(found.programs.iter().map(|program| (*program).to_owned()));
    let reads_program = |file: &&str| matches!(*file, "-" | "/dev/stdin" | "/dev/fd/0");
    if found.files.iter().any(reads_program) {
        code.extend(run.input());
    }
    (!code.is_empty()).then(|| NestedCommand::Code(code.join(";\n")))
}

#[derive(Debug, Default)]
struct AwkArguments<'a> {
    programs: Vec<&'a str>,
    files: Vec<&'a str>,
    /// Of variables.
    values: Vec<&'a str>,
}

impl<'a> AwkArguments<'a> {
    fn read(arguments: &'a [ShellWord]) -> Self {
        let mut found = Self::default();
        let mut words = arguments.iter().map(|word| word.text.as_str());
        let mut operands: Vec<&str> = Vec::new();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            if let Some(long) = word.strip_prefix("--") {
                found.read_long(long, &mut words);
            } else if word.len() > 1 && word.starts_with('-') {
                found.read_letters(&word[1..], &mut words);
            } else {
                operands.push(word);
                break;
            }
        }
        operands.extend(words);
        if found.programs.is_empty() && found.files.is_empty() && !operands.is_empty() {
            found.programs.push(operands.remove(0));
        }
        let assigned = operands.iter().filter_map(|word| word.split_once('='));
        found.values.extend(assigned.map(|(_, value)| value));
        found
    }

    fn read_long(&mut self, long: &'a str, words: &mut impl Iterator<Item = &'a str>) {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        // They may be shortened.
        let mut options = LONG_OPTIONS.iter();
        if let Some((_, letter)) = options.find(|(full, _)| full.starts_with(name)) {
            self.add(*letter, value.or_else(|| words.next()));
        }
    }

    fn read_letters(&mut self, letters: &'a str, words: &mut impl Iterator<Item = &'a str>) {
        for (at, letter) in letters.char_indices() {
            if TAKE_VALUE.contains(letter) {
                let rest = &letters[at + letter.len_utf8()..];
                let value = if rest.is_empty() {
                    words.next()
                } else {
                    Some(rest)
                };
                return self.add(letter, value);
            }
            if TAKE_REST.contains(letter) {
                return;
            }
        }
    }

    fn add(&mut self, option: char, value: Option<&'a str>) {
        let Some(value) = value else {
            return;
        };
        match option {
            'e' => self.programs.push(value),
            'f' | 'E' | 'i' => self.files.push(value),
            'v' => {
                let value = value.split_once('=').map_or(value, |(_, value)| value);
                self.values.push(value);
            }
            // `-W source=…`, an old way to write `--source=…`.
            'W' => self.programs.extend(value.strip_prefix("source=")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&'static str]) -> (Vec<String>, Vec<String>, Vec<String>) {
        let words: Vec<ShellWord> = words.iter().copied().map(ShellWord::from).collect();
        let found = AwkArguments::read(&words);
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        (
            owned(&found.programs),
            owned(&found.files),
            owned(&found.values),
        )
    }

    #[test]
    fn the_program_is_found_behind_options_with_values() {
        for words in [
            &["P", "f"][..],
            &["-F:", "P"],
            &["-F", ":", "P", "f"],
            &["-v", "x=1", "P"],
            &["-vx=1", "P"],
            &["--assign", "x=1", "P"],
            &["--field-sep=:", "P"],
            &["-e", "P", "f"],
            &["--source=P", "f"],
            &["--sou", "P"],
            &["-nF", ":", "--", "P"],
            &["-W", "source=P"],
        ] {
            assert_eq!(read(words).0, ["P"], "{words:?}");
        }
    }

    #[test]
    fn files_and_values_of_variables_are_found() {
        let (programs, files, values) = read(&["-f", "a.awk", "-v", "x=1", "in", "y=2"]);
        assert!(programs.is_empty(), "{programs:?}");
        assert_eq!(files, ["a.awk"]);
        assert_eq!(values, ["1", "2"]);
    }
}
