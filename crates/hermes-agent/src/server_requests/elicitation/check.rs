//! Validates answers, parses typed text for a field, and detects fields that ask for secrets.

use serde_json::{Value, json};
use url::Url;

use super::form::{FieldKind, Form, FormAnswers, FormChoice, FormField, TextFormat};

/// Why an answer is invalid, as a phrase that follows the field's name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FieldError {
    #[error("must be filled in")]
    Missing,
    #[error("must be {0}")]
    WrongType(&'static str),
    #[error("must have at least {0} characters")]
    TooShort(usize),
    #[error("must have at most {0} characters")]
    TooLong(usize),
    #[error("must be at least {0}")]
    TooLow(f64),
    #[error("must be at most {0}")]
    TooHigh(f64),
    #[error("must be {}", .0.example())]
    WrongFormat(TextFormat),
    #[error("must match {0}")]
    NoMatch(String),
    #[error("`{0}` is not one of the choices")]
    UnknownChoice(String),
    #[error("needs at least {0} of the choices")]
    TooFew(usize),
    #[error("takes at most {0} of the choices")]
    TooMany(usize),
}

impl TextFormat {
    /// The expected format, with an example.
    pub fn example(self) -> &'static str {
        match self {
            Self::Email => "an e-mail address, like ada@example.com",
            Self::Uri => "an address with a scheme, like https://example.com",
            Self::Date => "a date, like 2026-07-28",
            Self::DateTime => "a time with its offset, like 2026-07-28T09:30:00Z",
        }
    }

    fn matches(self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Uri => Url::parse(text).is_ok(),
            Self::Date => {
                text.len() == "2026-07-28".len() && text.parse::<jiff::civil::Date>().is_ok()
            }
            Self::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
        }
    }
}

/// Checks the form only, not whether the address exists.
fn is_email(text: &str) -> bool {
    let Some((user, host)) = text.rsplit_once('@') else {
        return false;
    };
    let is_clean = |part: &str| !part.is_empty() && !part.contains([' ', '\t', '@', ',', ';']);
    let labels = host.split('.');
    is_clean(user) && is_clean(host) && labels.clone().count() > 1 && labels.clone().all(is_clean)
}

impl FormField {
    /// Parses typed text as a value of this field.
    pub fn parse_text(&self, text: &str) -> Result<Value, FieldError> {
        let trimmed = text.trim();
        let value = match &self.kind {
            FieldKind::Text { .. } => json!(text),
            FieldKind::Number { .. } => match trimmed.parse::<i64>() {
                Ok(number) => json!(number),
                Err(_) => json!(
                    trimmed
                        .parse::<f64>()
                        .map_err(|_| FieldError::WrongType("a number"))?
                ),
            },
            FieldKind::Integer { .. } => json!(
                trimmed
                    .parse::<i64>()
                    .map_err(|_| FieldError::WrongType("a whole number"))?
            ),
            FieldKind::Boolean => json!(parse_bool(trimmed)?),
            FieldKind::One(choices) => json!(parse_choice(choices, trimmed)?),
            FieldKind::Several { choices, .. } => {
                let words = trimmed.split(',').map(str::trim);
                let chosen = words
                    .filter(|word| !word.is_empty())
                    .map(|word| parse_choice(choices, word));
                json!(chosen.collect::<Result<Vec<&str>, FieldError>>()?)
            }
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Validates a value of this field.
    pub fn check(&self, value: &Value) -> Result<(), FieldError> {
        match &self.kind {
            FieldKind::Text { .. } => self.check_text(value),
            FieldKind::Number { minimum, maximum } => {
                let number = value.as_f64().ok_or(FieldError::WrongType("a number"))?;
                check_range(number, *minimum, *maximum)
            }
            FieldKind::Integer { minimum, maximum } => {
                let number = value
                    .as_i64()
                    .ok_or(FieldError::WrongType("a whole number"))?;
                match (minimum, maximum) {
                    (Some(least), _) if number < *least => Err(FieldError::TooLow(to_f64(*least))),
                    (_, Some(most)) if number > *most => Err(FieldError::TooHigh(to_f64(*most))),
                    _ => Ok(()),
                }
            }
            FieldKind::Boolean => match value {
                Value::Bool(_) => Ok(()),
                _ => Err(FieldError::WrongType("yes or no")),
            },
            FieldKind::One(choices) => check_choice(choices, value),
            FieldKind::Several {
                choices,
                fewest,
                most,
            } => {
                let chosen = value.as_array().ok_or(FieldError::WrongType("a list"))?;
                chosen
                    .iter()
                    .try_for_each(|one| check_choice(choices, one))?;
                match (fewest, most) {
                    (Some(fewest), _) if chosen.len() < *fewest => Err(FieldError::TooFew(*fewest)),
                    (_, Some(most)) if chosen.len() > *most => Err(FieldError::TooMany(*most)),
                    _ => Ok(()),
                }
            }
        }
    }

    fn check_text(&self, value: &Value) -> Result<(), FieldError> {
        let FieldKind::Text {
            shortest,
            longest,
            format,
            pattern,
        } = &self.kind
        else {
            return Ok(());
        };
        let text = value.as_str().ok_or(FieldError::WrongType("a text"))?;
        let length = text.chars().count();
        if let Some(least) = shortest.filter(|least| length < *least) {
            return Err(FieldError::TooShort(least));
        }
        if let Some(most) = longest.filter(|most| length > *most) {
            return Err(FieldError::TooLong(most));
        }
        if let Some(format) = format.filter(|format| !format.matches(text)) {
            return Err(FieldError::WrongFormat(format));
        }
        match pattern {
            Some(pattern) if !pattern.is_match(text) => Err(FieldError::NoMatch(
                crate::printable::printable(pattern.as_str()).into_owned(),
            )),
            _ => Ok(()),
        }
    }
}

impl Form {
    /// The answers to this form's fields, or the first invalid one. Null counts as missing.
    pub fn check(&self, mut answers: FormAnswers) -> Result<FormAnswers, (&FormField, FieldError)> {
        let mut checked = FormAnswers::new();
        for field in &self.fields {
            match answers.remove(&field.name) {
                None | Some(Value::Null) if field.is_required => {
                    return Err((field, FieldError::Missing));
                }
                None | Some(Value::Null) => {}
                Some(value) => {
                    field.check(&value).map_err(|invalid| (field, invalid))?;
                    checked.insert(field.name.clone(), value);
                }
            }
        }
        Ok(checked)
    }
}

fn check_range(number: f64, minimum: Option<f64>, maximum: Option<f64>) -> Result<(), FieldError> {
    match (minimum, maximum) {
        (Some(least), _) if number < least => Err(FieldError::TooLow(least)),
        (_, Some(most)) if number > most => Err(FieldError::TooHigh(most)),
        _ => Ok(()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "only for a message")]
fn to_f64(limit: i64) -> f64 {
    limit as f64
}

fn parse_bool(word: &str) -> Result<bool, FieldError> {
    match word.to_lowercase().as_str() {
        "y" | "yes" | "true" | "1" | "on" => Ok(true),
        "n" | "no" | "false" | "0" | "off" => Ok(false),
        _ => Err(FieldError::WrongType("yes or no")),
    }
}

fn check_choice(choices: &[FormChoice], value: &Value) -> Result<(), FieldError> {
    let value = value.as_str().ok_or(FieldError::WrongType("a text"))?;
    if choices.iter().any(|choice| choice.value == value) {
        Ok(())
    } else {
        Err(FieldError::UnknownChoice(value.to_owned()))
    }
}

/// By value, else by title, else by its number in the list.
fn parse_choice<'a>(choices: &'a [FormChoice], word: &str) -> Result<&'a str, FieldError> {
    let by_number = || choices.get(word.parse::<usize>().ok()?.checked_sub(1)?);
    let find = |fits: &dyn Fn(&FormChoice) -> bool| choices.iter().find(|choice| fits(choice));
    find(&|choice| choice.value == word)
        .or_else(|| find(&|choice| choice.title.to_lowercase() == word.to_lowercase()))
        .or_else(|| find(&|choice| choice.value.eq_ignore_ascii_case(word)))
        .or_else(by_number)
        .map(|choice| choice.value.as_str())
        .ok_or_else(|| FieldError::UnknownChoice(word.to_owned()))
}

/// Terms for secrets, also as a part of a name.
const SECRET_TERMS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "api key",
    "apikey",
    "access key",
    "private key",
    "security code",
    "kennwort",
];
/// Short terms that only count as whole words.
const SHORT_SECRET_WORDS: [&str; 6] = ["pin", "otp", "cvv", "cvc", "ssn", "key"];

/// Whether a field asks for a password, a token or a key.
pub(super) fn asks_for_secret(name: &str, title: &str, description: Option<&str>) -> bool {
    names_secret(name) || names_secret(title) || description.is_some_and(mentions_secret)
}

fn names_secret(text: &str) -> bool {
    let text = words(text);
    SECRET_TERMS.iter().any(|secret| text.contains(secret))
        || text
            .split(' ')
            .any(|word| SHORT_SECRET_WORDS.contains(&word))
}

/// A description is prose: "the key of the song" is not a secret.
fn mentions_secret(text: &str) -> bool {
    let text = words(text);
    SECRET_TERMS.iter().any(|secret| text.contains(secret))
}

/// `apiKey`, `api_key` and `API-Key` are all `api key`.
fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 4);
    let mut was_lower = false;
    for character in text.chars() {
        if character.is_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = character.is_lowercase();
        if character.is_alphanumeric() {
            words.extend(character.to_lowercase());
        } else {
            words.push(' ');
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_however_they_are_spelt() {
        for name in [
            "password",
            "user_password",
            "apiKey",
            "API-Key",
            "githubToken",
            "client_secret",
            "PIN",
            "key",
            "accessKey",
        ] {
            assert!(asks_for_secret(name, name, None), "{name}");
        }
        assert!(asks_for_secret("x", "X", Some("Enter your API key")));
    }

    #[test]
    fn ordinary_fields_are_left_alone() {
        for name in ["name", "email", "keyboard", "pinned", "turkey", "shipping"] {
            assert!(
                !asks_for_secret(name, name, Some("The key of the song")),
                "{name}"
            );
        }
    }
}
