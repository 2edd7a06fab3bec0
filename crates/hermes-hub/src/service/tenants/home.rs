//! The homes of tenants: made after the tenant, gone after it.

use std::{collections::HashSet, io, path::Path};

use tokio::sync::watch;

use crate::{
    Code, Hub, Problem,
    audit::NewEntry,
    shapes::{Condition, ConditionStatus, TenantStatus, Time},
    state::{Observation, Page, StateError, TenantFilter, TenantQuery, TenantRecord},
};

/// Tenants whose homes are being made, by their uid. Whoever purges one waits for that: a tenant is forgotten after its
/// last file, so that the next Hub knows of everything that one that was killed has left.
#[derive(Debug, Default)]
pub(crate) struct Making(watch::Sender<HashSet<String>>);

/// While this lives, a home is being made.
struct UnderWay {
    hub: Hub,
    uid: String,
}

impl UnderWay {
    fn begin(hub: &Hub, uid: &str) -> Self {
        let (hub, uid) = (hub.clone(), uid.to_owned());
        let Making(under_way) = hub.homes_in_making();
        under_way.send_modify(|under_way| {
            under_way.insert(uid.clone());
        });
        Self { hub, uid }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Making(under_way) = self.hub.homes_in_making();
        under_way.send_modify(|under_way| {
            under_way.remove(&self.uid);
        });
    }
}

/// Makes the home beside the reply, then says that the tenant is ready.
pub(super) fn provision(hub: &Hub, record: &TenantRecord, starts: bool) {
    let under_way = UnderWay::begin(hub, &record.uid);
    let (hub, record) = (hub.clone(), record.clone());
    hub.work().clone().spawn(async move {
        if let Err(error) = make_ready(&hub, &record, starts).await {
            tracing::error!(%error, tenant = %record.id, "the tenant's state could not be stored");
        }
        drop(under_way);
    });
}

async fn make_ready(hub: &Hub, record: &TenantRecord, starts: bool) -> Result<(), StateError> {
    let found = hub.state().tenant(&record.id).await?;
    // It may have been purged meanwhile, and somebody else may have its name.
    let is_wanted =
        found.is_some_and(|found| found.uid == record.uid && !found.is_deleted_for_good());
    if !is_wanted {
        return Ok(());
    }
    let home = hub.home(record);
    let made = super::super::blocking(move || {
        make(home.path()).map_err(|error| Problem::internal(&error))
    })
    .await;
    let observation = match made {
        Ok(()) => Observation {
            status: Some(TenantStatus::Ready),
            observed_generation: Some(record.generation),
            conditions: Vec::new(),
        },
        Err(_) => Observation {
            status: Some(TenantStatus::Failed),
            observed_generation: None,
            conditions: vec![Condition {
                kind: crate::app::homes::CONDITION.into(),
                status: ConditionStatus::False,
                reason: "not_created".into(),
                message: "the home could not be made; the Hub's log has the reason".into(),
                last_transition_time: Time::now(),
            }],
        },
    };
    let is_ready = observation.status == Some(TenantStatus::Ready);
    let tenant = hub.state().observe_tenant(&record.id, observation).await?;
    if tenant.deleted_at.is_none() && is_ready && starts {
        hub.tenant_ready(&tenant.id);
    }
    Ok(())
}

/// Directories that only the Hub's user can enter.
fn make(home: &Path) -> io::Result<()> {
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

/// Goes on with tenants that an earlier Hub left half made.
pub(crate) async fn provision_unfinished(hub: &Hub) -> Result<(), StateError> {
    let query = TenantQuery {
        filter: TenantFilter::Status(TenantStatus::Provisioning),
        ..TenantQuery::default()
    };
    let mut page = Page::first(500);
    loop {
        let found = hub.state().tenants(&query, &page).await?;
        for record in &found.items {
            provision(hub, record, false);
        }
        match found.next {
            Some(next) => page = Page::after(500, next),
            None => return Ok(()),
        }
    }
}

/// Removes the files of a deleted tenant, unless they were there before it, and forgets it. Its name stays taken until
/// then: nobody gets a home that is being removed. What can not be done now is done later.
pub(super) async fn purge(
    hub: &Hub,
    record: &TenantRecord,
    entry: &NewEntry,
) -> Result<(), Problem> {
    let Making(under_way) = hub.homes_in_making();
    let is_made = |under_way: &HashSet<String>| !under_way.contains(&record.uid);
    // The sender is the Hub's own, so this ends.
    let _ = under_way.subscribe().wait_for(is_made).await;
    if record.linked_home.is_none() {
        remove(hub, record).await?;
    }
    let (id, entry) = (record.id.clone(), entry.clone());
    let forget = move |hub: Hub| {
        let (id, entry) = (id.clone(), entry.clone());
        async move {
            match hub.state().purge_tenant(&id, entry).await {
                // Somebody else has done it, or wants the tenant back.
                Err(StateError::NotFound { .. }) => Ok(()),
                done => done,
            }
        }
    };
    hub.see_to("the end of a deleted tenant", forget).await;
    Ok(())
}

/// Removes a tenant's files.
async fn remove(hub: &Hub, record: &TenantRecord) -> Result<(), Problem> {
    let directory = hub.tenant_directory(&record.id);
    super::super::blocking(move || match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::error!(%error, "files of a deleted tenant are still there");
            Err(Problem::new(
                Code::Unavailable,
                "the tenant is deleted, but not all of its files could be removed; this is tried again every hour",
            )
            .because("files_left"))
        }
        _ => Ok(()),
    })
    .await
}

/// Purges tenants that were deleted before.
pub(crate) async fn purge_overdue(hub: &Hub, before: Time) -> Result<(), StateError> {
    let query = TenantQuery {
        filter: TenantFilter::DeletedBefore(before),
        ..TenantQuery::default()
    };
    let found = hub.state().tenants(&query, &Page::first(500)).await?;
    for record in found.items {
        let entry = NewEntry::by_hub("purge_tenant").of(&record.id);
        if let Err(problem) = purge(hub, &record, &entry).await {
            tracing::warn!(tenant = %record.id, "a deleted tenant could not be removed: {problem}");
        }
    }
    Ok(())
}
