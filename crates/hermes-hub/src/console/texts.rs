//! The console's texts: one file per language, the same keys in each. `yours.KEY` is what `KEY` says to somebody who uses
//! the Hub alone: it speaks of what is theirs, and of no tenants. What depends on the language besides is in its file too:
//! `number.thousands` and `number.decimal` are how numbers are written, `plural.FORM` which form goes with which of them.

mod plural;

use std::{collections::HashMap, sync::LazyLock};

use http::{HeaderMap, header};

use self::plural::PluralRules;
use super::view::grouped;

/// The texts of a language.
#[derive(Debug)]
pub(crate) struct Texts {
    /// As in `lang`.
    pub(super) language: &'static str,
    by_key: HashMap<&'static str, &'static str>,
    plurals: PluralRules,
}

/// The first one is taken where none is asked for.
const LANGUAGES: [(&str, &str); 2] = [
    ("en", include_str!("texts/en.properties")),
    ("de", include_str!("texts/de.properties")),
];

/// What stands before the keys of texts for one person.
const YOURS: &str = "yours.";

static ALL: LazyLock<Vec<Texts>> = LazyLock::new(|| {
    let all = LANGUAGES.into_iter();
    all.map(|(language, file)| Texts::from_file(language, file))
        .collect()
});

/// The same languages for one person.
static FOR_ONE_PERSON: LazyLock<Vec<Texts>> = LazyLock::new(|| {
    let all = ALL.iter().map(|texts| {
        let mut own = texts.by_key.clone();
        for (key, text) in &texts.by_key {
            if let Some(key) = key.strip_prefix(YOURS) {
                own.insert(key, text);
            }
        }
        Texts {
            language: texts.language,
            by_key: own,
            plurals: texts.plurals.clone(),
        }
    });
    all.collect()
});

/// Lines `key = text`; `#` begins a comment. A text may be a space that does not break a line.
fn parse(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(key, text)| (key.trim(), text.trim_ascii()))
}

impl Texts {
    fn from_file(language: &'static str, file: &'static str) -> Self {
        let by_key: HashMap<_, _> = parse(file).collect();
        Self {
            language,
            plurals: PluralRules::read(|key| by_key.get(key).copied()),
            by_key,
        }
    }

    /// All languages that there are.
    pub(super) fn all() -> &'static [Self] {
        &ALL
    }

    /// The same texts for somebody who uses the Hub alone.
    pub(super) fn for_one_person(&self) -> &'static Self {
        let mut all = FOR_ONE_PERSON.iter();
        let own = all.find(|texts| texts.language == self.language);
        own.unwrap_or(&FOR_ONE_PERSON[0])
    }

    pub(super) fn in_language(language: &str) -> Option<&'static Self> {
        ALL.iter().find(|texts| texts.language == language)
    }

    /// In the language that the reader prefers.
    pub(super) fn for_reader(headers: &HeaderMap) -> &'static Self {
        let accepted = headers.get(header::ACCEPT_LANGUAGE);
        let accepted = accepted.and_then(|value| value.to_str().ok());
        Self::preferred(accepted.unwrap_or_default())
    }

    fn preferred(accepted: &str) -> &'static Self {
        let mut wanted: Vec<(f32, &str)> = accepted
            .split(',')
            .filter_map(|part| {
                let (tag, weight) = part.split_once(';').unwrap_or((part, "q=1"));
                let weight = weight.trim().strip_prefix("q=")?.parse().ok()?;
                Some((weight, tag.trim().split('-').next()?))
            })
            .collect();
        wanted.sort_by(|one, other| other.0.total_cmp(&one.0));
        let found = wanted.iter().find_map(|(_, tag)| {
            let mut all = ALL.iter();
            all.find(|texts| texts.language.eq_ignore_ascii_case(tag))
        });
        found.unwrap_or(&ALL[0])
    }

    /// A text; its key where there is none, which a test excludes for all keys in templates.
    pub(super) fn get<'a>(&'a self, key: &'a str) -> &'a str {
        self.by_key.get(key).copied().unwrap_or(key)
    }

    pub(super) fn find(&self, key: &str) -> Option<&'static str> {
        self.by_key.get(key).copied()
    }

    /// A text about a number: `key.one`, `key.other` or another form that the language has, with `{n}`.
    pub(super) fn count(&self, key: &str, n: u64) -> String {
        let key = format!("{key}.{}", self.plurals.form(n));
        self.get(&key).replace("{n}", &self.number(n))
    }

    /// The forms of a text about a number, for scripts.
    pub(super) fn forms(&self, key: &str) -> Vec<(&'static str, &'static str)> {
        let forms = self.plurals.forms();
        forms
            .filter_map(|form| Some((form, self.find(&format!("{key}.{form}"))?)))
            .collect()
    }

    /// A number with its thousands apart.
    pub(super) fn number(&self, number: u64) -> String {
        grouped(number, self.get("number.thousands"))
    }

    /// A number with decimals, which has a point.
    pub(super) fn decimal(&self, number: &str) -> String {
        number.replace('.', self.get("number.decimal"))
    }

    /// A text with `{name}`.
    pub(super) fn fill(&self, key: &str, name: &str) -> String {
        self.get(key).replace("{name}", name)
    }
}

#[cfg(test)]
mod tests;
