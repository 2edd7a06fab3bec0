//! Parses the arguments of a prompt command: `name=value`, or values in the order of the prompt's parameters.

use hermes_mcp::protocol::PromptArgument;
use serde_json::{Map, Value};

/// The given arguments of a prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptArguments {
    /// By name. Prompts take strings only.
    pub given: Map<String, Value>,
    pub missing: Vec<PromptArgument>,
}

impl PromptArguments {
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        self.missing.retain(|missing| missing.name != name);
        self.given
            .insert(name.to_owned(), Value::String(value.into()));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptArgumentError {
    /// A quote without its end.
    #[error("a quote is not closed")]
    UnclosedQuote,
    /// Given twice.
    #[error("`{0}` is given twice")]
    Duplicate(String),
    #[error(
        "there is no argument left for `{word}`{}; put quotes around values with spaces",
        expected_names(names)
    )]
    TooMany {
        /// The first that is too many.
        word: String,
        names: Vec<String>,
    },
}

fn expected_names(names: &[String]) -> String {
    match names {
        [] => ": the prompt takes none".to_owned(),
        names => format!(": the prompt takes {}", names.join(", ")),
    }
}

/// Parses the text after a command's name.
pub(super) fn parse_arguments(
    text: &str,
    parameters: &[PromptArgument],
) -> Result<PromptArguments, PromptArgumentError> {
    let mut given = Map::new();
    let mut in_order = Vec::new();
    for word in split_words(text)? {
        let named = word.named.then(|| word.text.split_once('=')).flatten();
        match named.filter(|(name, _)| parameters.iter().any(|known| known.name == *name)) {
            Some((name, value)) => {
                let before = given.insert(name.to_owned(), Value::String(value.to_owned()));
                if before.is_some() {
                    return Err(PromptArgumentError::Duplicate(name.to_owned()));
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
        return Err(PromptArgumentError::TooMany {
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
    Ok(PromptArguments { given, missing })
}

struct TypedWord {
    text: String,
    /// Whether a `=` may separate a name: not in a quoted word.
    named: bool,
}

/// Splits at spaces outside of quotes. A quote inside a word is literal: `don't`.
fn split_words(text: &str) -> Result<Vec<TypedWord>, PromptArgumentError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start().chars().peekable();
    while rest.peek().is_some() {
        let mut word = TypedWord {
            text: String::new(),
            named: !matches!(rest.peek(), Some('"' | '\'')),
        };
        let mut may_open = true;
        while let Some(character) = rest.next_if(|character| !character.is_whitespace()) {
            match character {
                quote @ ('"' | '\'') if may_open => loop {
                    match rest.next() {
                        None => return Err(PromptArgumentError::UnclosedQuote),
                        Some(end) if end == quote => break,
                        Some('\\') if matches!(rest.peek(), Some('\\' | '"' | '\'')) => {
                            word.text.extend(rest.next());
                        }
                        Some(inside) => word.text.push(inside),
                    }
                },
                other => {
                    // The value alone may be quoted.
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
