//! The parser: one pass over the characters of a line, with a nested parser for each substitution.

mod redirects;
mod words;

use std::collections::HashMap;

use super::{Command, Direction, Redirect, TooComplex, Word};

/// Longer lines are scripts, which belong into a file.
const LONGEST_LINE: usize = 100_000;
const DEEPEST: usize = 12;
/// How much variables may add to a line, in bytes.
const LONGEST_EXPANSION: usize = 1_000_000;
/// The id of a command that belongs to a substitution.
const ELSEWHERE: usize = usize::MAX;

pub(super) struct Reader {
    characters: Vec<char>,
    at: usize,
    depth: usize,
    commands: Vec<Command>,
    current: Command,
    /// The word being read; `None` between words.
    word: Option<Word>,
    /// What the line itself assigned.
    variables: HashMap<String, Variable>,
    groups: Vec<Group>,
    /// A function whose body comes next.
    function: Option<String>,
    documents: Vec<HereDocument>,
    /// Set when the first word is a keyword whose words are not a command, as `for`.
    header: Option<Header>,
    /// Bytes that came from variables.
    expanded: usize,
}

#[derive(Clone)]
struct Variable {
    value: String,
    /// A loop variable holds one word at a time, quoted or not.
    is_list: bool,
}

struct Group {
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
enum Header {
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

impl Reader {
    pub(super) fn new(line: &str, depth: usize) -> Result<Self, TooComplex> {
        if line.len() > LONGEST_LINE || depth > DEEPEST {
            return Err(TooComplex);
        }
        Ok(Self {
            characters: line.chars().collect(),
            at: 0,
            depth,
            commands: Vec::new(),
            current: Command::default(),
            word: None,
            variables: HashMap::new(),
            groups: Vec::new(),
            function: None,
            documents: Vec::new(),
            header: None,
            expanded: 0,
        })
    }

    pub(super) fn read(mut self) -> Result<Vec<Command>, TooComplex> {
        self.read_line()?;
        Ok(self.commands)
    }

    fn read_line(&mut self) -> Result<(), TooComplex> {
        while let Some(character) = self.peek(0) {
            match character {
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '\n' => {
                    self.at += 1;
                    self.end_command();
                    self.read_documents()?;
                }
                ';' => {
                    self.at += 1;
                    self.end_command();
                }
                '&' => self.ampersand()?,
                '|' => self.pipe(),
                '(' => self.open_parenthesis(),
                ')' => {
                    self.at += 1;
                    self.end_command();
                    self.close(&GroupKind::Parenthesis);
                }
                '#' => self.skip_comment(),
                '<' | '>' if self.peek(1) != Some('(') => self.redirect()?,
                _ => self.read_word()?,
            }
        }
        self.end_command();
        Ok(())
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek(0)?;
        self.at += 1;
        Some(character)
    }

    fn skip_comment(&mut self) {
        while self.peek(0).is_some_and(|character| character != '\n') {
            self.at += 1;
        }
    }

    fn ampersand(&mut self) -> Result<(), TooComplex> {
        match self.peek(1) {
            Some('>') => {
                self.at += 1;
                return self.redirect();
            }
            Some('&') => self.at += 2,
            _ => {
                self.at += 1;
                self.current.is_background = true;
            }
        }
        self.end_command();
        Ok(())
    }

    fn pipe(&mut self) {
        let is_or = self.peek(1) == Some('|');
        self.at += if is_or || self.peek(1) == Some('&') {
            2
        } else {
            1
        };
        self.end_command();
        self.current.reads_pipe = !is_or;
    }

    fn open_parenthesis(&mut self) {
        self.at += 1;
        if self
            .current
            .words
            .last()
            .is_some_and(|word| word.text.ends_with('='))
        {
            // An array: its elements are not commands.
            self.until_parenthesis();
            return;
        }
        let mut closing = 0;
        while matches!(self.peek(closing), Some(' ' | '\t')) {
            closing += 1;
        }
        if self.current.words.len() == 1 && self.peek(closing) == Some(')') {
            self.at += closing + 1;
            self.function = self.current.words.pop().map(|word| word.text);
            return;
        }
        self.end_command();
        self.open(GroupKind::Parenthesis);
    }

    fn open(&mut self, kind: GroupKind) {
        self.groups.push(Group {
            kind,
            reads_pipe: self.current.reads_pipe,
            function: self.function.take(),
        });
    }

    fn close(&mut self, kind: &GroupKind) {
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
            Command {
                id,
                ..Command::default()
            },
        );
        match header {
            Some(Header::Loop) => return self.assign_loop(&command.words),
            Some(Header::Other) => return,
            None => {}
        }
        let assignments = command
            .words
            .iter()
            .take_while(|word| assignment(word).is_some())
            .count();
        let is_declaration = command.words.get(assignments).is_some_and(|word| {
            matches!(
                &*word.text,
                "export" | "declare" | "local" | "readonly" | "typeset"
            )
        });
        if assignments == command.words.len() || is_declaration {
            for (name, value) in command.words.iter().filter_map(assignment) {
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
    fn assign_loop(&mut self, words: &[Word]) {
        if let [name, word, values @ ..] = words
            && word.text == "in"
        {
            let value = super::text_of(values);
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
    fn keyword(&mut self, word: &str) -> bool {
        match word {
            "{" | "while" | "until" | "if" => self.open(GroupKind::Keyword),
            "}" | "done" | "fi" | "esac" => self.close(&GroupKind::Keyword),
            "then" | "else" | "elif" | "do" | "!" => {}
            "for" | "select" => {
                self.open(GroupKind::Keyword);
                self.header = Some(Header::Loop);
            }
            "case" => {
                self.open(GroupKind::Keyword);
                self.header = Some(Header::Other);
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
        let start = self.at;
        self.scan_word()?;
        let source: String = self.characters[start..self.at].iter().collect();
        let is_first = self.current.words.is_empty() && self.header.is_none();
        if is_first && self.function_keyword(&source) {
            self.word = None;
            return Ok(());
        }
        if is_first && self.keyword(&source) {
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
    fn function_keyword(&mut self, source: &str) -> bool {
        if source != "function" {
            return false;
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let start = self.at;
        while self
            .peek(0)
            .is_some_and(|c| !c.is_whitespace() && !"(){};&|".contains(c))
        {
            self.at += 1;
        }
        let name = self.characters[start..self.at].iter().collect();
        if self.peek(0) == Some('(') && self.peek(1) == Some(')') {
            self.at += 2;
        }
        self.function = Some(name);
        true
    }
}

/// Name and value of a word such as `X=1`.
fn assignment(word: &Word) -> Option<(&str, &str)> {
    let (name, value) = word.text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    is_name.then_some((name, value))
}
