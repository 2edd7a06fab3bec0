//! Missing homes: their tenants are marked as failed until the homes are back.

use super::Hub;
use crate::{
    service::tenants::Making,
    shapes::{Condition, ConditionStatus, TenantStatus, Time},
    state::{Observation, StateError},
};

const HOMES: u32 = 1000;

pub(crate) const CONDITION: &str = "HomeReady";

impl Hub {
    pub(crate) fn homes_in_making(&self) -> &Making {
        &self.0.homes_in_making
    }

    /// Marks tenants whose home is missing, and those whose home is back.
    pub(super) async fn check_homes(&self) -> Result<(), StateError> {
        let mut last = None;
        loop {
            let found = self.state().tenant_homes(last.as_ref(), HOMES).await?;
            last = found.last().map(|tenant| tenant.id.clone());
            if last.is_none() {
                return Ok(());
            }
            let homes: Vec<_> = found
                .into_iter()
                .map(|tenant| (self.agents().tenancy().home(&tenant), tenant))
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
                let observation = Observation {
                    status: Some(status),
                    conditions: vec![condition(status)],
                    ..Observation::default()
                };
                self.state().observe_tenant(&tenant, observation).await?;
            }
        }
    }
}

fn condition(status: TenantStatus) -> Condition {
    let is_there = status == TenantStatus::Ready;
    Condition {
        kind: CONDITION.into(),
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
