//! What tenants' agents, their runs and the clock have to learn of changes.

use super::Hub;
use crate::{
    GroupId, JobId, Problem, TenantId,
    audit::NewEntry,
    shapes::{AccessStatus, Run},
    state::TenantRecord,
};

impl Hub {
    /// A tenant's home is there, and its agent may start.
    pub(crate) fn tenant_ready(&self, _tenant: &TenantId) {}

    /// Settings or variables of a tenant are others.
    pub(crate) fn settings_changed(&self, _tenant: &TenantRecord) {}

    /// A tenant was blocked or unblocked.
    pub(crate) async fn access_changed(&self, _tenant: &TenantId, _status: AccessStatus) {}

    /// Policy, configuration or specialization are others.
    pub(crate) fn directives_changed(&self) {}

    /// A group's quota or the group itself is another.
    pub(crate) fn share_changed(&self, group: &GroupId) {
        self.shares().forget(group);
    }

    /// A tenant's jobs are others.
    pub(crate) fn jobs_changed(&self, _tenant: &TenantId) {}

    /// Tenants whose agents run.
    pub(crate) async fn running_tenants(&self) -> Vec<TenantId> {
        Vec::new()
    }

    /// Runs a job now.
    pub(crate) async fn run_job(&self, _tenant: &TenantId, _job: &JobId, _entry: NewEntry) -> Result<Run, Problem> {
        Err(Problem::new(crate::Code::Unimplemented, "this Hub runs no jobs"))
    }
}
