//! The model of a chat: what it is, and another one.

use hermes_agent::model::ModelOverrides;
use hermes_config::{ConfigFile, ConfigFileError};
use hermes_store::mirror::ModelOverride;
use serde_json::json;

use super::command_context::{CommandRun, failed};
use crate::chat_commands::{CommandError, ModelFacts, ModelRequest, ModelScope};

impl CommandRun {
    /// The model that answers here now.
    pub(in crate::inbound) async fn model_facts(&self) -> Result<Option<ModelFacts>, CommandError> {
        let (model, provider) = self.core.chosen_model(&self.input.chat.key);
        let scope = match model {
            Some(_) => ModelScope::Session,
            None => ModelScope::Global,
        };
        let overrides = ModelOverrides {
            model,
            provider,
            ..ModelOverrides::default()
        };
        let found = self.core.gateway.agent().find_model(&overrides).await;
        Ok(found.ok().map(|selection| ModelFacts {
            model: selection.endpoint.model.clone(),
            provider: selection.endpoint.provider.clone(),
            scope,
        }))
    }

    /// Writes the model of all conversations to `config.yaml`.
    fn write_model(&self, request: &ModelRequest) -> Result<(), ConfigFileError> {
        let mut file = ConfigFile::open(self.core.gateway.home())?;
        if !file
            .get(&["model"])
            .is_some_and(serde_json::Value::is_object)
        {
            file.set(&["model"], json!({}));
        }
        file.set(&["model", "default"], json!(request.model));
        if let Some(provider) = &request.provider {
            file.set(&["model", "provider"], json!(provider));
        }
        file.save()
    }

    /// Uses another model in this conversation, or in all.
    pub(in crate::inbound) async fn choose_model(
        &self,
        request: &ModelRequest,
    ) -> Result<ModelFacts, CommandError> {
        let overrides = ModelOverrides {
            model: Some(request.model.clone()),
            provider: request.provider.clone(),
            ..ModelOverrides::default()
        };
        let found = self.core.gateway.agent().find_model(&overrides).await;
        let endpoint = found.map_err(failed)?.endpoint.clone();
        let chosen = match request.scope {
            ModelScope::Session => Some(ModelOverride {
                model: Some(request.model.clone()),
                provider: request.provider.clone(),
                base_url: None,
            }),
            ModelScope::Global => {
                self.write_model(request).map_err(failed)?;
                self.core.gateway.reload(self.load_settings()?).await;
                None
            }
        };
        self.session_id().await?;
        self.core.routing.update(&self.input.chat.key, |entry| {
            entry.details.model_override = chosen;
        });
        Ok(ModelFacts {
            model: endpoint.model,
            provider: endpoint.provider,
            scope: request.scope,
        })
    }
}
