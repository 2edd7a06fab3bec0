//! Providers: where each is, what it speaks, and which key is for it alone.

use hermes_config::{ApiMode, ModelChoice, ProviderSettings, Settings, Template, Variables};
use serde_json::{Map, Value};
use url::Url;

use super::{ResolveError, Surroundings};
use crate::model::{Key, Protocol, address};

/// A provider that needs no configuration but a key.
pub(in crate::model) struct BuiltIn {
    pub(in crate::model) name: &'static str,
    base_url: &'static str,
    /// The only domain its key is sent to.
    domain: &'static str,
    /// The variable that holds the key.
    pub(super) variable: &'static str,
    protocol: Protocol,
}

pub(in crate::model) const BUILT_IN: [BuiltIn; 3] = [
    BuiltIn {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        domain: "api.openai.com",
        variable: "OPENAI_API_KEY",
        protocol: Protocol::ChatCompletions,
    },
    BuiltIn {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        domain: "openrouter.ai",
        variable: "OPENROUTER_API_KEY",
        protocol: Protocol::ChatCompletions,
    },
    BuiltIn {
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        domain: "api.anthropic.com",
        variable: "ANTHROPIC_API_KEY",
        protocol: Protocol::AnthropicMessages,
    },
];

/// A provider with its address settled.
pub(in crate::model) struct Place {
    pub(in crate::model) provider: String,
    pub(in crate::model) protocol: Protocol,
    pub(in crate::model) base_url: Url,
    /// The model used when none is named.
    pub(super) model: Option<String>,
    pub(super) context_length: Option<u32>,
    pub(super) extra_body: Map<String, Value>,
    /// Keys that belong to this address, the preferred one first.
    keys: Vec<KeySource>,
    /// Whether nothing works without one.
    needs_key: bool,
}

/// Where a key may come from.
#[derive(Clone)]
enum KeySource {
    Variable(String),
    Written { of: String, template: Template },
}

impl KeySource {
    fn place(&self) -> String {
        match self {
            Self::Variable(name) => format!("`{name}`"),
            Self::Written { of, .. } => format!("`api_key` {of} in `config.yaml`"),
        }
    }
}

fn key_sources(choice: &ModelChoice, of: &str) -> Vec<KeySource> {
    let variable = choice.key_env.clone().map(KeySource::Variable);
    let written = choice.api_key.clone().map(|template| KeySource::Written {
        of: of.to_owned(),
        template,
    });
    variable.into_iter().chain(written).collect()
}

/// Whether two names mean the same provider.
pub(super) fn same_provider(a: &str, b: &str) -> bool {
    plain(a).eq_ignore_ascii_case(plain(b))
}

/// A provider's name without the `custom:` that may stand before it.
fn plain(name: &str) -> &str {
    let name = name.trim();
    match name.get(..7) {
        Some(prefix) if prefix.eq_ignore_ascii_case("custom:") => &name[7..],
        _ => name,
    }
}

/// The place a choice names, by provider or by address; `None` if it names neither.
pub(in crate::model) fn stated(
    settings: &Settings,
    choice: &ModelChoice,
) -> Result<Option<Place>, ResolveError> {
    let address = |text: &str, provider: &str| {
        Url::parse(text)
            .map_err(|error| error.to_string())
            .and_then(|url| match (url.scheme(), url.host()) {
                ("http" | "https", Some(_)) => Ok(url),
                _ => Err("it has to begin with `http://` or `https://`".to_owned()),
            })
            .map_err(|reason| ResolveError::BadBaseUrl {
                provider: provider.to_owned(),
                reason,
            })
    };
    let written = choice.base_url.as_deref();
    let name = match (choice.provider.as_deref().map(plain), written) {
        (Some(name), _) if !name.eq_ignore_ascii_case("custom") => name,
        (_, Some(text)) => by_address(settings, &address(text, "custom")?),
        (Some(name), None) => name,
        (None, None) => return Ok(None),
    };
    let entry = entry(settings, name);
    let built_in = built_in(name);
    if entry.is_none() && built_in.is_none() && written.is_none() {
        return Err(if name.eq_ignore_ascii_case("custom") {
            ResolveError::NoBaseUrl {
                provider: name.to_owned(),
            }
        } else {
            unknown(settings, name)
        });
    }
    let own_address = entry
        .and_then(|entry| entry.choice.base_url.as_deref())
        .or(built_in.map(|known| known.base_url));
    let text = written
        .or(own_address)
        .ok_or_else(|| ResolveError::NoBaseUrl {
            provider: name.to_owned(),
        })?;
    let base_url = address(text, name)?;

    // What is written beside the address is meant for it. All other keys stay with their own host.
    let mut keys = key_sources(choice, "beside the model");
    let is_own_host = match own_address.map(|text| address(text, name)).transpose()? {
        Some(own) => same_host(&own, &base_url),
        None => false,
    };
    if let Some(entry) = entry.filter(|_| is_own_host) {
        keys.extend(key_sources(
            &entry.choice,
            &format!("of the provider `{}`", entry.name),
        ));
    }
    let is_built_in_host = built_in.is_some_and(|known| {
        base_url.scheme() == "https" && address::is_of_domain(&base_url, known.domain)
    });
    if let Some(known) = built_in.filter(|_| is_built_in_host) {
        keys.push(KeySource::Variable(known.variable.to_owned()));
    }
    let entry_choice = entry.map(|entry| &entry.choice);
    let mut extra_body = entry_choice.map_or_else(Map::new, |entry| entry.extra_body.clone());
    extra_body.extend(choice.extra_body.clone());
    Ok(Some(Place {
        provider: name.to_owned(),
        protocol: protocol(choice, entry_choice, built_in, &base_url),
        model: entry_choice.and_then(|entry| entry.name.clone()),
        context_length: entry_choice
            .filter(|entry| choice.name.is_none() || choice.name == entry.name)
            .and_then(|entry| entry.context_length),
        base_url,
        extra_body,
        needs_key: is_built_in_host || !keys.is_empty(),
        keys,
    }))
}

fn protocol(
    choice: &ModelChoice,
    entry: Option<&ModelChoice>,
    built_in: Option<&BuiltIn>,
    base_url: &Url,
) -> Protocol {
    let mode = choice
        .api_mode
        .or_else(|| entry.and_then(|entry| entry.api_mode));
    match (mode, built_in) {
        (Some(ApiMode::AnthropicMessages), _) => Protocol::AnthropicMessages,
        (None, Some(known)) => known.protocol,
        // Several providers offer Anthropic's protocol beside their own, at such an address.
        (None, None)
            if base_url
                .path()
                .trim_end_matches('/')
                .ends_with("/anthropic") =>
        {
            Protocol::AnthropicMessages
        }
        (Some(ApiMode::ChatCompletions), _) | (None, None) => Protocol::ChatCompletions,
    }
}

fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
}

fn entry<'s>(settings: &'s Settings, name: &str) -> Option<&'s ProviderSettings> {
    settings
        .providers
        .iter()
        .find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// The provider whose address this is.
fn by_address<'s>(settings: &'s Settings, url: &Url) -> &'s str {
    let configured = settings.providers.iter().find(|entry| {
        let own = entry.choice.base_url.as_deref();
        own.and_then(|own| Url::parse(own).ok())
            .is_some_and(|own| same_host(&own, url))
    });
    let built_in = BUILT_IN
        .iter()
        .find(|known| address::is_of_domain(url, known.domain));
    match (configured, built_in) {
        (Some(entry), _) => &entry.name,
        (None, Some(known)) => known.name,
        (None, None) => "custom",
    }
}

fn same_host(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

fn unknown(settings: &Settings, name: &str) -> ResolveError {
    let built_in = BUILT_IN.iter().map(|known| known.name);
    let configured = settings.providers.iter().map(|entry| entry.name.as_str());
    ResolveError::UnknownProvider {
        name: name.to_owned(),
        known: built_in
            .chain(configured)
            .map(|name| format!("`{name}`"))
            .collect(),
    }
}

/// The built-in provider that a model's name points to.
pub(super) fn guess(model: &str, variables: &Variables, among: Among) -> Option<Place> {
    let starts = |words: &[&str]| words.iter().any(|word| model.starts_with(word));
    // `gpt-oss:20b` and its like are names of local models.
    let name = if model.contains('/') {
        "openrouter"
    } else if starts(&["claude"]) {
        "anthropic"
    } else if starts(&["gpt-", "chatgpt-", "o1", "o3", "o4"]) && !model.contains(':') {
        "openai"
    } else {
        return None;
    };
    let known = built_in(name)?;
    let has_key = variables
        .get(known.variable)
        .is_some_and(|key| !key.trim().is_empty());
    if among == Among::WithKey && !has_key {
        return None;
    }
    Some(Place {
        provider: known.name.to_owned(),
        protocol: known.protocol,
        base_url: Url::parse(known.base_url).ok()?,
        model: None,
        context_length: None,
        extra_body: Map::new(),
        keys: vec![KeySource::Variable(known.variable.to_owned())],
        needs_key: true,
    })
}

/// Which providers a guess may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// Those whose key is set.
    WithKey,
    /// All of them.
    All,
}

impl Place {
    /// The variable that is to hold the key, where one is named.
    pub(in crate::model) fn variable(&self) -> Option<&str> {
        self.keys.iter().find_map(|source| match source {
            KeySource::Variable(name) => Some(name.as_str()),
            KeySource::Written { .. } => None,
        })
    }

    /// The key for this place.
    pub(in crate::model) async fn key(
        &self,
        around: &Surroundings<'_>,
    ) -> Result<Key, ResolveError> {
        for source in &self.keys {
            let value = match source {
                KeySource::Variable(name) => around
                    .settings
                    .variables
                    .get(name)
                    .map(str::trim)
                    .filter(|key| !key.is_empty())
                    .map(|key| key.to_owned().into()),
                KeySource::Written { template, .. } => self.fill(around, template).await?,
            };
            if value.is_some() {
                return Ok(Key {
                    value,
                    place: source.place(),
                });
            }
        }
        let place = match self.keys.first() {
            Some(source) => source.place(),
            None => "`key_env` or `api_key` of its entry in `config.yaml`".to_owned(),
        };
        if self.needs_key {
            return Err(ResolveError::NoKey {
                provider: self.provider.clone(),
                place,
            });
        }
        Ok(Key { value: None, place })
    }

    /// Fills in a key on a thread where a command may take its time.
    async fn fill(
        &self,
        around: &Surroundings<'_>,
        template: &Template,
    ) -> Result<Option<hermes_config::Secret<String>>, ResolveError> {
        let (template, home) = (template.clone(), around.home.clone());
        let (variables, policy) = (around.settings.variables.clone(), around.references.clone());
        let filled = tokio::task::spawn_blocking(move || {
            template.fill("api_key", &home, &variables, &policy)
        });
        match filled.await {
            Ok(filled) => filled.map_err(|error| ResolveError::Reference {
                provider: self.provider.clone(),
                error,
            }),
            // The runtime is going down.
            Err(_) => Ok(None),
        }
    }
}

/// The context of well-known models. Servers nearby decide themselves how much they hold.
pub(super) fn known_context_length(base_url: &Url, model: &str) -> Option<u32> {
    const KNOWN: [(&str, u32); 13] = [
        ("claude", 200_000),
        ("gpt-5", 400_000),
        ("gpt-4.1", 1_047_576),
        ("gpt-4o", 128_000),
        ("gpt-4-turbo", 128_000),
        ("gpt-4", 8_192),
        ("gpt-3.5", 16_385),
        ("o1", 200_000),
        ("o3", 200_000),
        ("o4", 200_000),
        ("gemini-2", 1_048_576),
        ("gemini-3", 1_048_576),
        ("deepseek", 128_000),
    ];
    if address::is_local(base_url) {
        return None;
    }
    let name = model.rsplit('/').next().unwrap_or(model);
    KNOWN
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map(|(_, length)| *length)
}
