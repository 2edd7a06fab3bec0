//! The parser: one pass over the characters of a line, with a nested parser for each substitution.

mod redirects;
mod words;

use std::collections::HashMap;

use super::{Direction, Redirect, ShellCommand, ShellWord, TooComplex};

/// Longer lines are scripts, which belong into a file.
const MAX_LINE_CHARS: usize = 100_000;
const MAX_SUBSTITUTION_DEPTH: usize = 12;
/// How much variables may add to a line, in bytes.
const MAX_EXPANSION_BYTES: usize = 1_000_000;
/// The id of a command that belongs to a substitution.
const SUBSTITUTION_ID: usize = usize::MAX;

pub(super) struct ShellParser {
    characters: Vec<char>,
    position: usize,
    depth: usize,
    commands: Vec<ShellCommand>,
    current: ShellCommand,
    /// The word being read; `None` between words.
    word: Option<ShellWord>,
    /// What the line itself assigned.
    variables: HashMap<String, Variable>,
    groups: Vec<CommandGroup>,
    /// A function whose body comes next.
    function: Option<String>,
    documents: Vec<HereDocument>,
    /// Set when the first word is a keyword whose words are not a command, as `for`.
    header: Option<KeywordHeader>,
    /// Bytes that came from variables.
    expanded: usize,
}

#[derive(Clone)]
struct Variable {
    value: String,
    /// A loop variable holds one word at a time, quoted or not.
    is_list: bool,
}

struct CommandGroup {
    kind: GroupKind,
    reads_pipe: bool,
    function: Option<String>,
}

#[derive(PartialEq, Eq)]
enum GroupKind {
    Parenthesis,
    Keyword,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeywordHeader {
    Loop,
    Other,
}

struct HereDocument {
    command: usize,
    delimiter: String,
    is_literal: bool,
    strips_tabs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    None,
    Double,
}

impl ShellParser {
    pub(super) fn new(line: &str, depth: usize) -> Result<Self, TooComplex> {
        if line.len() > MAX_LINE_CHARS || depth > MAX_SUBSTITUTION_DEPTH {
            return Err(TooComplex);
        }
        Ok(Self {
            characters: line.chars().collect(),
            position: 0,
            depth,
            commands: Vec::new(),
            current: ShellCommand::default(),
            word: None,
            variables: HashMap::new(),
            groups: Vec::new(),
            function: None,
            documents: Vec::new(),
            header: None,
            expanded: 0,
        })
    }

    pub(super) fn parse(mut self) -> Result<Vec<ShellCommand>, TooComplex> {
        self.read_line()?;
        Ok(self.commands)
    }

    fn read_line(&mut self) -> Result<(), TooComplex> {
        while let Some(character) = self.peek(0) {
            match character {
                ' ' | '\t' | '\r' => self.position += 1,
                '\\' if self.peek(1) == Some('\n') => self.position += 2,
                '\n' => {
                    self.position += 1;
                    self.end_command();
                    self.read_documents()?;
                }
                ';' => {
                    self.position += 1;
                    self.end_command();
                }
                '&' => self.read_ampersand()?,
                '|' => self.read_pipe(),
                '(' => self.open_parenthesis(),
                ')' => {
                    self.position += 1;
                    self.end_command();
                    self.close_group(&GroupKind::Parenthesis);
                }
                '#' => self.skip_comment(),
                '<' | '>' if self.peek(1) != Some('(') => self.read_redirect()?,
                _ => self.read_word()?,
            }
        }
        self.end_command();
        Ok(())
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek(0)?;
        self.position += 1;
        Some(character)
    }

    fn skip_comment(&mut self) {
        while self.peek(0).is_some_and(|character| character != '\n') {
            self.position += 1;
        }
    }

    fn read_ampersand(&mut self) -> Result<(), TooComplex> {
        match self.peek(1) {
            Some('>') => {
                self.position += 1;
                return self.read_redirect();
            }
            Some('&') => self.position += 2,
            _ => {
                self.position += 1;
                self.current.is_background = true;
            }
        }
        self.end_command();
        Ok(())
    }

    fn read_pipe(&mut self) {
        let is_or = self.peek(1) == Some('|');
        self.position += if is_or || self.peek(1) == Some('&') {
            2
        } else {
            1
        };
        self.end_command();
        self.current.reads_pipe = !is_or;
    }

    fn open_parenthesis(&mut self) {
        self.position += 1;
        if self
            .current
            .words
            .last()
            .is_some_and(|word| word.text.ends_with('='))
        {
            // An array: its elements are not commands.
            self.read_until_parenthesis();
            return;
        }
        let mut closing = 0;
        while matches!(self.peek(closing), Some(' ' | '\t')) {
            closing += 1;
        }
        if self.current.words.len() == 1 && self.peek(closing) == Some(')') {
            self.position += closing + 1;
            self.function = self.current.words.pop().map(|word| word.text);
            return;
        }
        self.end_command();
        self.open_group(GroupKind::Parenthesis);
    }

    fn open_group(&mut self, kind: GroupKind) {
        self.groups.push(CommandGroup {
            kind,
            reads_pipe: self.current.reads_pipe,
            function: self.function.take(),
        });
    }

    fn close_group(&mut self, kind: &GroupKind) {
        if self.groups.last().is_some_and(|group| group.kind == *kind) {
            self.groups.pop();
        }
    }

    /// Closes the current command. If it is empty, the next command reuses it.
    fn end_command(&mut self) {
        let header = self.header.take();
        if self.current.words.is_empty() && self.current.redirects.is_empty() && header.is_none() {
            return;
        }
        let id = self.current.id + 1;
        let mut command = std::mem::replace(
            &mut self.current,
            ShellCommand {
                id,
                ..ShellCommand::default()
            },
        );
        match header {
            Some(KeywordHeader::Loop) => return self.assign_loop(&command.words),
            Some(KeywordHeader::Other) => return,
            None => {}
        }
        let assignments = command
            .words
            .iter()
            .take_while(|word| parse_assignment(word).is_some())
            .count();
        let is_declaration = command.words.get(assignments).is_some_and(|word| {
            matches!(
                &*word.text,
                "export" | "declare" | "local" | "readonly" | "typeset"
            )
        });
        if assignments == command.words.len() || is_declaration {
            for (name, value) in command.words.iter().filter_map(parse_assignment) {
                let (name, value) = (name.to_owned(), value.to_owned());
                self.variables.insert(
                    name,
                    Variable {
                        value,
                        is_list: false,
                    },
                );
            }
        }
        command.words.drain(..assignments);
        if command.words.is_empty() && command.redirects.is_empty() && command.input.is_none() {
            return;
        }
        command.reads_pipe |= self.groups.iter().any(|group| group.reads_pipe);
        command.function = self
            .groups
            .iter()
            .rev()
            .find_map(|group| group.function.clone());
        self.commands.push(command);
    }

    /// `for NAME in WORDS`
    fn assign_loop(&mut self, words: &[ShellWord]) {
        if let [name, word, values @ ..] = words
            && word.text == "in"
        {
            let value = super::join_words(values);
            self.variables.insert(
                name.text.clone(),
                Variable {
                    value,
                    is_list: true,
                },
            );
        }
    }

    /// Handles a keyword at the beginning of a command; false if the word is not one.
    fn handle_keyword(&mut self, word: &str) -> bool {
        match word {
            "{" | "while" | "until" | "if" => self.open_group(GroupKind::Keyword),
            "}" | "done" | "fi" | "esac" => self.close_group(&GroupKind::Keyword),
            "then" | "else" | "elif" | "do" | "!" => {}
            "for" | "select" => {
                self.open_group(GroupKind::Keyword);
                self.header = Some(KeywordHeader::Loop);
            }
            "case" => {
                self.open_group(GroupKind::Keyword);
                self.header = Some(KeywordHeader::Other);
            }
            _ => return false,
        }
        true
    }

    fn finish_word(&mut self) {
        self.current.words.extend(self.word.take());
    }

    /// Reads one word of the source, which variables may turn into several, and adds it to the command.
    fn read_word(&mut self) -> Result<(), TooComplex> {
        let start = self.position;
        self.scan_word()?;
        let source: String = self.characters[start..self.position].iter().collect();
        let is_first = self.current.words.is_empty() && self.header.is_none();
        if is_first && self.handle_function_keyword(&source) {
            self.word = None;
            return Ok(());
        }
        if is_first && self.handle_keyword(&source) {
            self.word = None;
            return Ok(());
        }
        // `2>file`: the number is a file descriptor.
        let is_number = !source.is_empty() && source.chars().all(|c| c.is_ascii_digit());
        if is_number && matches!(self.peek(0), Some('<' | '>')) {
            self.word = None;
            return Ok(());
        }
        self.finish_word();
        Ok(())
    }

    /// `function NAME`
    fn handle_function_keyword(&mut self, source: &str) -> bool {
        if source != "function" {
            return false;
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.position += 1;
        }
        let start = self.position;
        while self
            .peek(0)
            .is_some_and(|c| !c.is_whitespace() && !"(){};&|".contains(c))
        {
            self.position += 1;
        }
        let name = self.characters[start..self.position].iter().collect();
        if self.peek(0) == Some('(') && self.peek(1) == Some(')') {
            self.position += 2;
        }
        self.function = Some(name);
        true
    }
}

/// Name and value of a word such as `X=1`.
fn parse_assignment(word: &ShellWord) -> Option<(&str, &str)> {
    let (name, value) = word.text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    is_name.then_some((name, value))
}
