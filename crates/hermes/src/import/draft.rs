//! An imported server while its entry is converted from another program's keys to ours.

use serde_json::{Map, Number, Value, json};

/// What the other program said, taken apart key by key, and the entry made of it so far.
#[derive(Debug)]
pub(super) struct Draft {
    given: Map<String, Value>,
    /// The entry, in our words.
    pub(super) entry: Map<String, Value>,
    /// What the user should know.
    pub(super) notes: Vec<String>,
}

impl Draft {
    pub(super) fn new(given: &Value) -> Result<Self, String> {
        match given {
            Value::Object(given) => Ok(Self {
                given: given.clone(),
                entry: Map::new(),
                notes: Vec::new(),
            }),
            _ => Err("its entry is not a mapping".to_owned()),
        }
    }

    /// Takes a key out of what was given; `null` counts as absent.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.given
            .shift_remove(key)
            .filter(|value| !value.is_null())
    }

    /// A text, or a number or flag written as one.
    pub(super) fn take_text(&mut self, key: &str) -> Option<String> {
        self.take(key).as_ref().and_then(text_of)
    }

    pub(super) fn take_flag(&mut self, key: &str) -> Option<bool> {
        let flag = self.given.get(key)?.as_bool()?;
        self.given.shift_remove(key);
        Some(flag)
    }

    pub(super) fn take_list(&mut self, key: &str) -> Vec<String> {
        match self.take(key) {
            Some(Value::Array(values)) => values.iter().filter_map(text_of).collect(),
            Some(value) => text_of(&value).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Names and texts. A name without a text is left out and noted: elsewhere it may mean "unset".
    pub(super) fn take_texts(&mut self, key: &str) -> Vec<(String, String)> {
        let Some(Value::Object(members)) = self.take(key) else {
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (name, value) in members {
            match text_of(&value) {
                Some(text) => texts.push((name, text)),
                None => self
                    .notes
                    .push(format!("`{key}.{name}` is not text and was left out")),
            }
        }
        texts
    }

    /// Takes a key if it has an object; anything else stays.
    pub(super) fn take_object(&mut self, key: &str) -> Option<Map<String, Value>> {
        let object = self.given.get(key)?.as_object()?.clone();
        self.given.shift_remove(key);
        Some(object)
    }

    /// Leaves out keys that mean nothing to us.
    pub(super) fn ignore(&mut self, keys: &[&str]) {
        for key in keys {
            self.given.shift_remove(*key);
        }
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.entry.insert(key.to_owned(), value.into());
    }

    pub(super) fn set_text(&mut self, key: &str, text: Option<String>) {
        if let Some(text) = text {
            self.set(key, text);
        }
    }

    pub(super) fn set_list(&mut self, key: &str, list: Vec<String>) {
        if !list.is_empty() {
            self.set(key, list);
        }
    }

    /// Adds to a mapping of texts, such as `env`.
    pub(super) fn add_texts(
        &mut self,
        key: &str,
        texts: impl IntoIterator<Item = (String, String)>,
    ) {
        for (name, text) in texts {
            let members = self.entry.entry(key).or_insert_with(|| json!({}));
            if let Value::Object(members) = members {
                members.insert(name, text.into());
            }
        }
    }

    /// `false` is written down; `true` is the default.
    pub(super) fn set_enabled(&mut self, enabled: Option<bool>) {
        if enabled == Some(false) {
            self.set("enabled", false);
        }
    }

    /// A time limit that was given in thousandths of a second.
    pub(super) fn set_milliseconds(&mut self, key: &str, value: Option<&Value>) {
        if let Some(milliseconds) = value.and_then(Value::as_f64) {
            self.set_seconds(key, milliseconds / 1000.0);
        }
    }

    /// A time limit in seconds, whole where possible.
    pub(super) fn set_seconds(&mut self, key: &str, seconds: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and small, as just checked"
        )]
        let number = if seconds.fract() == 0.0 && seconds.abs() < 1e9 {
            Some(Number::from(seconds as i64))
        } else {
            Number::from_f64(seconds)
        };
        match number {
            Some(number) if seconds > 0.0 => self.set(key, number),
            _ => self
                .notes
                .push(format!("`{key}` is not a valid timeout and was left out")),
        }
    }

    /// `tools.include` and `tools.exclude`. With both given elsewhere, the second narrows the first; ours does not.
    pub(super) fn set_tools(&mut self, include: Option<Vec<String>>, exclude: &[String]) {
        if let Some(mut include) = include {
            include.retain(|tool| !exclude.contains(tool));
            self.set("tools", json!({"include": include}));
        } else if !exclude.is_empty() {
            self.set("tools", json!({"exclude": exclude}));
        }
    }

    /// A pre-registered OAuth client, under whichever of the usual names.
    pub(super) fn set_oauth(&mut self, given: &Map<String, Value>) {
        let text = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| given.get(*name).and_then(text_of))
        };
        let mut oauth = Map::new();
        for (key, names) in [
            ("client_id", ["clientId", "client_id", "CLIENT_ID"]),
            (
                "client_secret",
                ["clientSecret", "client_secret", "CLIENT_SECRET"],
            ),
            ("scope", ["scope", "scopes", "SCOPE"]),
            (
                "redirect_uri",
                ["redirectUri", "redirect_uri", "REDIRECT_URI"],
            ),
        ] {
            if let Some(text) = text(&names) {
                oauth.insert(key.to_owned(), text.into());
            }
        }
        if let Some(Value::Array(scopes)) = given.get("scopes") {
            let scopes: Vec<_> = scopes.iter().filter_map(text_of).collect();
            oauth.insert("scope".to_owned(), scopes.join(" ").into());
        }
        let port = ["callbackPort", "callback_port"]
            .iter()
            .find_map(|name| given.get(*name));
        if let Some(port) = port.and_then(Value::as_u64) {
            oauth.insert("redirect_port".to_owned(), port.into());
        }
        self.set("auth", "oauth");
        if !oauth.is_empty() {
            self.set("oauth", oauth);
        }
    }

    /// Notes what was given and has no place in our entry.
    pub(super) fn note_what_is_left(&mut self) {
        let left: Vec<_> = self.given.keys().map(|key| format!("`{key}`")).collect();
        if !left.is_empty() {
            self.notes
                .push(format!("not carried over: {}", left.join(", ")));
        }
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
