//! Completes what is typed: commands, names of tools and servers, prompts, resources.

use std::sync::Arc;

use hermes_config::sync::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};

/// Words that can be completed, renewed as servers come and go.
#[derive(Debug, Default)]
pub(crate) struct CompletionWords {
    words: Mutex<CompletionLists>,
}

#[derive(Debug, Default)]
struct CompletionLists {
    commands: Vec<CompletionWord>,
    tools: Vec<CompletionWord>,
    servers: Vec<CompletionWord>,
    mentions: Vec<CompletionWord>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletionWord {
    pub(crate) text: String,
    pub(crate) about: String,
}

impl CompletionWord {
    pub(crate) fn new(text: impl Into<String>, about: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            about: about.into(),
        }
    }
}

/// The most that are offered at once.
const MAX_CANDIDATES: usize = 60;

impl CompletionWords {
    /// `/name` of commands, prompts and skills.
    pub(crate) fn set_commands(&self, words: Vec<CompletionWord>) {
        self.lock().commands = words;
    }

    /// What `/call` and `/tools` take.
    pub(crate) fn set_tools(&self, tools: Vec<CompletionWord>, servers: Vec<CompletionWord>) {
        let mut words = self.lock();
        words.tools = tools;
        words.servers = servers;
    }

    /// `@server:uri` of resources.
    pub(crate) fn set_mentions(&self, words: Vec<CompletionWord>) {
        self.lock().mentions = words;
    }

    fn lock(&self) -> hermes_config::sync::MutexGuard<'_, CompletionLists> {
        self.words.lock()
    }

    /// What the word at the end of a text may become, and where that word begins.
    fn candidates(&self, text: &str) -> (usize, Vec<CompletionWord>) {
        let start = text.rfind(char::is_whitespace).map_or(0, |space| {
            space + text[space..].chars().next().map_or(1, char::len_utf8)
        });
        let word = &text[start..];
        let words = self.lock();
        let first = text.split_whitespace().next().unwrap_or_default();
        let pool: Vec<&CompletionWord> = if start == 0 && word.starts_with('/') {
            words.commands.iter().collect()
        } else if word.starts_with('@') {
            words.mentions.iter().collect()
        } else {
            match first {
                "/call" if text[..start].trim() == "/call" => words.tools.iter().collect(),
                "/tools" | "/mcp" => words.servers.iter().collect(),
                // Elsewhere names of tools are words like others: something has to be typed first.
                _ if !word.is_empty() => words.tools.iter().chain(&words.servers).collect(),
                _ => Vec::new(),
            }
        };
        let fitting = pool
            .into_iter()
            .filter(|known| known.text.starts_with(word));
        (start, fitting.take(MAX_CANDIDATES).cloned().collect())
    }
}

/// The vocabulary as the editor asks it.
pub(super) struct WordCompleter {
    vocabulary: Arc<CompletionWords>,
}

impl WordCompleter {
    pub(super) fn new(vocabulary: Arc<CompletionWords>) -> Self {
        Self { vocabulary }
    }
}

impl Completer for WordCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let (start, words) = self.vocabulary.candidates(&line[..position]);
        let suggestions: Vec<Suggestion> = words
            .into_iter()
            .map(|word| Suggestion {
                value: word.text,
                description: Some(word.about).filter(|about| !about.is_empty()),
                span: Span::new(start, position),
                append_whitespace: true,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> (usize, Vec<String>) {
        let vocabulary = CompletionWords::default();
        let words = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| CompletionWord::new(*text, ""))
                .collect()
        };
        vocabulary.set_commands(words(&["/call", "/clear", "/mcp_a_review"]));
        vocabulary.set_tools(words(&["a.read", "mcp_a_read"]), words(&["a", "files"]));
        vocabulary.set_mentions(words(&["@a:file:///x"]));
        let (start, words) = vocabulary.candidates(line);
        (start, words.into_iter().map(|word| word.text).collect())
    }

    #[test]
    fn what_can_follow_depends_on_the_place() {
        for (line, start, expected) in [
            ("/c", 0, vec!["/call", "/clear"]),
            ("/mcp_", 0, vec!["/mcp_a_review"]),
            ("/call ", 6, vec!["a.read", "mcp_a_read"]),
            ("/call a.", 6, vec!["a.read"]),
            ("/call a.read x", 13, vec![]),
            ("/tools disable f", 15, vec!["files"]),
            ("look at @a", 8, vec!["@a:file:///x"]),
            ("use mcp", 4, vec!["mcp_a_read"]),
            ("use ", 4, vec![]),
            ("say /c", 4, vec![]),
            ("ä mcp", 3, vec!["mcp_a_read"]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(texts(line), (start, expected), "{line:?}");
        }
    }
}
