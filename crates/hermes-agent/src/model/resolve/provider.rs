//! Resolved providers: URL, protocol, and the keys that may be sent there.

use hermes_config::{ApiMode, ModelChoice, ProviderSettings, Settings};
use serde_json::{Map, Value};
use url::Url;

use super::{
    ResolveError,
    keys::{KeySource, key_sources},
};
use crate::model::{
    Protocol, endpoint,
    providers::{
        table,
        table::{PROVIDERS, ProviderRow},
    },
};

#[derive(Debug)]
pub(in crate::model) struct ResolvedProvider {
    pub(in crate::model) name: String,
    pub(in crate::model) protocol: Protocol,
    pub(in crate::model) base_url: Url,
    pub(super) base_source: BaseSource,
    /// The model used when none is named.
    pub(super) model: Option<String>,
    pub(super) context_length: Option<u32>,
    pub(super) vision: Option<bool>,
    pub(super) extra_body: Map<String, Value>,
    /// Keys for this URL, the preferred one first.
    pub(super) keys: Vec<KeySource>,
    pub(super) needs_key: bool,
}

/// Who says where a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BaseSource {
    /// The model's entry, or this run.
    Choice,
    Entry,
    Variable(&'static str),
    Table,
}

/// Whether two names mean the same provider.
pub(super) fn same_provider(a: &str, b: &str) -> bool {
    let (a, b) = (strip_custom_prefix(a), strip_custom_prefix(b));
    let name = |row: Option<&ProviderRow>| row.map(|row| row.name);
    a.eq_ignore_ascii_case(b)
        || match (name(table::find_row(a)), name(table::find_row(b))) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
}

/// A provider's name without the prefix `custom:`.
fn strip_custom_prefix(name: &str) -> &str {
    let name = name.trim();
    match name.get(..7) {
        Some(prefix) if prefix.eq_ignore_ascii_case("custom:") => &name[7..],
        _ => name,
    }
}

fn parse_base_url(text: &str, provider: &str) -> Result<Url, ResolveError> {
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
}

/// The provider that a choice names, by name or by URL; `None` if it names neither.
pub(in crate::model) fn resolve_stated(
    settings: &Settings,
    choice: &ModelChoice,
) -> Result<Option<ResolvedProvider>, ResolveError> {
    let written = choice.base_url.as_deref();
    let name = match (choice.provider.as_deref().map(strip_custom_prefix), written) {
        (Some(name), _) if !name.eq_ignore_ascii_case("custom") => name,
        (_, Some(text)) => provider_for_url(settings, &parse_base_url(text, "custom")?),
        (Some(name), None) => name,
        (None, None) => return Ok(None),
    };
    let entry = find_entry(settings, name);
    let row = table::find_row(name);
    // A configured entry keeps the user's own name for it.
    let name = row.filter(|_| entry.is_none()).map_or(name, |row| row.name);
    if entry.is_none() && row.is_none() && written.is_none() {
        return Err(unknown_provider_error(settings, name));
    }
    let of_variable = row.and_then(|row| row.variable_address(&settings.variables));
    let of_entry = entry.and_then(|entry| entry.choice.base_url.as_deref());
    let of_table = row
        .map(|row| row.base_url)
        .filter(|address| !address.is_empty());
    let (text, base_source) = match (written, of_entry, &of_variable, row) {
        (Some(text), ..) => (text, BaseSource::Choice),
        (None, Some(text), ..) => (text, BaseSource::Entry),
        (None, None, Some(text), Some(row)) => (&**text, BaseSource::Variable(row.base_variable)),
        _ => match of_table {
            Some(text) => (text, BaseSource::Table),
            None => return Err(no_base_url_error(name, row)),
        },
    };
    let base_url = parse_base_url(text, name)?;

    // A key in the same entry is meant for this URL. All other keys are only sent to their own host.
    let mut keys = key_sources(choice, "beside the model");
    if let Some((entry, own)) = entry.zip(of_entry.or(of_table))
        && same_host(&parse_base_url(own, name)?, &base_url)
    {
        let of = format!("of the provider `{}`", entry.name);
        keys.extend(key_sources(&entry.choice, &of));
    }
    let is_named = !keys.is_empty();
    let is_own = row.is_some_and(|row| is_own_host(row, of_variable.as_deref(), &base_url));
    if let Some(row) = row.filter(|_| is_own) {
        let variables = row.keys.iter().map(|&key| key.to_owned());
        keys.extend(variables.map(KeySource::Variable));
    }
    let entry_choice = entry.map(|entry| &entry.choice);
    let is_its_model = |entry: &&ModelChoice| choice.name.is_none() || choice.name == entry.name;
    let mut extra_body = entry_choice.map_or_else(Map::new, |entry| entry.extra_body.clone());
    extra_body.extend(choice.extra_body.clone());
    Ok(Some(ResolvedProvider {
        name: name.to_owned(),
        protocol: choose_protocol(choice, entry_choice, row, &base_url),
        model: entry_choice.and_then(|entry| entry.name.clone()),
        context_length: entry_choice
            .filter(is_its_model)
            .and_then(|entry| entry.context_length),
        vision: entry_choice
            .filter(is_its_model)
            .and_then(|entry| entry.vision),
        base_url,
        base_source,
        extra_body,
        needs_key: is_named || is_own && row.is_some_and(|row| row.needs_key),
        keys,
    }))
}

/// Whether the keys of a row may be sent to a URL: its own domain, or what its own variable names. Not over plain HTTP,
/// except in the local network.
fn is_own_host(row: &ProviderRow, of_variable: Option<&str>, base_url: &Url) -> bool {
    let is_private = base_url.scheme() == "https" || endpoint::is_local(base_url);
    let is_of_variable = of_variable
        .and_then(|text| Url::parse(text).ok())
        .is_some_and(|own| same_host(&own, base_url));
    let is_of_house = row.is_local() && endpoint::is_loopback(base_url);
    is_private && (is_of_variable || is_of_house || row.owns_url(base_url))
}

fn choose_protocol(
    choice: &ModelChoice,
    entry: Option<&ModelChoice>,
    row: Option<&ProviderRow>,
    base_url: &Url,
) -> Protocol {
    let mode = choice
        .api_mode
        .or_else(|| entry.and_then(|entry| entry.api_mode));
    // Several providers offer Anthropic's protocol besides their own, at such a URL.
    let path = base_url.path().trim_end_matches('/');
    let is_such = path.ends_with("/anthropic") || path.ends_with("/anthropic/v1");
    match (mode, row) {
        (Some(ApiMode::AnthropicMessages), _) => Protocol::AnthropicMessages,
        (None, Some(row)) if row.name == "anthropic" => row.protocol,
        (None, _) if is_such => Protocol::AnthropicMessages,
        (Some(ApiMode::ChatCompletions) | None, _) => Protocol::ChatCompletions,
    }
}

pub(super) fn find_entry<'s>(settings: &'s Settings, name: &str) -> Option<&'s ProviderSettings> {
    settings
        .providers
        .iter()
        .find(|entry| entry.name.eq_ignore_ascii_case(name))
}

fn provider_for_url<'s>(settings: &'s Settings, url: &Url) -> &'s str {
    let configured = settings.providers.iter().find(|entry| {
        let own = entry.choice.base_url.as_deref();
        own.and_then(|own| Url::parse(own).ok())
            .is_some_and(|own| same_host(&own, url))
    });
    match (configured, table::row_for_url(url)) {
        (Some(entry), _) => &entry.name,
        (None, Some(row)) => row.name,
        (None, None) => "custom",
    }
}

fn same_host(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

/// Why a name is not a usable provider.
fn unknown_provider_error(settings: &Settings, name: &str) -> ResolveError {
    if name.eq_ignore_ascii_case("custom") {
        return no_base_url_error(name, None);
    }
    if let Some(later) = table::unsupported_provider(name) {
        return ResolveError::Unsupported {
            provider: later.to_owned(),
        };
    }
    let built_in = PROVIDERS.iter().map(|row| row.name);
    let configured = settings.providers.iter().map(|entry| entry.name.as_str());
    ResolveError::UnknownProvider {
        name: name.to_owned(),
        known: built_in
            .chain(configured)
            .map(|name| format!("`{name}`"))
            .collect(),
    }
}

fn no_base_url_error(name: &str, row: Option<&ProviderRow>) -> ResolveError {
    let variable = row.map(|row| row.base_variable);
    ResolveError::NoBaseUrl {
        provider: name.to_owned(),
        variable: variable.filter(|name| !name.is_empty()).map(str::to_owned),
    }
}

/// The context size of well-known models. Local servers decide it themselves.
pub(super) fn known_context_length(base_url: &Url, model: &str) -> Option<u32> {
    const KNOWN_CONTEXTS: [(&str, u32); 13] = [
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
    if endpoint::is_local(base_url) {
        return None;
    }
    let name = model.rsplit('/').next().unwrap_or(model);
    KNOWN_CONTEXTS
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map(|(_, length)| *length)
}
