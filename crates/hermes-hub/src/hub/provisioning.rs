//! The homes of tenants: provisioning, checking and purging them.

use std::{collections::HashSet, io, path::Path};

use tokio::sync::watch;

use super::Hub;
use crate::{
    Problem, ProblemCode,
    api_types::{Condition, ConditionStatus, TenantStatus, Time},
    storage::{
        audit::NewAuditEntry,
        files::run_blocking,
        state::{
            Notice, Page, StateError, TenantFilter, TenantHome, TenantObservation, TenantQuery,
            TenantRecord,
        },
    },
    tenants::{leases::LeaseOwner, provided_skills::provide_skills},
};

const PAGE_SIZE: u32 = 1000;

pub(crate) const HOME_CONDITION: &str = "HomeReady";

/// Tenants whose homes are being created, by uid. A purge waits for that: a tenant is deleted from the database after
/// its last file, so that the next start knows about everything a killed process has left.
#[derive(Debug, Default)]
pub(crate) struct ProvisioningHomes(watch::Sender<HashSet<String>>);

/// Marks a home as being created while it lives.
struct ProvisioningGuard {
    hub: Hub,
    uid: String,
}

impl ProvisioningGuard {
    fn start(hub: &Hub, uid: &str) -> Self {
        let (hub, uid) = (hub.clone(), uid.to_owned());
        let ProvisioningHomes(under_way) = hub.provisioning();
        under_way.send_modify(|under_way| {
            under_way.insert(uid.clone());
        });
        Self { hub, uid }
    }
}

impl Drop for ProvisioningGuard {
    fn drop(&mut self) {
        let ProvisioningHomes(under_way) = self.hub.provisioning();
        under_way.send_modify(|under_way| {
            under_way.remove(&self.uid);
        });
    }
}

/// Waits until a tenant's home is made, or has failed to be.
pub(crate) async fn wait_for_home(hub: &Hub, record: &TenantRecord) {
    let ProvisioningHomes(under_way) = hub.provisioning();
    let is_made = |under_way: &HashSet<String>| !under_way.contains(&record.uid);
    // The Hub owns the sender, so this ends.
    let _ = under_way.subscribe().wait_for(is_made).await;
}

/// Creates the home in the background, then marks the tenant as ready.
pub(crate) fn provision(hub: &Hub, record: &TenantRecord, starts: bool) {
    let under_way = ProvisioningGuard::start(hub, &record.uid);
    let (hub, record) = (hub.clone(), record.clone());
    hub.tasks().clone().spawn(async move {
        if let Err(error) = provision_home(&hub, &record, starts).await {
            tracing::error!(%error, tenant = %record.id, "failed to store the tenant's status");
        }
        drop(under_way);
    });
}

async fn provision_home(hub: &Hub, record: &TenantRecord, starts: bool) -> Result<(), StateError> {
    let current = hub.state().tenant(&record.id).await?;
    // It may have been purged since, and its name reused.
    let is_wanted =
        current.is_some_and(|current| current.uid == record.uid && !current.is_deleted_for_good());
    if !is_wanted {
        return Ok(());
    }
    match hub.leases().hold(&record.id).await {
        Ok(LeaseOwner::Mine) => {}
        // That node makes the home.
        Ok(LeaseOwner::Elsewhere(_)) => return Ok(()),
        Err(problem) => return Err(StateError::Unavailable(problem.message)),
    }
    let home = hub.home(record);
    let made =
        run_blocking(move || create_home(home.path()).map_err(|error| Problem::internal(&error)))
            .await;
    let skills = match &made {
        Ok(()) => install_flavor_skills(hub, record).await?,
        Err(_) => None,
    };
    let made = match made {
        Ok(()) => hub.leases().save_home(&record.id).await,
        failed => failed,
    };
    let observation = match made {
        Ok(()) => TenantObservation {
            status: Some(TenantStatus::Ready),
            observed_generation: Some(record.generation),
            conditions: skills.into_iter().collect(),
        },
        Err(_) => TenantObservation {
            status: Some(TenantStatus::Failed),
            observed_generation: None,
            conditions: vec![Condition {
                kind: crate::hub::provisioning::HOME_CONDITION.into(),
                status: ConditionStatus::False,
                reason: "not_created".into(),
                message: "the home could not be created; the Hub's log has the reason".into(),
                last_transition_time: Time::now(),
            }],
        },
    };
    let is_ready = observation.status == Some(TenantStatus::Ready);
    let tenant = hub.state().observe_tenant(&record.id, observation).await?;
    if tenant.deleted_at.is_none() && is_ready {
        hub.tenant_ready(&tenant.id, starts);
    }
    Ok(())
}

/// Creates directories that only the Hub's user can enter.
fn create_home(home: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(home)?;
    hermes_config::Home::at(home).create()?;
    for inside in ["workspace", "skills", "cron", "memories"] {
        builder.create(home.join(inside))?;
    }
    Ok(())
}

/// Resumes a tenant of this node that another one did not finish.
pub(super) fn provision_if_unfinished(hub: &Hub, record: &TenantRecord) {
    let ProvisioningHomes(under_way) = hub.provisioning();
    let is_under_way = under_way.borrow().contains(&record.uid);
    if record.status == TenantStatus::Provisioning && !is_under_way {
        provision(hub, record, false);
    }
}

/// Resumes tenants that an earlier process did not finish.
pub(crate) async fn provision_unfinished(hub: &Hub) -> Result<(), StateError> {
    let query = TenantQuery {
        filter: TenantFilter::Status(TenantStatus::Provisioning),
        ..TenantQuery::default()
    };
    let mut page = Page::first(500);
    loop {
        let tenants = hub.state().tenants(&query, &page).await?;
        for record in &tenants.items {
            provision(hub, record, false);
        }
        match tenants.next {
            Some(next) => page = Page::after(500, next),
            None => return Ok(()),
        }
    }
}

/// Removes the files of a deleted tenant, except a linked home, and then its record. Its name stays taken until then,
/// so that nobody gets a home that is being removed. A failed step is retried later.
pub(crate) async fn purge(
    hub: &Hub,
    record: &TenantRecord,
    entry: &NewAuditEntry,
) -> Result<(), Problem> {
    wait_for_home(hub, record).await;
    if record.linked_home.is_none() {
        remove_files(hub, record).await?;
    }
    let (id, entry) = (record.id.clone(), entry.clone());
    let forget = move |hub: Hub| {
        let (id, entry) = (id.clone(), entry.clone());
        async move {
            match hub.state().purge_tenant(&id, entry).await {
                // Already purged, or restored.
                Err(StateError::NotFound { .. }) => Ok(()),
                done => done,
            }
        }
    };
    hub.retry_until_stored("purging a deleted tenant", forget)
        .await;
    Ok(())
}

async fn remove_files(hub: &Hub, record: &TenantRecord) -> Result<(), Problem> {
    let directory = hub.tenant_directory(&record.id);
    run_blocking(move || match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::error!(%error, "failed to remove files of a deleted tenant");
            Err(Problem::new(
                ProblemCode::Unavailable,
                "the tenant is deleted, but not all of its files could be removed; retrying every hour",
            )
            .with_reason("files_left"))
        }
        _ => Ok(()),
    })
    .await
}

/// Purges tenants that were deleted before this time.
pub(crate) async fn purge_overdue(hub: &Hub, before: Time) -> Result<(), StateError> {
    let query = TenantQuery {
        filter: TenantFilter::DeletedBefore(before),
        ..TenantQuery::default()
    };
    let overdue = hub.state().tenants(&query, &Page::first(500)).await?;
    for record in overdue.items {
        let entry = NewAuditEntry::by_hub("purge_tenant").for_tenant(&record.id);
        if let Err(problem) = purge(hub, &record, &entry).await {
            tracing::warn!(tenant = %record.id, %problem, "failed to purge a deleted tenant");
        }
    }
    Ok(())
}

impl Hub {
    /// Marks tenants whose home is missing, and those whose home is back.
    pub(super) async fn check_homes(&self) -> Result<(), StateError> {
        // The node that works for a tenant has its home.
        if self.leases().is_shared() {
            let mut held = Vec::new();
            for tenant in self.leases().held() {
                if let Some(record) = self.state().tenant(&tenant).await? {
                    held.push(TenantHome {
                        id: record.id,
                        linked_home: record.linked_home,
                        status: record.status,
                        access: record.access.status,
                    });
                }
            }
            return self.check_homes_of(held).await;
        }
        let mut last = None;
        loop {
            let tenants = self.state().tenant_homes(last.as_ref(), PAGE_SIZE).await?;
            last = tenants.last().map(|tenant| tenant.id.clone());
            if last.is_none() {
                return Ok(());
            }
            self.check_homes_of(tenants).await?;
        }
    }

    async fn check_homes_of(&self, tenants: Vec<TenantHome>) -> Result<(), StateError> {
        let homes: Vec<_> = tenants
            .into_iter()
            .filter(|tenant| self.leases().is_mine(&tenant.id))
            .map(|tenant| (self.agents().tenant_lookup().home(&tenant), tenant))
            .collect();
        let changed_statuses = tokio::task::spawn_blocking(move || {
            let changed = homes.into_iter().filter_map(|(home, tenant)| {
                let is_there = home.is_dir();
                let should_be = match (tenant.status, is_there) {
                    (TenantStatus::Ready, false) => TenantStatus::Failed,
                    (TenantStatus::Failed, true) => TenantStatus::Ready,
                    _ => return None,
                };
                Some((tenant.id, should_be))
            });
            changed.collect::<Vec<_>>()
        });
        for (tenant, status) in changed_statuses.await.map_err(StateError::broken)? {
            tracing::warn!(%tenant, %status, "tenant status changed after its home was checked");
            let observation = TenantObservation {
                status: Some(status),
                conditions: vec![home_condition(status)],
                ..TenantObservation::default()
            };
            self.state().observe_tenant(&tenant, observation).await?;
            // Its node has not looked for bots when the home was not there.
            if status == TenantStatus::Ready && self.leases().is_shared() {
                self.tenant_reactivated(&tenant);
            }
        }
        Ok(())
    }
}

fn home_condition(status: TenantStatus) -> Condition {
    let is_there = status == TenantStatus::Ready;
    Condition {
        kind: HOME_CONDITION.into(),
        status: if is_there {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        },
        reason: if is_there { "found" } else { "missing" }.into(),
        message: if is_there {
            String::new()
        } else {
            "the home is missing; put it back, or delete the tenant".into()
        },
        last_transition_time: Time::now(),
    }
}

const FLAVOR_SKILLS_CONDITION: &str = "FlavorSkillsInstalled";

/// Installs skills in a new home. The condition tells of those that could not be.
async fn install_flavor_skills(
    hub: &Hub,
    record: &TenantRecord,
) -> Result<Option<Condition>, StateError> {
    let home = hub.home(record);
    let documents = hub.effective_documents();
    let provided = provide_skills(hub.state(), &documents, home.path(), record).await;
    let missing = provided.map_err(|Problem { message, .. }| StateError::Unavailable(message))?;
    Ok((!missing.is_empty()).then(|| Condition {
        kind: FLAVOR_SKILLS_CONDITION.into(),
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
