//! Who decides about risky work in a conversation: the surface's approver, a model for clear cases, and what was allowed
//! for ever.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::{AuxiliaryTask, ConfigFile, FileError, Home};
use serde_json::json;

use super::{Agent, Consent, ModelCell, Setup};
use crate::approval::{
    ApprovalMode, ApprovalRequest, ApprovalSettings, Approvals, Judge, Judgement, ModelJudge,
    NobodyDecides,
};

/// The decisions of a conversation, by its settings and terms.
pub(super) fn approvals(agent: &Agent, setup: &Setup, model: &ModelCell) -> Approvals {
    let mut settings = ApprovalSettings::from_document(&agent.settings().document);
    let approver = match &setup.consent {
        Consent::Ask(approver) => approver.clone(),
        Consent::Given => {
            settings.mode = ApprovalMode::Off;
            Arc::new(NobodyDecides)
        }
    };
    let home = agent.home().clone();
    Approvals::new(settings, approver)
        .with_redactor(agent.redactor())
        .with_judge(Arc::new(AuxiliaryJudge {
            agent: agent.clone(),
            model: model.clone(),
        }))
        .on_always(move |rules| {
            if let Err(error) = allow_always(&home, rules) {
                tracing::warn!(%error, "an approval could not be written into the configuration");
            }
        })
}

/// Adds rules to `command_allowlist`.
fn allow_always(home: &Home, rules: &[String]) -> Result<(), FileError> {
    let mut file = ConfigFile::open(home)?;
    let mut list: Vec<String> = file
        .get(&["command_allowlist"])
        .and_then(|list| serde_json::from_value(list.clone()).ok())
        .unwrap_or_default();
    for rule in rules {
        if !list.contains(rule) {
            list.push(rule.clone());
        }
    }
    file.set(&["command_allowlist"], json!(list));
    file.save()
}

/// Asks the model for approvals, which is looked for when it is needed.
struct AuxiliaryJudge {
    agent: Agent,
    model: ModelCell,
}

impl Judge for AuxiliaryJudge {
    fn judge<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Judgement> {
        Box::pin(async move {
            let main = self.model.get();
            let task = AuxiliaryTask::Approval;
            match self.agent.auxiliary(main.as_ref(), task).await {
                Ok(model) => {
                    let timeout = model.timeout();
                    let judge = ModelJudge::new(Arc::new(model), timeout);
                    judge.judge(request).await
                }
                Err(_) => Judgement::Unclear,
            }
        })
    }
}
