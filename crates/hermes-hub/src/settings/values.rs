//! The known keys, their values from all sources, and typed access to them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    str::FromStr,
};

use hermes_config::{Home, ReferencePolicy, ReferenceTemplate, Variables, nearest};
use serde_json::Value;

use super::{ModelPrice, SettingsError, invalid_value};
use crate::api_types::Role;

const ENV_PREFIX: &str = "HERMES_HUB_";
/// Variables with this prefix that belong to the command line.
const CLIENT_VARIABLES: [&str; 2] = ["URL", "TOKEN"];
/// The known keys, dotted as they are nested in the file.
pub(super) const KEYS: [&str; 73] = [
    "listen",
    "public_url",
    "data_dir",
    "tls.cert",
    "tls.key",
    "trust_proxy",
    "insecure_http",
    "allowed_hosts",
    "allowed_origins",
    "database.url",
    "database.listen_url",
    "database.max_connections",
    "database.timeout_seconds",
    "objects.url",
    "objects.endpoint",
    "objects.region",
    "objects.allow_http",
    "objects.access_key_id",
    "objects.secret_access_key",
    "secrets.key_file",
    "admin_token_file",
    "runtime",
    "isolation.mode",
    "isolation.memory",
    "isolation.pids",
    "isolation.cpu",
    "isolation.uid_range",
    "isolation.read_paths",
    "agent.idle_stop_seconds",
    "runs.max_concurrent",
    "runs.queue_depth",
    "runs.max_minutes",
    "runs.retention_days",
    "limits.body_bytes",
    "limits.read_bytes",
    "limits.write_bytes",
    "limits.list_entries",
    "limits.rps_per_token",
    "limits.burst",
    "limits.auth_failures_per_minute",
    "mcp.enabled",
    "mcp.tools",
    "mcp.read_only",
    "mcp.session_idle_seconds",
    "mcp.sessions_per_token",
    "sync.allowed_roots",
    "sync.sources",
    "tenants.restore_days",
    "tenants.trash_days",
    "audit.rest_reads",
    "audit.retention_days",
    "metrics.listen",
    "metrics.per_tenant",
    "telemetry.endpoint",
    "telemetry.headers",
    "telemetry.sample_ratio",
    "telemetry.service_name",
    "node.id",
    "node.lease_seconds",
    "node.capacity",
    "shutdown.drain_seconds",
    "backup.schedule",
    "backup.keep",
    "backup.path",
    "events.retention_days",
    "webhooks.allow_private",
    "usage.prices",
    "oidc.issuer",
    "oidc.client_id",
    "oidc.client_secret",
    "oidc.scopes",
    "oidc.groups_claim",
    "oidc.roles",
];

#[derive(Debug, Clone, Default)]
pub(super) struct SettingValues(BTreeMap<&'static str, Value>);

impl SettingValues {
    pub(super) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn merge_environment(
        &mut self,
        environment: &BTreeMap<String, String>,
    ) -> Result<(), SettingsError> {
        for (name, value) in environment {
            let Some(rest) = name
                .strip_prefix(ENV_PREFIX)
                .filter(|rest| !CLIENT_VARIABLES.contains(rest))
            else {
                continue;
            };
            let key =
                known_key(&rest.to_lowercase().replace("__", ".")).map_err(
                    |error| match error {
                        SettingsError::UnknownKey { nearest, .. } => SettingsError::UnknownKey {
                            key: name.clone(),
                            nearest: nearest.map(|key| {
                                format!("{ENV_PREFIX}{}", key.to_uppercase().replace('.', "__"))
                            }),
                        },
                        other => other,
                    },
                )?;
            self.0.insert(key, value.as_str().into());
        }
        Ok(())
    }

    pub(super) fn merge_flags(
        &mut self,
        flags: &BTreeMap<String, String>,
    ) -> Result<(), SettingsError> {
        for (key, value) in flags {
            self.0.insert(known_key(key)?, value.as_str().into());
        }
        Ok(())
    }

    pub(super) fn merge_document(&mut self, document: &Value) -> Result<(), SettingsError> {
        let Value::Object(members) = document else {
            return Err(invalid_value(
                "hub.yaml",
                "must be a mapping of keys to values",
            ));
        };
        for (key, value) in members {
            self.merge_member(key, value)?;
        }
        Ok(())
    }

    fn merge_member(&mut self, key: &str, value: &Value) -> Result<(), SettingsError> {
        if let Some(known) = KEYS.into_iter().find(|known| *known == key) {
            if !value.is_null() {
                self.0.insert(known, value.clone());
            }
            return Ok(());
        }
        let group = format!("{key}.");
        match value {
            _ if !KEYS.iter().any(|known| known.starts_with(&group)) => Err(unknown_key(key)),
            Value::Null => Ok(()),
            Value::Object(members) => members
                .iter()
                .try_for_each(|(name, value)| self.merge_member(&format!("{key}.{name}"), value)),
            _ => Err(invalid_value(key, "must be a mapping")),
        }
    }

    /// Resolves `${…}`. A reference without a value is an error.
    pub(super) fn resolve_references(
        &mut self,
        directory: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<(), SettingsError> {
        let home = Home::at(directory);
        let variables = Variables::from_pairs(environment.clone());
        let fill = |key: &str, text: &mut String| {
            if !text.contains("${") {
                return Ok(());
            }
            let filled = ReferenceTemplate::new(text.as_str()).fill(
                key,
                &home,
                &variables,
                &ReferencePolicy::owner(),
            );
            match filled {
                Ok(Some(value)) => value.expose().clone_into(text),
                Ok(None) => return Err(invalid_value(key, "a reference in it has no value")),
                Err(error) => return Err(invalid_value(key, error.to_string())),
            }
            Ok(())
        };
        for (key, value) in &mut self.0 {
            match value {
                Value::String(text) => fill(key, text)?,
                Value::Array(items) => {
                    for item in items {
                        if let Value::String(text) = item {
                            fill(key, text)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, SettingsError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => {
                Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
            }
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Some(_) => Err(invalid_value(key, "must be a text")),
        }
    }

    pub(super) fn path(&self, key: &str) -> Result<Option<PathBuf>, SettingsError> {
        Ok(self.text(key)?.map(PathBuf::from))
    }

    pub(super) fn parsed<T: FromStr>(
        &self,
        key: &str,
        what: &str,
    ) -> Result<Option<T>, SettingsError> {
        self.text(key)?
            .map(|text| {
                text.parse()
                    .map_err(|_| invalid_value(key, format!("`{text}` is not {what}")))
            })
            .transpose()
    }

    pub(super) fn count<T: TryFrom<u64>>(
        &self,
        key: &str,
        default: u64,
    ) -> Result<T, SettingsError> {
        let number = self.parsed(key, "a whole number")?.unwrap_or(default);
        T::try_from(number).map_err(|_| invalid_value(key, format!("{number} is too large")))
    }

    pub(super) fn size<T: TryFrom<u64>>(
        &self,
        key: &str,
        default: u64,
    ) -> Result<T, SettingsError> {
        let size = match self.text(key)? {
            None => default,
            Some(text) => parse_size(&text).ok_or_else(|| {
                invalid_value(key, format!("`{text}` is not a size such as `16 MiB`"))
            })?,
        };
        T::try_from(size).map_err(|_| invalid_value(key, format!("{size} is too large")))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, SettingsError> {
        match self.text(key)?.map(|text| text.to_lowercase()).as_deref() {
            None => Ok(None),
            Some("true" | "yes" | "on" | "1") => Ok(Some(true)),
            Some("false" | "no" | "off" | "0") => Ok(Some(false)),
            Some(_) => Err(invalid_value(key, "must be `true` or `false`")),
        }
    }

    /// A list; comma-separated in a variable or flag.
    pub(super) fn list(&self, key: &str) -> Result<Option<Vec<String>>, SettingsError> {
        let split = |text: &str| {
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()
        };
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(split(text))),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| {
                    item.as_str()
                        .map(str::to_owned)
                        .ok_or_else(|| invalid_value(key, "must be a list of texts"))
                })
                .collect::<Result<_, _>>()
                .map(Some),
            Some(_) => Err(invalid_value(key, "must be a list of texts")),
        }
    }

    /// Prices by model; a variable has them as JSON.
    pub(super) fn prices(&self, key: &str) -> Result<BTreeMap<String, ModelPrice>, SettingsError> {
        let wrong = |model: &str| {
            let reason = format!(
                "`{model}` must have `input` and `output`, and may have `cached`: prices of a million tokens"
            );
            invalid_value(key, reason)
        };
        let document = match self.0.get(key) {
            Some(Value::String(text)) => serde_json::from_str(text)
                .map_err(|_| invalid_value(key, "must be a mapping of models to prices"))?,
            other => other.cloned().unwrap_or_default(),
        };
        let models = match document {
            Value::Null => return Ok(BTreeMap::new()),
            Value::Object(models) => models,
            _ => return Err(invalid_value(key, "must be a mapping of models to prices")),
        };
        let mut prices = BTreeMap::new();
        for (model, given) in models {
            let members = given.as_object().ok_or_else(|| wrong(&model))?;
            let known = ["input", "output", "cached"];
            let price = |name: &str| match members.get(name) {
                None => Ok(None),
                Some(value) => match value.as_f64() {
                    Some(price) if price.is_finite() && price >= 0.0 => Ok(Some(price)),
                    _ => Err(wrong(&model)),
                },
            };
            if members.keys().any(|name| !known.contains(&name.as_str())) {
                return Err(wrong(&model));
            }
            let input = price("input")?.ok_or_else(|| wrong(&model))?;
            let found = ModelPrice {
                input,
                output: price("output")?.ok_or_else(|| wrong(&model))?,
                cached: price("cached")?.unwrap_or(input),
            };
            prices.insert(model, found);
        }
        Ok(prices)
    }

    /// Roles by group; a variable has them as JSON.
    pub(super) fn roles(&self, key: &str) -> Result<BTreeMap<String, Role>, SettingsError> {
        let wrong = || {
            let reason = "must be a mapping of groups to `viewer`, `operator` or `admin`";
            invalid_value(key, reason)
        };
        let document = match self.0.get(key) {
            Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| wrong())?,
            other => other.cloned().unwrap_or_default(),
        };
        let groups = match document {
            Value::Null => return Ok(BTreeMap::new()),
            Value::Object(groups) => groups,
            _ => return Err(wrong()),
        };
        let roles = groups.into_iter().map(|(group, role)| {
            let role = role.as_str().and_then(Role::from_word);
            role.map(|role| (group, role)).ok_or_else(wrong)
        });
        roles.collect()
    }

    /// One of some words, by default the first.
    pub(super) fn one_of<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<T, SettingsError> {
        let written = self.text(key)?;
        let word = written.as_deref().unwrap_or(words[0].0);
        words
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| {
                let names: Vec<_> = words.iter().map(|(name, _)| format!("`{name}`")).collect();
                invalid_value(key, format!("must be one of {}", names.join(", ")))
            })
    }
}

fn known_key(key: &str) -> Result<&'static str, SettingsError> {
    KEYS.into_iter()
        .find(|known| *known == key)
        .ok_or_else(|| unknown_key(key))
}

fn unknown_key(key: &str) -> SettingsError {
    SettingsError::UnknownKey {
        key: key.to_owned(),
        nearest: nearest(key, KEYS.into_iter().map(str::to_owned)),
    }
}

/// Parses sizes such as `16 MiB`, `512k`, `1048576`.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|digit: char| !digit.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.checked_mul(1 << unit)
}
