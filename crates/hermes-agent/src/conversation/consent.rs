//! Approvals of a conversation: the caller's approver, a model for clear cases, and the permanent
//! allow list.

use std::sync::Arc;

use hermes_config::{AuxiliaryTask, ConfigFile, ConfigFileError, Home};
use hermes_store::SessionId;
use serde_json::json;

use super::{Agent, Consent, ConversationSetup, state::ModelCell};
use crate::{
    approval::{ApprovalMode, ApprovalSettings, Approvals, DenyAllApprover, ModelJudge},
    conversation::state::LazyAuxiliaryModel,
};

/// The approvals of a conversation, by its settings and setup.
pub(super) fn build_approvals(
    agent: &Agent,
    setup: &ConversationSetup,
    session: &SessionId,
    model: &ModelCell,
) -> Approvals {
    let mut settings = ApprovalSettings::from_document(&agent.settings().document);
    let approver = match &setup.consent {
        Consent::Ask(approver) => approver.clone(),
        Consent::AllowAll => {
            settings.mode = ApprovalMode::Off;
            Arc::new(DenyAllApprover)
        }
    };
    let task = AuxiliaryTask::Approval;
    let timeout = agent.settings().auxiliary.task(task).timeout;
    let judge = LazyAuxiliaryModel {
        agent: agent.clone(),
        main: model.clone(),
        task,
    };
    let home = agent.home().clone();
    Approvals::new(settings, approver)
        .for_session(session.clone())
        .with_policy(agent.policy_handle().clone())
        .with_redactor(agent.redactor())
        .with_judge(Arc::new(ModelJudge::new(Arc::new(judge), timeout)))
        .on_always(move |rules| {
            if let Err(error) = add_to_allowlist(&home, rules) {
                tracing::warn!(%error, "failed to write an always-allowed command to the configuration");
            }
        })
}

/// Adds rules to `command_allowlist`.
fn add_to_allowlist(home: &Home, rules: &[String]) -> Result<(), ConfigFileError> {
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
pub(super) fn approval_settings(agent: &Agent, setup: &ConversationSetup) -> ApprovalSettings {
    let mut settings = ApprovalSettings::from_document(&agent.settings().document);
    if matches!(setup.consent, Consent::AllowAll) {
        settings.mode = ApprovalMode::Off;
    }
    settings
}
