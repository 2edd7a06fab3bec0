//! Skills of the library that a new home gets from its tenant's flavor and groups.

use super::Hub;
use crate::{
    Problem,
    api_types::{Condition, ConditionStatus, Time},
    storage::state::{Notice, StateError, TenantRecord},
    tenants::provided_skills::provide_skills,
};

const CONDITION: &str = "FlavorSkillsInstalled";

/// Installs skills in a new home. The condition tells of those that could not be.
pub(super) async fn install_flavor_skills(
    hub: &Hub,
    record: &TenantRecord,
) -> Result<Option<Condition>, StateError> {
    let home = hub.home(record);
    let documents = hub.effective_documents();
    let provided = provide_skills(hub.state(), &documents, home.path(), record).await;
    let missing = provided.map_err(|Problem { message, .. }| StateError::Unavailable(message))?;
    Ok((!missing.is_empty()).then(|| Condition {
        kind: CONDITION.into(),
        status: ConditionStatus::False,
        reason: "missing".into(),
        message: format!(
            "these skills of the flavor or of a group are not in the library, or could not be installed: {}",
            missing.join(", ")
        ),
        last_transition_time: Time::now(),
    }))
}

impl Hub {
    /// A skill of the library or the skills of a group have changed: running agents get them now, others when they start.
    pub(crate) fn provided_skills_changed(&self) {
        self.notify_nodes(Notice::Skills);
        self.directives_changed();
    }
}
