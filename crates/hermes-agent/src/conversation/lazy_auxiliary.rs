//! An auxiliary model that is resolved at its first use, not when a turn starts.

use futures::future::BoxFuture;
use hermes_config::AuxiliaryTask;

use super::{Agent, state::ModelCell};
use crate::model::{Model, ModelError, ModelEventSink, ModelProblem, ModelReply, ModelRequest};

/// The auxiliary model for one task.
pub(super) struct LazyAuxiliaryModel {
    pub(super) agent: Agent,
    /// The conversation's own model, used where the settings name no other.
    pub(super) main: ModelCell,
    pub(super) task: AuxiliaryTask,
}

impl Model for LazyAuxiliaryModel {
    fn name(&self) -> &'static str {
        "auxiliary"
    }

    fn provider(&self) -> &'static str {
        "auxiliary"
    }

    fn context_length(&self) -> Option<u32> {
        None
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        _sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let main = self.main.get();
            let model = self.agent.auxiliary(main.as_ref(), self.task).await;
            let model = model.map_err(|error| ModelError {
                provider: self.provider().into(),
                problem: ModelProblem::InvalidRequest {
                    reason: error.to_string(),
                },
            })?;
            model.complete(request).await
        })
    }
}
