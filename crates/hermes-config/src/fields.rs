//! Reading the keys of one mapping: bool-like flags, numbers in quotes, lists of one, and a warning for the rest.

use std::{borrow::Cow, cell::RefCell, fmt::Display, time::Duration};

use serde_json::{Map, Value};

use crate::{Variables, Warning, reference};

/// A mapping of the document, or an empty one where it is missing, with the dotted path that leads to it.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    path: String,
    map: Option<&'a Map<String, Value>>,
    variables: &'a Variables,
    warnings: &'a RefCell<Vec<Warning>>,
}

/// A value no default can stand in for.
pub(crate) struct BadValue {
    pub(crate) key: &'static str,
    pub(crate) expected: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn root(
        document: &'a Value,
        variables: &'a Variables,
        warnings: &'a RefCell<Vec<Warning>>,
    ) -> Self {
        let root = Self {
            path: String::new(),
            map: document.as_object(),
            variables,
            warnings,
        };
        if root.map.is_none() {
            let message = "the file is not a mapping of keys to values and is ignored".into();
            root.warnings
                .borrow_mut()
                .push(Warning { key: None, message });
        }
        root
    }

    /// A mapping that was already read, under a key of this one.
    pub(crate) fn mapping(&self, key: &str, map: &'a Map<String, Value>) -> Self {
        Self {
            path: self.dotted_key(key),
            map: Some(map),
            variables: self.variables,
            warnings: self.warnings,
        }
    }

    /// The mapping under `key`; anything else there is a warning and counts as empty.
    pub(crate) fn section(&self, key: &str) -> Self {
        let map = match self.get(key) {
            None => None,
            Some(Value::Object(map)) => Some(map),
            Some(_) => {
                self.warn(key, "must be a mapping; it is ignored");
                None
            }
        };
        Self {
            path: self.dotted_key(key),
            map,
            variables: self.variables,
            warnings: self.warnings,
        }
    }

    /// The value of a key; null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map?.get(key).filter(|value| !value.is_null())
    }

    /// Keys and values in file order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.map.into_iter().flatten()
    }

    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn warn(&self, key: &str, message: impl Into<String>) {
        let key = Some(self.dotted_key(key));
        let message = message.into();
        self.warnings.borrow_mut().push(Warning { key, message });
    }

    fn dotted_key(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// A text; numbers and booleans count as their spelling.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let value = self.get(key)?;
        let text = scalar_text(value);
        if text.is_none() {
            self.warn(key, "must be a string; it is ignored");
        }
        text.map(Cow::into_owned)
    }

    /// A text with `${VAR}` filled in: for everything that is not resolved at each connect.
    pub(crate) fn filled_text(&self, key: &str) -> Option<String> {
        let filled = self.fill(&self.text(key)?);
        if filled.contains("${") {
            self.warn(
                key,
                "has a reference that stays as written; here only `${VAR}` is filled in, if it is set",
            );
        }
        Some(filled)
    }

    /// `${VAR}` filled in where it is set.
    pub(crate) fn fill(&self, text: &str) -> String {
        reference::fill_variables(text, self.variables).into_owned()
    }

    /// The value for flags, numbers and choices, with `${VAR}` filled in.
    pub(crate) fn filled(&self, key: &str) -> Option<Cow<'a, Value>> {
        let value = self.get(key)?;
        match value.as_str() {
            Some(text) if text.contains("${") => Some(Cow::Owned(self.fill(text).into())),
            _ => Some(Cow::Borrowed(value)),
        }
    }

    /// A bool-like value.
    pub(crate) fn flag(&self, key: &str, default: bool) -> bool {
        let Some(value) = self.filled(key) else {
            return default;
        };
        parse_flag(&value)
            .unwrap_or_else(|| self.warn_default(key, "true or false", default, default))
    }

    /// A number, also in quotes; anything else is NaN.
    fn number(&self, key: &str) -> Option<f64> {
        let value = self.filled(key)?;
        let number = match &*value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.or(Some(f64::NAN))
    }

    /// Warns that a value makes no sense and gives the default.
    fn warn_default<T>(&self, key: &str, expected: &str, shown: impl Display, default: T) -> T {
        self.warn(key, format!("must be {expected}; {shown} is used instead"));
        default
    }

    /// A number of at least `least`.
    pub(crate) fn decimal(&self, key: &str, default: f64, least: f64) -> f64 {
        match self.number(key) {
            None => default,
            Some(number) if number.is_finite() && number >= least => number,
            Some(_) => {
                let expected = format!("a number of at least {least}");
                self.warn_default(key, &expected, default, default)
            }
        }
    }

    /// A whole number of at least `least`.
    pub(crate) fn integer(&self, key: &str, default: u32, least: u32) -> u32 {
        let Some(number) = self.number(key) else {
            return default;
        };
        let possible = f64::from(least)..=f64::from(u32::MAX);
        if number.fract() == 0.0 && possible.contains(&number) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole and within bounds, as just checked"
            )]
            return number as u32;
        }
        let expected = format!("a whole number of at least {least}");
        self.warn_default(key, &expected, default, default)
    }

    /// A whole number of at least `least`, where there is no default.
    pub(crate) fn optional_integer(&self, key: &str, least: u32) -> Option<u32> {
        let number = self.number(key)?;
        if number.fract() == 0.0 && (f64::from(least)..=f64::from(u32::MAX)).contains(&number) {
            return Some(self.integer(key, least, least));
        }
        self.warn(
            key,
            format!("must be a whole number of at least {least}; it is ignored"),
        );
        None
    }

    /// A share: more than 0, at most 1.
    pub(crate) fn fraction(&self, key: &str, default: f64) -> f64 {
        match self.number(key) {
            None => default,
            Some(number) if number > 0.0 && number <= 1.0 => number,
            Some(_) => self.warn_default(key, "a number above 0 and up to 1", default, default),
        }
    }

    /// The members of the mapping under a key, as they are.
    pub(crate) fn members(&self, key: &str) -> Map<String, Value> {
        self.section(key).map.cloned().unwrap_or_default()
    }

    /// A time in seconds above zero.
    pub(crate) fn seconds(&self, key: &str, default: Duration) -> Duration {
        let Some(number) = self.number(key) else {
            return default;
        };
        parse_duration(number)
            .filter(|time| !time.is_zero())
            .unwrap_or_else(|| {
                let expected = "a number of seconds above 0";
                self.warn_default(key, expected, default.as_secs_f64(), default)
            })
    }

    /// A time in seconds where 0 means off.
    pub(crate) fn seconds_or_off(&self, key: &str, default: Option<Duration>) -> Option<Duration> {
        let Some(number) = self.number(key) else {
            return default;
        };
        if let Some(time) = parse_duration(number) {
            return Some(time).filter(|time| !time.is_zero());
        }
        let shown = default.unwrap_or_default().as_secs_f64();
        self.warn_default(key, "a number of seconds, 0 for off", shown, default)
    }

    /// One of a few words, in any case.
    pub(crate) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)], default: T) -> T {
        let Some(value) = self.filled(key) else {
            return default;
        };
        let text = scalar_text(&value).unwrap_or_default();
        let found = words
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
        if let Some((_, meaning)) = found {
            return *meaning;
        }
        let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        let expected = format!("one of {}", words.join(", "));
        self.warn_default(key, &expected, "the default", default)
    }

    /// A list of texts, or one text for a list of one. Null is absent, `[]` is an empty list.
    pub(crate) fn texts(&self, key: &'static str) -> Result<Option<Vec<String>>, BadValue> {
        let expected = "must be a string or a list of strings";
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value {
            Value::Array(items) => items
                .iter()
                .map(|item| scalar_text(item).map(Cow::into_owned))
                .collect::<Option<Vec<_>>>(),
            other => scalar_text(other).map(|text| vec![text.into_owned()]),
        }
        .map(Some)
        .ok_or(BadValue { key, expected })
    }

    /// As [`Fields::texts`], where a wrong value is only a warning.
    pub(crate) fn texts_or_warn(&self, key: &'static str) -> Option<Vec<String>> {
        self.texts(key).unwrap_or_else(|bad| {
            self.warn(key, format!("{}; it is ignored", bad.expected));
            None
        })
    }

    /// A mapping of names to texts, in file order. A name without a value is left out with a warning.
    pub(crate) fn pairs(&self, key: &'static str) -> Result<Vec<(String, String)>, BadValue> {
        let expected = "must be a mapping of names to strings";
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let map = value.as_object().ok_or(BadValue { key, expected })?;
        let mut pairs = Vec::new();
        for (name, value) in map {
            if value.is_null() {
                self.warn(&format!("{key}.{name}"), "has no value and is left out");
                continue;
            }
            let text = scalar_text(value).ok_or(BadValue { key, expected })?;
            pairs.push((name.clone(), text.into_owned()));
        }
        Ok(pairs)
    }

    /// The variables that references are filled from.
    pub(crate) fn variables(&self) -> &'a Variables {
        self.variables
    }

    /// Warns of keys that look like a slip for one of `known`; all others may belong to other programs.
    pub(crate) fn warn_mistyped(&self, known: &[&str]) {
        for (key, _) in self.entries() {
            if !known.contains(&key.as_str())
                && let Some(near) = nearest_key(key, known)
            {
                self.warn(key, format!("is not a known key; did you mean `{near}`?"));
            }
        }
    }

    /// Warns of every key that is not among `known`, naming a near one.
    pub(crate) fn warn_unknown(&self, known: &[&str]) {
        for (key, _) in self.entries() {
            if known.contains(&key.as_str()) {
                continue;
            }
            match nearest_key(key, known) {
                Some(near) => self.warn(key, format!("is not a known key; did you mean `{near}`?")),
                None => self.warn(key, "is not a known key and has no effect"),
            }
        }
    }
}

/// The spelling of a string, number or boolean.
pub(crate) fn scalar_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
        _ => None,
    }
}

/// A boolean, or a word or number commonly meant as one.
pub(crate) fn parse_flag(value: &Value) -> Option<bool> {
    let text = scalar_text(value)?.trim().to_ascii_lowercase();
    match text.as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A time of 0 to 10 years: beyond that a deadline could not be counted, and nobody means it.
fn parse_duration(seconds: f64) -> Option<Duration> {
    const TEN_YEARS: f64 = 10.0 * 365.0 * 24.0 * 3600.0;
    (0.0..=TEN_YEARS)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// The known key a typing slip may have been meant for.
pub(crate) fn nearest_key<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |key: &str| key.to_ascii_lowercase().replace(['-', '_'], "");
    let written = plain(key);
    let letters = written.chars().count();
    // A third of the letters may be wrong, but never more than two.
    let most = 2.min(letters / 3);
    known
        .iter()
        .map(|known| (plain(known), *known))
        // A key may be megabytes long, and these cannot be near.
        .filter(|(word, _)| word.chars().count().abs_diff(letters) <= most)
        .map(|(word, known)| (edit_distance(&written, &word), known))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Insertions, deletions and replacements that turn one word into the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_are_read_in_any_spelling() {
        for yes in [
            json!(true),
            json!(1),
            json!("TRUE"),
            json!("Yes"),
            json!(" on "),
            json!("1"),
        ] {
            assert_eq!(parse_flag(&yes), Some(true), "{yes}");
        }
        for no in [
            json!(false),
            json!(0),
            json!("FALSE"),
            json!("No"),
            json!("off"),
            json!("0"),
        ] {
            assert_eq!(parse_flag(&no), Some(false), "{no}");
        }
        for other in [json!("maybe"), json!(2), json!([]), json!("")] {
            assert_eq!(parse_flag(&other), None, "{other}");
        }
    }

    #[test]
    fn a_near_key_is_suggested_and_a_far_one_is_not() {
        let known = ["timeout", "connect_timeout", "headers", "env", "url"];
        assert_eq!(nearest_key("timeuot", &known), Some("timeout"));
        assert_eq!(
            nearest_key("connectTimeout", &known),
            Some("connect_timeout")
        );
        assert_eq!(nearest_key("header", &known), Some("headers"));
        assert_eq!(nearest_key("envs", &known), Some("env"));
        assert_eq!(nearest_key("type", &known), None);
        assert_eq!(nearest_key("description", &known), None);
    }

    #[test]
    fn edit_distance_counts_single_changes() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}
