//! Finds the key of a provider: in the configuration, in a variable, or as a secret under the variable's name.

use hermes_config::{ModelChoice, ReferenceError, ReferenceTemplate, Secret, SecretStore};

use super::{ResolveContext, ResolveError};
use crate::model::{ApiKey, providers::table::ProviderRow, resolve::provider::ResolvedProvider};

#[derive(Debug, Clone)]
pub(super) enum KeySource {
    /// A variable, or a stored secret of that name.
    Variable(String),
    /// `api_key` in the configuration.
    Written {
        of: String,
        template: ReferenceTemplate,
    },
}

impl KeySource {
    fn describe(&self) -> String {
        match self {
            Self::Variable(name) => format!("`{name}`"),
            Self::Written { of, .. } => format!("`api_key` {of} in `config.yaml`"),
        }
    }
}

/// The keys in the entry of a choice.
pub(super) fn key_sources(choice: &ModelChoice, of: &str) -> Vec<KeySource> {
    let variable = choice.key_env.clone().map(KeySource::Variable);
    let written = choice.api_key.clone().map(|template| KeySource::Written {
        of: of.to_owned(),
        template,
    });
    variable.into_iter().chain(written).collect()
}

impl ResolveContext<'_> {
    /// Whether a built-in provider is usable: its key is set, or none is needed.
    pub(super) fn has_key(&self, row: &ProviderRow) -> bool {
        row.is_local()
            || row.keys.iter().any(|name| self.variable(name).is_some())
            || row.keys.iter().any(|name| self.is_stored_secret(name))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.settings.variables.get(name).map(str::trim);
        value.filter(|value| !value.is_empty())
    }

    /// The key in a variable, or in the stored secret of that name.
    pub(crate) async fn find_named_key(
        &self,
        name: &str,
    ) -> Result<Option<Secret<String>>, ReferenceError> {
        match self.variable(name) {
            Some(key) => Ok(Some(key.to_owned().into())),
            None if self.is_stored_secret(name) => {
                let template = ReferenceTemplate::new(format!("${{keyring:{name}}}"));
                self.fill_key(name, &template).await
            }
            None => Ok(None),
        }
    }

    /// Fills in a key on a blocking thread, since it may run a command. `setting` is what errors call it.
    pub(crate) async fn fill_key(
        &self,
        setting: &str,
        template: &ReferenceTemplate,
    ) -> Result<Option<Secret<String>>, ReferenceError> {
        let (setting, template) = (setting.to_owned(), template.clone());
        let (home, variables) = (self.home.clone(), self.settings.variables.clone());
        let policy = self.references.clone();
        let filled = tokio::task::spawn_blocking(move || {
            template.fill(&setting, &home, &variables, &policy)
        });
        // Without a result the runtime is shutting down.
        filled.await.unwrap_or(Ok(None))
    }

    /// Whether `hermes secret set` stored a secret of that name. Only the list of names is read.
    fn is_stored_secret(&self, name: &str) -> bool {
        let kept = SecretStore::file_only(self.home).list();
        kept.is_ok_and(|kept| kept.iter().any(|(known, _)| known == name))
    }
}

impl ResolvedProvider {
    /// The variable for the key, if one is named.
    pub(in crate::model) fn key_variable(&self) -> Option<&str> {
        self.keys.iter().find_map(|source| match source {
            KeySource::Variable(name) => Some(name.as_str()),
            KeySource::Written { .. } => None,
        })
    }

    pub(in crate::model) async fn resolve_key(
        &self,
        context: &ResolveContext<'_>,
    ) -> Result<ApiKey, ResolveError> {
        for source in &self.keys {
            let (value, provider) = match source {
                KeySource::Variable(name) => match context.variable(name) {
                    Some(key) => (Some(key.to_owned().into()), source.describe()),
                    None if context.is_stored_secret(name) => {
                        let template = ReferenceTemplate::new(format!("${{keyring:{name}}}"));
                        let kept = self.resolve_template(context, &template).await?;
                        (kept, format!("`{name}`, kept by `hermes secret`"))
                    }
                    None => continue,
                },
                KeySource::Written { template, .. } => (
                    self.resolve_template(context, template).await?,
                    source.describe(),
                ),
            };
            if value.is_some() {
                return Ok(ApiKey {
                    value,
                    source: provider,
                });
            }
        }
        let provider = if self.keys.is_empty() {
            "`key_env` or `api_key` of its entry in `config.yaml`".to_owned()
        } else {
            let sources: Vec<_> = self.keys.iter().map(KeySource::describe).collect();
            sources.join(" or ")
        };
        if self.needs_key {
            return Err(ResolveError::NoKey {
                provider: self.name.clone(),
                place: provider,
                variable: self.key_variable().map(str::to_owned),
            });
        }
        Ok(ApiKey {
            value: None,
            source: provider,
        })
    }

    async fn resolve_template(
        &self,
        context: &ResolveContext<'_>,
        template: &ReferenceTemplate,
    ) -> Result<Option<Secret<String>>, ResolveError> {
        let filled = context.fill_key("api_key", template).await;
        filled.map_err(|error| ResolveError::Reference {
            provider: self.name.clone(),
            error,
        })
    }
}
