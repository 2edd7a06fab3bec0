//! Redirections and here-documents.

use super::{Direction, HereDocument, Redirect, ShellParser, TooComplex};

impl ShellParser {
    /// Reads an operator such as `>>` or `<<` and the word after it.
    pub(super) fn read_redirect(&mut self) -> Result<(), TooComplex> {
        let start = self.position;
        while matches!(self.peek(0), Some('<' | '>')) && self.position - start < 3 {
            // `>` followed by a process substitution.
            if self.position > start && self.peek(1) == Some('(') {
                break;
            }
            self.position += 1;
        }
        let operator: String = self.characters[start..self.position].iter().collect();
        let duplicates = self.peek(0) == Some('&');
        let strips_tabs = operator == "<<" && self.peek(0) == Some('-');
        if duplicates || strips_tabs || (operator == ">" && self.peek(0) == Some('|')) {
            self.position += 1;
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.position += 1;
        }
        let start = self.position;
        let words_before = self.current.words.len();
        self.scan_word()?;
        self.finish_word();
        let is_literal = self.characters[start..self.position]
            .iter()
            .any(|c| matches!(c, '\'' | '"' | '\\'));
        let mut targets = self.current.words.split_off(words_before).into_iter();
        let Some(target) = targets.next() else {
            return Ok(());
        };
        self.current.words.extend(targets);
        match operator.as_str() {
            "<<" => self.documents.push(HereDocument {
                command: self.current.id,
                delimiter: target.text,
                is_literal,
                strips_tabs,
            }),
            "<<<" => self.current.input = Some(target.text),
            // `2>&1`
            _ if duplicates && target.text.chars().all(|c| c.is_ascii_digit() || c == '-') => {}
            _ => {
                let direction = if operator == "<" {
                    Direction::In
                } else {
                    Direction::Out
                };
                self.current.redirects.push(Redirect {
                    direction,
                    target: target.text,
                });
            }
        }
        Ok(())
    }

    /// Reads the here-documents that begin on the line just ended.
    pub(super) fn read_documents(&mut self) -> Result<(), TooComplex> {
        for document in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            while self.position < self.characters.len() {
                let line = self.read_source_line();
                let line = if document.strips_tabs {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if line == document.delimiter {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            if !document.is_literal {
                // The shell runs what is substituted in it.
                self.read_quoted(&body)?;
            }
            let command = self
                .commands
                .iter_mut()
                .rev()
                .find(|command| command.id == document.command);
            if let Some(command) = command {
                command.input = Some(body);
            }
        }
        Ok(())
    }

    fn read_source_line(&mut self) -> String {
        let mut line = String::new();
        while let Some(character) = self.next().filter(|&c| c != '\n') {
            line.push(character);
        }
        line
    }
}
