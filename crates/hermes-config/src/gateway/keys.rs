//! Finding a setting of a bot account: a variable, a key of `config.yaml`, a key of `gateway.json`, a default.
//!
//! Every key of a platform has a variable: `require_mention` is `TELEGRAM_REQUIRE_MENTION` too. For a further account
//! the variable ends with the account's name, and its keys stand below `accounts.<name>`.

use serde_json::Value;

use super::{Platform, access::IdList};
use crate::{
    Variables,
    fields::{Fields, parse_flag},
};

/// Whether a further account takes a setting from the platform where it has none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyScope {
    Own,
    Inherited,
}

/// Where the settings of one bot account may stand.
pub(super) struct AccountKeys<'a> {
    pub(super) platform: Platform,
    /// `_WORK`; empty for the first account.
    suffix: String,
    own: Vec<Fields<'a>>,
    /// The platform's own places, for a further account.
    inherited: Vec<Fields<'a>>,
    pub(super) variables: &'a Variables,
    root: Fields<'a>,
}

/// A setting that was found.
enum FoundKey<'k, 'a> {
    Variable(String, &'a str),
    Key(&'k Fields<'a>, &'static str),
}

impl<'a> AccountKeys<'a> {
    /// Those of a platform's first account. `root` gets the warnings about variables.
    pub(super) fn first(
        platform: Platform,
        places: &[Fields<'a>],
        variables: &'a Variables,
        root: &Fields<'a>,
    ) -> Self {
        Self {
            platform,
            suffix: String::new(),
            own: with_extras(places),
            inherited: Vec::new(),
            variables,
            root: root.clone(),
        }
    }

    /// Those of a further account.
    pub(super) fn of_account(&self, name: &str, places: &[Fields<'a>]) -> Self {
        Self {
            platform: self.platform,
            suffix: account_suffix(name),
            own: with_extras(places),
            inherited: self.own.clone(),
            variables: self.variables,
            root: self.root.clone(),
        }
    }

    pub(super) fn variable_name(&self, what: &str) -> String {
        format!("{}{}", self.platform.variable(what), self.suffix)
    }

    fn variable(&self, name: String) -> Option<FoundKey<'_, 'a>> {
        let value = self.variables.get(&name)?.trim();
        (!value.is_empty()).then_some(FoundKey::Variable(name, value))
    }

    fn find(
        &self,
        what: &str,
        names: &[&'static str],
        scope: KeyScope,
    ) -> Option<FoundKey<'_, 'a>> {
        let in_places = |places: &'_ [Fields<'a>]| {
            places
                .iter()
                .position(|place| names.iter().any(|name| place.is_set(name)))
        };
        let found = |places: &'_ [Fields<'a>]| {
            let at = in_places(places)?;
            let name = names.iter().find(|name| places[at].is_set(name))?;
            Some((at, *name))
        };
        if let Some(variable) = self.variable(self.variable_name(what)) {
            return Some(variable);
        }
        if let Some((at, name)) = found(&self.own) {
            return Some(FoundKey::Key(&self.own[at], name));
        }
        if scope == KeyScope::Own || self.suffix.is_empty() {
            return None;
        }
        if let Some(variable) = self.variable(self.platform.variable(what)) {
            return Some(variable);
        }
        let (at, name) = found(&self.inherited)?;
        Some(FoundKey::Key(&self.inherited[at], name))
    }

    /// Warns about a setting by the name under which it was written.
    pub(super) fn warn(&self, what: &str, names: &[&'static str], message: impl Into<String>) {
        match self.find(what, names, KeyScope::Inherited) {
            Some(FoundKey::Key(place, name)) => place.warn(name, message),
            Some(FoundKey::Variable(name, _)) => self.root.warn(&name, message),
            None => self.root.warn(&self.variable_name(what), message),
        }
    }

    pub(super) fn flag(
        &self,
        what: &str,
        names: &[&'static str],
        default: bool,
        scope: KeyScope,
    ) -> bool {
        match self.find(what, names, scope) {
            None => default,
            Some(FoundKey::Key(place, name)) => place.flag(name, default),
            Some(FoundKey::Variable(name, value)) => parse_flag(&Value::from(value))
                .unwrap_or_else(|| {
                    let message = format!("must be true or false; {default} is used instead");
                    self.root.warn(&name, message);
                    default
                }),
        }
    }

    pub(super) fn choice<T: Copy>(
        &self,
        what: &str,
        names: &[&'static str],
        words: &[(&str, T)],
        default: T,
        scope: KeyScope,
    ) -> T {
        match self.find(what, names, scope) {
            None => default,
            Some(FoundKey::Key(place, name)) => place.choice(name, words, default),
            Some(FoundKey::Variable(name, value)) => {
                let found = words
                    .iter()
                    .find(|(word, _)| word.eq_ignore_ascii_case(value));
                if let Some((_, meaning)) = found {
                    return *meaning;
                }
                let words: Vec<String> =
                    words.iter().map(|(word, _)| format!("`{word}`")).collect();
                let message = format!(
                    "must be one of {}; the default is used instead",
                    words.join(", ")
                );
                self.root.warn(&name, message);
                default
            }
        }
    }

    /// A text with its variables filled in.
    pub(super) fn text(
        &self,
        what: &str,
        names: &[&'static str],
        scope: KeyScope,
    ) -> Option<String> {
        let text = match self.find(what, names, scope)? {
            FoundKey::Variable(_, value) => value.to_owned(),
            FoundKey::Key(place, name) => place.filled_text(name)?.trim().to_owned(),
        };
        (!text.is_empty() && !text.contains("${")).then_some(text)
    }

    /// Ids: a list, or a text with commas.
    pub(super) fn ids(&self, what: &str, names: &[&'static str], scope: KeyScope) -> IdList {
        IdList::new(self.texts(what, names, scope).iter().flat_map(|text| {
            let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty());
            ids.map(str::to_owned).collect::<Vec<_>>()
        }))
    }

    /// Texts as they stand in a list; a variable has one.
    pub(super) fn texts(&self, what: &str, names: &[&'static str], scope: KeyScope) -> Vec<String> {
        match self.find(what, names, scope) {
            None => Vec::new(),
            Some(FoundKey::Variable(_, value)) => vec![value.to_owned()],
            Some(FoundKey::Key(place, name)) => {
                let texts = place.texts_or_warn(name).unwrap_or_default();
                texts.iter().map(|text| place.fill(text)).collect()
            }
        }
    }

    /// The mappings under a key, in all places; the most important one first.
    pub(super) fn sections(&self, name: &str) -> Vec<Fields<'a>> {
        let places = self.own.iter().chain(&self.inherited);
        places
            .filter(|place| place.is_set(name))
            .map(|place| place.section(name))
            .collect()
    }

    /// The mapping under a key that may be a flag too; none if it is a flag, or not set.
    pub(super) fn mapping_of(&self, name: &str) -> Option<Fields<'a>> {
        let mut places = self.own.iter().chain(&self.inherited);
        let place = places.find(|place| place.is_set(name))?;
        place.get(name)?.is_object().then(|| place.section(name))
    }

    /// The first of the account's own places that has a key.
    pub(super) fn place_of(&self, name: &str) -> Option<&Fields<'a>> {
        self.own.iter().find(|place| place.is_set(name))
    }

    /// Names of accounts whose token is a variable: `TELEGRAM_BOT_TOKEN_WORK` is `work`.
    pub(super) fn accounts_in_variables(&self) -> Vec<String> {
        let prefix = format!("{}_", self.platform.variable("BOT_TOKEN"));
        self.variables
            .iter()
            .filter(|(_, value)| !value.trim().is_empty())
            .filter_map(|(name, _)| name.strip_prefix(&prefix))
            .map(str::to_ascii_lowercase)
            .collect()
    }
}

/// A place, and the keys that older versions keep under `extra` in it.
fn with_extras<'a>(places: &[Fields<'a>]) -> Vec<Fields<'a>> {
    places
        .iter()
        .flat_map(|place| [place.clone(), place.section("extra")])
        .collect()
}

/// How the variables of an account end.
pub(super) fn account_suffix(name: &str) -> String {
    format!("_{}", name.to_ascii_uppercase().replace('-', "_"))
}
