//! Missing homes: their tenants are marked as failed until the homes are back.

use super::Hub;
use crate::{
    api_types::{Condition, ConditionStatus, TenantStatus, Time},
    storage::state::{StateError, TenantObservation},
};

const PAGE_SIZE: u32 = 1000;

pub(crate) const HOME_CONDITION: &str = "HomeReady";

impl Hub {
    /// Marks tenants whose home is missing, and those whose home is back.
    pub(super) async fn check_homes(&self) -> Result<(), StateError> {
        let mut last = None;
        loop {
            let found = self.state().tenant_homes(last.as_ref(), PAGE_SIZE).await?;
            last = found.last().map(|tenant| tenant.id.clone());
            if last.is_none() {
                return Ok(());
            }
            let homes: Vec<_> = found
                .into_iter()
                .map(|tenant| (self.agents().tenant_lookup().home(&tenant), tenant))
                .collect();
            let looked = tokio::task::spawn_blocking(move || {
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
            for (tenant, status) in looked.await.map_err(StateError::broken)? {
                tracing::warn!(%tenant, %status, "tenant status changed after its home was checked");
                let observation = TenantObservation {
                    status: Some(status),
                    conditions: vec![home_condition(status)],
                    ..TenantObservation::default()
                };
                self.state().observe_tenant(&tenant, observation).await?;
            }
        }
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
