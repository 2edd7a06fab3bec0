//! One word: quotes, escapes, variables and substitutions.

use super::{Command, ELSEWHERE, LONGEST_EXPANSION, Quoting, Reader, TooComplex, Variable, Word};

impl Reader {
    /// Reads up to the end of a word into `self.word`; words completed on the way go to the command.
    pub(super) fn scan_word(&mut self) -> Result<(), TooComplex> {
        if matches!(self.peek(0), Some('<' | '>')) && self.peek(1) == Some('(') {
            // Process substitution.
            let sign = self.next().unwrap_or('<');
            self.at += 1;
            let inner = self.until_parenthesis();
            self.substitute(&format!("{sign}("), &inner, ")")?;
        }
        while let Some(character) = self.peek(0) {
            match character {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    self.at += 1;
                    if let Some(escaped) = self.next().filter(|&c| c != '\n') {
                        self.push(escaped);
                    }
                }
                '\'' => {
                    self.at += 1;
                    self.begin();
                    while let Some(quoted) = self.next().filter(|&c| c != '\'') {
                        self.push(quoted);
                    }
                }
                '"' => self.double_quotes()?,
                '$' => self.dollar(Quoting::None)?,
                '`' => self.backticks()?,
                _ => {
                    self.at += 1;
                    self.push(character);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().text.push(character);
    }

    fn push_text(&mut self, text: &str) {
        self.word.get_or_insert_default().text.push_str(text);
    }

    fn double_quotes(&mut self) -> Result<(), TooComplex> {
        self.at += 1;
        self.begin();
        while let Some(character) = self.peek(0) {
            match character {
                '"' => {
                    self.at += 1;
                    break;
                }
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped @ ('"' | '\\' | '$' | '`')) => self.push(escaped),
                        Some(other) => {
                            self.push('\\');
                            self.push(other);
                        }
                    }
                }
                '$' => self.dollar(Quoting::Double)?,
                '`' => self.backticks()?,
                _ => {
                    self.at += 1;
                    self.push(character);
                }
            }
        }
        Ok(())
    }

    fn dollar(&mut self, quoting: Quoting) -> Result<(), TooComplex> {
        self.at += 1;
        match self.peek(0) {
            Some('(') => {
                self.at += 1;
                let inner = self.until_parenthesis();
                self.substitute("$(", &inner, ")")
            }
            Some('{') => {
                self.at += 1;
                let inner = self.until_brace();
                self.parameter(&inner, quoting)
            }
            Some('\'') if quoting == Quoting::None => {
                self.at += 1;
                self.c_string();
                Ok(())
            }
            Some('"') if quoting == Quoting::None => self.double_quotes(),
            Some(first) if first == '_' || first.is_ascii_alphabetic() => {
                let start = self.at;
                while self
                    .peek(0)
                    .is_some_and(|c| c == '_' || c.is_ascii_alphanumeric())
                {
                    self.at += 1;
                }
                let name: String = self.characters[start..self.at].iter().collect();
                self.variable(&name, quoting)
            }
            _ => {
                self.push('$');
                Ok(())
            }
        }
    }

    /// `${…}`: the value, or the default that the expression gives.
    fn parameter(&mut self, inner: &str, quoting: Quoting) -> Result<(), TooComplex> {
        let length = inner
            .find(|c: char| c != '_' && !c.is_ascii_alphanumeric())
            .unwrap_or(inner.len());
        let (name, rest) = inner.split_at(length);
        let default = [":-", "-", ":=", "=", ":+", "+"]
            .iter()
            .find_map(|sign| rest.strip_prefix(sign));
        match default {
            // A known variable replaces the default; an unknown one may be empty.
            Some(default) if !self.variables.contains_key(name) => {
                if let Some(word) = self.read_quoted(default)? {
                    self.word
                        .get_or_insert_default()
                        .substitutions
                        .extend(word.substitutions);
                    self.expand(&word.text, quoting)?;
                }
                Ok(())
            }
            _ => self.variable(name, quoting),
        }
    }

    fn variable(&mut self, name: &str, quoting: Quoting) -> Result<(), TooComplex> {
        match self.variables.get(name) {
            Some(variable) => {
                let Variable { value, is_list } = variable.clone();
                self.expand(&value, if is_list { Quoting::None } else { quoting })
            }
            None if name == "IFS" && quoting == Quoting::None => {
                self.finish_word();
                Ok(())
            }
            None => {
                self.push_text(&format!("${name}"));
                Ok(())
            }
        }
    }

    /// Adds a value; without quotes, whitespace splits it into words.
    fn expand(&mut self, value: &str, quoting: Quoting) -> Result<(), TooComplex> {
        self.expanded += value.len();
        if self.expanded > LONGEST_EXPANSION {
            return Err(TooComplex);
        }
        if quoting == Quoting::Double {
            self.push_text(value);
            return Ok(());
        }
        for character in value.chars() {
            if character.is_whitespace() {
                self.finish_word();
            } else {
                self.push(character);
            }
        }
        Ok(())
    }

    fn nested(&self, text: &str) -> Result<Self, TooComplex> {
        let mut reader = Self::new(text, self.depth + 1)?;
        reader.variables.clone_from(&self.variables);
        reader.expanded = self.expanded;
        Ok(reader)
    }

    /// Merges the commands of a nested parser.
    fn adopt(&mut self, nested: Self) -> Option<Word> {
        self.expanded = nested.expanded;
        let commands = nested.commands.into_iter();
        self.commands.extend(commands.map(|command| Command {
            id: ELSEWHERE,
            ..command
        }));
        nested.word
    }

    /// Reads text as if it stood in double quotes.
    pub(super) fn read_quoted(&mut self, text: &str) -> Result<Option<Word>, TooComplex> {
        let mut reader = self.nested(&format!("\"{}\"", text.replace('"', "\\\"")))?;
        reader.scan_word()?;
        Ok(self.adopt(reader))
    }

    /// Reads the commands of a substitution and leaves it in the word as written.
    fn substitute(&mut self, open: &str, inner: &str, close: &str) -> Result<(), TooComplex> {
        let mut reader = self.nested(inner)?;
        reader.read_line()?;
        self.adopt(reader);
        let word = self.word.get_or_insert_default();
        word.text.push_str(open);
        word.text.push_str(inner);
        word.text.push_str(close);
        word.substitutions.push(inner.to_owned());
        Ok(())
    }

    fn backticks(&mut self) -> Result<(), TooComplex> {
        self.at += 1;
        let mut inner = String::new();
        while let Some(character) = self.next().filter(|&c| c != '`') {
            match (character, self.peek(0)) {
                ('\\', Some(escaped @ ('`' | '\\' | '$'))) => {
                    self.at += 1;
                    inner.push(escaped);
                }
                _ => inner.push(character),
            }
        }
        self.substitute("`", &inner, "`")
    }

    /// The text up to the parenthesis that closes the one just read.
    pub(super) fn until_parenthesis(&mut self) -> String {
        self.until('(', ')')
    }

    fn until_brace(&mut self) -> String {
        self.until('{', '}')
    }

    fn until(&mut self, open: char, close: char) -> String {
        let start = self.at;
        let mut depth = 1;
        while let Some(character) = self.next() {
            match character {
                '\\' => self.at += 1,
                '\'' | '"' => self.skip_quotes(character),
                _ if character == open => depth += 1,
                _ if character == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return self.characters[start..self.at - 1].iter().collect();
            }
        }
        self.at = self.characters.len();
        self.characters[start.min(self.at)..].iter().collect()
    }

    fn skip_quotes(&mut self, quote: char) {
        while let Some(character) = self.next() {
            match character {
                _ if character == quote => return,
                '\\' if quote == '"' => self.at += 1,
                '$' if quote == '"' && self.peek(0) == Some('(') => {
                    self.at += 1;
                    self.until_parenthesis();
                }
                _ => {}
            }
        }
    }

    /// The rest of `$'…'`.
    fn c_string(&mut self) {
        self.begin();
        while let Some(character) = self.next().filter(|&c| c != '\'') {
            if character != '\\' {
                self.push(character);
                continue;
            }
            match self.next() {
                Some('n') => self.push('\n'),
                Some('t') => self.push('\t'),
                Some('r') => self.push('\r'),
                Some('e' | 'E') => self.push('\u{1b}'),
                Some('x') => self.push_code(16, 2),
                Some('u') => self.push_code(16, 4),
                Some('U') => self.push_code(16, 8),
                Some('0'..='7') => {
                    self.at -= 1;
                    self.push_code(8, 3);
                }
                Some(other) => self.push(other),
                None => {}
            }
        }
    }

    fn push_code(&mut self, radix: u32, most_digits: usize) {
        let mut code = 0;
        for _ in 0..most_digits {
            let Some(digit) = self.peek(0).and_then(|c| c.to_digit(radix)) else {
                break;
            };
            code = code * radix + digit;
            self.at += 1;
        }
        if let Some(character) = char::from_u32(code) {
            self.push(character);
        }
    }
}
