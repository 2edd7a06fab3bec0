//! Approvals of a conversation: the caller's approver, a model for clear cases, and the permanent
//! allow list.

use std::sync::Arc;

use hermes_config::{AuxiliaryTask, ConfigFile, FileError, Home};
use hermes_store::SessionId;
use serde_json::json;

use super::{Agent, Consent, ModelCell, Setup, side_model::SideModel};
use crate::approval::{ApprovalMode, ApprovalSettings, Approvals, ModelJudge, NobodyDecides};

/// The approvals of a conversation, by its settings and setup.
pub(super) fn approvals(
    agent: &Agent,
    setup: &Setup,
    session: &SessionId,
    model: &ModelCell,
) -> Approvals {
    let mut settings = ApprovalSettings::from_document(&agent.settings().document);
    let approver = match &setup.consent {
        Consent::Ask(approver) => approver.clone(),
        Consent::Given => {
            settings.mode = ApprovalMode::Off;
            Arc::new(NobodyDecides)
        }
    };
    let task = AuxiliaryTask::Approval;
    let timeout = agent.settings().auxiliary.task(task).timeout;
    let judge = SideModel {
        agent: agent.clone(),
        main: model.clone(),
        task,
    };
    let home = agent.home().clone();
    Approvals::new(settings, approver)
        .in_session(session.clone())
        .beneath(agent.in_force().clone())
        .with_redactor(agent.redactor())
        .with_judge(Arc::new(ModelJudge::new(Arc::new(judge), timeout)))
        .on_always(move |rules| {
            if let Err(error) = allow_always(&home, rules) {
                tracing::warn!(%error, "writing an always-allowed command into the configuration failed");
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

/// The current configuration, limited by the setup of the conversation.
pub(super) fn settings(agent: &Agent, setup: &Setup) -> ApprovalSettings {
    let mut settings = ApprovalSettings::from_document(&agent.settings().document);
    if matches!(setup.consent, Consent::Given) {
        settings.mode = ApprovalMode::Off;
    }
    settings
}
