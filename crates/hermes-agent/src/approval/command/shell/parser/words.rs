//! One word: quotes, escapes, variables and substitutions.

use super::{
    MAX_EXPANSION_BYTES, Quoting, SUBSTITUTION_ID, ShellCommand, ShellParser, ShellWord,
    TooComplex, Variable,
};

impl ShellParser {
    /// Reads up to the end of a word into `self.word`; words completed on the way go to the command.
    pub(super) fn scan_word(&mut self) -> Result<(), TooComplex> {
        if matches!(self.peek(0), Some('<' | '>')) && self.peek(1) == Some('(') {
            // Process substitution.
            let sign = self.next().unwrap_or('<');
            self.position += 1;
            let inner = self.read_until_parenthesis();
            self.read_substitution(&format!("{sign}("), &inner, ")")?;
        }
        while let Some(character) = self.peek(0) {
            match character {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    self.position += 1;
                    if let Some(escaped) = self.next().filter(|&c| c != '\n') {
                        self.push(escaped);
                    }
                }
                '\'' => {
                    self.position += 1;
                    self.begin_word();
                    while let Some(quoted) = self.next().filter(|&c| c != '\'') {
                        self.push(quoted);
                    }
                }
                '"' => self.read_double_quotes()?,
                '$' => self.read_dollar(Quoting::None)?,
                '`' => self.read_backticks()?,
                _ => {
                    self.position += 1;
                    self.push(character);
                }
            }
        }
        Ok(())
    }

    fn begin_word(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().text.push(character);
    }

    fn push_text(&mut self, text: &str) {
        self.word.get_or_insert_default().text.push_str(text);
    }

    fn read_double_quotes(&mut self) -> Result<(), TooComplex> {
        self.position += 1;
        self.begin_word();
        while let Some(character) = self.peek(0) {
            match character {
                '"' => {
                    self.position += 1;
                    break;
                }
                '\\' => {
                    self.position += 1;
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped @ ('"' | '\\' | '$' | '`')) => self.push(escaped),
                        Some(other) => {
                            self.push('\\');
                            self.push(other);
                        }
                    }
                }
                '$' => self.read_dollar(Quoting::Double)?,
                '`' => self.read_backticks()?,
                _ => {
                    self.position += 1;
                    self.push(character);
                }
            }
        }
        Ok(())
    }

    fn read_dollar(&mut self, quoting: Quoting) -> Result<(), TooComplex> {
        self.position += 1;
        match self.peek(0) {
            Some('(') => {
                self.position += 1;
                let inner = self.read_until_parenthesis();
                self.read_substitution("$(", &inner, ")")
            }
            Some('{') => {
                self.position += 1;
                let inner = self.read_until_brace();
                self.read_parameter(&inner, quoting)
            }
            Some('\'') if quoting == Quoting::None => {
                self.position += 1;
                self.read_c_string();
                Ok(())
            }
            Some('"') if quoting == Quoting::None => self.read_double_quotes(),
            Some(first) if first == '_' || first.is_ascii_alphabetic() => {
                let start = self.position;
                while self
                    .peek(0)
                    .is_some_and(|c| c == '_' || c.is_ascii_alphanumeric())
                {
                    self.position += 1;
                }
                let name: String = self.characters[start..self.position].iter().collect();
                self.expand_variable(&name, quoting)
            }
            _ => {
                self.push('$');
                Ok(())
            }
        }
    }

    /// `${…}`: the value, or the default that the expression gives.
    fn read_parameter(&mut self, inner: &str, quoting: Quoting) -> Result<(), TooComplex> {
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
                    self.push_expansion(&word.text, quoting)?;
                }
                Ok(())
            }
            _ => self.expand_variable(name, quoting),
        }
    }

    fn expand_variable(&mut self, name: &str, quoting: Quoting) -> Result<(), TooComplex> {
        match self.variables.get(name) {
            Some(variable) => {
                let Variable { value, is_list } = variable.clone();
                self.push_expansion(&value, if is_list { Quoting::None } else { quoting })
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
    fn push_expansion(&mut self, value: &str, quoting: Quoting) -> Result<(), TooComplex> {
        self.expanded += value.len();
        if self.expanded > MAX_EXPANSION_BYTES {
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

    fn nested_parser(&self, text: &str) -> Result<Self, TooComplex> {
        let mut reader = Self::new(text, self.depth + 1)?;
        reader.variables.clone_from(&self.variables);
        reader.expanded = self.expanded;
        Ok(reader)
    }

    /// Merges the commands of a nested parser.
    fn merge_nested(&mut self, nested: Self) -> Option<ShellWord> {
        self.expanded = nested.expanded;
        let commands = nested.commands.into_iter();
        self.commands.extend(commands.map(|command| ShellCommand {
            id: SUBSTITUTION_ID,
            ..command
        }));
        nested.word
    }

    /// Reads text as if it stood in double quotes.
    pub(super) fn read_quoted(&mut self, text: &str) -> Result<Option<ShellWord>, TooComplex> {
        let mut reader = self.nested_parser(&format!("\"{}\"", text.replace('"', "\\\"")))?;
        reader.scan_word()?;
        Ok(self.merge_nested(reader))
    }

    /// Reads the commands of a substitution and leaves it in the word as written.
    fn read_substitution(
        &mut self,
        open: &str,
        inner: &str,
        close: &str,
    ) -> Result<(), TooComplex> {
        let mut reader = self.nested_parser(inner)?;
        reader.read_line()?;
        self.merge_nested(reader);
        let word = self.word.get_or_insert_default();
        word.text.push_str(open);
        word.text.push_str(inner);
        word.text.push_str(close);
        word.substitutions.push(inner.to_owned());
        Ok(())
    }

    fn read_backticks(&mut self) -> Result<(), TooComplex> {
        self.position += 1;
        let mut inner = String::new();
        while let Some(character) = self.next().filter(|&c| c != '`') {
            match (character, self.peek(0)) {
                ('\\', Some(escaped @ ('`' | '\\' | '$'))) => {
                    self.position += 1;
                    inner.push(escaped);
                }
                _ => inner.push(character),
            }
        }
        self.read_substitution("`", &inner, "`")
    }

    /// The text up to the parenthesis that closes the one just read.
    pub(super) fn read_until_parenthesis(&mut self) -> String {
        self.read_until('(', ')')
    }

    fn read_until_brace(&mut self) -> String {
        self.read_until('{', '}')
    }

    fn read_until(&mut self, open: char, close: char) -> String {
        let start = self.position;
        let mut depth = 1;
        while let Some(character) = self.next() {
            match character {
                '\\' => self.position += 1,
                '\'' | '"' => self.skip_quotes(character),
                _ if character == open => depth += 1,
                _ if character == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return self.characters[start..self.position - 1].iter().collect();
            }
        }
        self.position = self.characters.len();
        self.characters[start.min(self.position)..].iter().collect()
    }

    fn skip_quotes(&mut self, quote: char) {
        while let Some(character) = self.next() {
            match character {
                _ if character == quote => return,
                '\\' if quote == '"' => self.position += 1,
                '$' if quote == '"' && self.peek(0) == Some('(') => {
                    self.position += 1;
                    self.read_until_parenthesis();
                }
                _ => {}
            }
        }
    }

    /// The rest of `$'…'`.
    fn read_c_string(&mut self) {
        self.begin_word();
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
                Some('x') => self.push_char_code(16, 2),
                Some('u') => self.push_char_code(16, 4),
                Some('U') => self.push_char_code(16, 8),
                Some('0'..='7') => {
                    self.position -= 1;
                    self.push_char_code(8, 3);
                }
                Some(other) => self.push(other),
                None => {}
            }
        }
    }

    fn push_char_code(&mut self, radix: u32, most_digits: usize) {
        let mut code = 0;
        for _ in 0..most_digits {
            let Some(digit) = self.peek(0).and_then(|c| c.to_digit(radix)) else {
                break;
            };
            code = code * radix + digit;
            self.position += 1;
        }
        if let Some(character) = char::from_u32(code) {
            self.push(character);
        }
    }
}
