//! What is typed after a command: `name=value`, or values in the order of the prompt's own list.

use hermes_mcp::protocol::PromptArgument;
use serde_json::{Map, Value};

/// The arguments of a prompt, as far as they were given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments {
    /// By name. Prompts take texts only.
    pub given: Map<String, Value>,
    /// Required ones that are not there.
    pub missing: Vec<PromptArgument>,
}

impl Arguments {
    /// Adds one that was missing.
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        self.missing.retain(|missing| missing.name != name);
        self.given
            .insert(name.to_owned(), Value::String(value.into()));
    }
}

/// Why arguments can not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadArguments {
    /// A quote without its end.
    #[error("a quote is not closed")]
    OpenQuote,
    /// Given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// More values than the prompt takes.
    #[error(
        "there is no argument left for `{word}`{}; put quotes around values with spaces",
        known(names)
    )]
    TooMany {
        /// The first that is too many.
        word: String,
        /// What the prompt takes.
        names: Vec<String>,
    },
}

fn known(names: &[String]) -> String {
    match names {
        [] => ": the prompt takes none".to_owned(),
        names => format!(": the prompt takes {}", names.join(", ")),
    }
}

/// Reads the text behind a command's name.
pub(super) fn read(text: &str, parameters: &[PromptArgument]) -> Result<Arguments, BadArguments> {
    let mut given = Map::new();
    let mut in_order = Vec::new();
    for word in words(text)? {
        let named = word.named.then(|| word.text.split_once('=')).flatten();
        match named.filter(|(name, _)| parameters.iter().any(|known| known.name == *name)) {
            Some((name, value)) => {
                let before = given.insert(name.to_owned(), Value::String(value.to_owned()));
                if before.is_some() {
                    return Err(BadArguments::Twice(name.to_owned()));
                }
            }
            None => in_order.push(word.text),
        }
    }
    let open: Vec<&PromptArgument> = parameters
        .iter()
        .filter(|parameter| !given.contains_key(&parameter.name))
        .collect();
    if let Some(word) = in_order.get(open.len()) {
        return Err(BadArguments::TooMany {
            word: word.clone(),
            names: parameters.iter().map(|known| known.name.clone()).collect(),
        });
    }
    for (parameter, value) in open.iter().zip(in_order) {
        given.insert(parameter.name.clone(), Value::String(value));
    }
    let is_missing = |parameter: &&PromptArgument| {
        parameter.required == Some(true) && !given.contains_key(&parameter.name)
    };
    let missing = parameters.iter().filter(is_missing).cloned().collect();
    Ok(Arguments { given, missing })
}

struct Word {
    text: String,
    /// Whether a `=` in it may end a name: not where the word begins with a quote.
    named: bool,
}

/// Splits at spaces outside of quotes. A quote inside a word is a letter: `don't`.
fn words(text: &str) -> Result<Vec<Word>, BadArguments> {
    let mut words = Vec::new();
    let mut rest = text.trim_start().chars().peekable();
    while rest.peek().is_some() {
        let mut word = Word {
            text: String::new(),
            named: !matches!(rest.peek(), Some('"' | '\'')),
        };
        let mut may_open = true;
        while let Some(character) = rest.next_if(|character| !character.is_whitespace()) {
            match character {
                quote @ ('"' | '\'') if may_open => loop {
                    match rest.next() {
                        None => return Err(BadArguments::OpenQuote),
                        Some(end) if end == quote => break,
                        Some('\\') if matches!(rest.peek(), Some('\\' | '"' | '\'')) => {
                            word.text.extend(rest.next());
                        }
                        Some(inside) => word.text.push(inside),
                    }
                },
                other => {
                    // A value may be quoted by itself.
                    may_open = other == '=';
                    word.text.push(other);
                }
            }
        }
        words.push(word);
        while rest
            .next_if(|character| character.is_whitespace())
            .is_some()
        {}
    }
    Ok(words)
}
