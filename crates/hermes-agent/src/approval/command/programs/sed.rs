//! What a script of `sed` does beyond editing: commands that it runs, and files that it writes.

use std::{iter::Peekable, str::Chars};

use super::{option_values, without_options};
use crate::approval::command::shell::ShellWord;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SedEffect {
    /// `e command`
    Command(String),
    /// `s/…/…/e`: a line of the file is run.
    ComputedCommand,
    /// `w file`
    Write(String),
}

/// The effects of the scripts on a command line.
pub(super) fn sed_effects(arguments: &[ShellWord]) -> Vec<SedEffect> {
    let scripts: Vec<String> = option_values(arguments, &["-e", "--expression"]).collect();
    let reads_file = arguments
        .iter()
        .any(|word| word.text == "-f" || word.text.starts_with("--file"));
    let script = if scripts.is_empty() && !reads_file {
        let operands = without_options(arguments, &["-l", "--line-length"]);
        let mut operands = operands.iter().filter(|word| !word.text.is_empty());
        operands
            .next()
            .map_or("", |word| word.text.as_str())
            .to_owned()
    } else {
        scripts.join("\n")
    };
    // A variable is all of it.
    if script.starts_with('$') && script[1..].chars().all(|c| c == '_' || c.is_alphanumeric()) {
        return Vec::new();
    }
    let reader = SedScript {
        characters: script.chars().peekable(),
        effects: Vec::new(),
    };
    reader.read()
}

struct SedScript<'a> {
    characters: Peekable<Chars<'a>>,
    effects: Vec<SedEffect>,
}

impl SedScript<'_> {
    fn read(mut self) -> Vec<SedEffect> {
        loop {
            self.skip(|c| c.is_whitespace() || matches!(c, ';' | '{' | '}'));
            self.skip_addresses();
            match self.characters.next() {
                None => break,
                Some('e') => {
                    let line = self.rest_of_line();
                    self.effects.push(if line.is_empty() {
                        SedEffect::ComputedCommand
                    } else {
                        SedEffect::Command(line)
                    });
                }
                Some('w' | 'W') => {
                    let file = self.rest_of_line();
                    self.effects.push(SedEffect::Write(file));
                }
                Some('s') => self.read_substitution(),
                Some('y') => {
                    if let Some(delimiter) = self.characters.next() {
                        self.skip_text(delimiter);
                        self.skip_text(delimiter);
                    }
                }
                Some('#' | 'a' | 'i' | 'c' | 'r' | 'R') => {
                    self.rest_of_line();
                }
                Some(':' | 'b' | 't' | 'T' | 'q' | 'Q' | 'l' | 'L' | 'v') => {
                    self.skip(|c| !matches!(c, '\n' | ';' | '}'));
                }
                Some(_) => {}
            }
        }
        self.effects
    }

    fn skip(&mut self, what: impl Fn(char) -> bool) {
        while self.characters.next_if(|&c| what(c)).is_some() {}
    }

    /// `1,$`, `/x/I,+3`, `\,x,!`
    fn skip_addresses(&mut self) {
        loop {
            self.skip(|c| c.is_ascii_digit() || c.is_whitespace() || "$,+~!".contains(c));
            if self.characters.next_if_eq(&'/').is_some() {
                self.skip_pattern('/');
            } else if self.characters.next_if_eq(&'\\').is_some() {
                let Some(delimiter) = self.characters.next() else {
                    return;
                };
                self.skip_pattern(delimiter);
            } else {
                return;
            }
            self.skip(|c| matches!(c, 'I' | 'M'));
        }
    }

    fn read_substitution(&mut self) {
        let Some(delimiter) = self.characters.next() else {
            return;
        };
        self.skip_pattern(delimiter);
        self.skip_text(delimiter);
        while let Some(flag) = self.characters.next_if(char::is_ascii_alphanumeric) {
            match flag {
                'e' => self.effects.push(SedEffect::ComputedCommand),
                'w' => {
                    let file = self.rest_of_line();
                    self.effects.push(SedEffect::Write(file));
                }
                _ => {}
            }
        }
    }

    /// A regular expression: a delimiter within `[…]` is part of it.
    fn skip_pattern(&mut self, delimiter: char) {
        while let Some(character) = self.characters.next() {
            match character {
                _ if character == delimiter => return,
                '\\' => {
                    self.characters.next();
                }
                '[' => {
                    self.characters.next_if_eq(&'^');
                    self.characters.next_if_eq(&']');
                    self.skip(|c| c != ']' && c != '\n');
                }
                _ => {}
            }
        }
    }

    fn skip_text(&mut self, delimiter: char) {
        while let Some(character) = self.characters.next() {
            if character == delimiter {
                return;
            }
            if character == '\\' {
                self.characters.next();
            }
        }
    }

    /// Up to the end of the line, and of those that it continues with a backslash.
    fn rest_of_line(&mut self) -> String {
        let mut line = String::new();
        while let Some(character) = self.characters.next().filter(|&c| c != '\n') {
            if character == '\\' {
                line.extend(self.characters.next());
            } else {
                line.push(character);
            }
        }
        line.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(words: &[&str]) -> Vec<SedEffect> {
        let words: Vec<ShellWord> = words.iter().copied().map(ShellWord::from).collect();
        sed_effects(&words)
    }

    #[test]
    fn commands_and_files_of_scripts_are_found() {
        let command = |line: &str| vec![SedEffect::Command(line.into())];
        for words in [
            &["1e ls -l"][..],
            &["-n", "1e ls -l", "f"],
            &["-e", "/x/,$ {", "-e", "e ls -l", "-e", "}"],
            &["-ne", "s/e/x/g;y/ab/ee/\n$!e ls -l"],
            &["--expression=\\,x/y,e ls -l"],
            &["s/[/e]/x/;1,+3!e ls -l"],
            &["-i", "", "e ls -l", "f"],
        ] {
            assert_eq!(effects(words), command("ls -l"), "{words:?}");
        }
        assert_eq!(effects(&["s/.*/x/ge"]), [SedEffect::ComputedCommand]);
        assert_eq!(effects(&["$e"]), []);
        assert_eq!(effects(&["1,2 e"]), [SedEffect::ComputedCommand]);
        for words in [&["s/a/b/w out"][..], &["/x/w out"], &["-n", "$!w out"]] {
            assert_eq!(
                effects(words),
                [SedEffect::Write("out".into())],
                "{words:?}"
            );
        }
    }

    #[test]
    fn ordinary_scripts_only_edit() {
        for words in [
            &["s/e/w/g"][..],
            &["-n", "1,5p", "f"],
            &["-i.bak", "-E", "s|([^/]+)/e|\\1|2g", "f"],
            &["/^e/d;s/\\/e/x/"],
            &["-e", ":a", "-e", "$!{N;ba", "-e", "}"],
            &["/x/a\\\neverything\nb"],
            &["y/abc/exw/"],
            &["$!N;s/\\n/ e/"],
            &["-f", "script.sed", "f"],
            &["$script", "f"],
            &["q"],
            &["1~2d"],
            &["s/[]/e]/x/"],
        ] {
            assert_eq!(effects(words), [], "{words:?}");
        }
    }
}
