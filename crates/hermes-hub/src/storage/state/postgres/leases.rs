//! Leases and nodes in PostgreSQL.
//!
//! Whoever writes under a lease locks its row `FOR KEY SHARE`, whoever takes it `FOR UPDATE`: these two exclude each
//! other. A renewal changes no key, so neither waits for the other.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use hermes_config::sync::Mutex;
use sqlx::{Row, postgres::PgRow};

use super::{
    PostgresState,
    session::{Session, database_error},
    to_column,
    write_group::GroupedWrite,
};
use crate::{
    RunId, TenantId,
    api_types::Time,
    storage::{
        audit::NewAuditEntry,
        state::{
            GrantedLease, HeartbeatReply, HeldTenant, LEASE_LOST, LeaseEpoch, LeaseHolder,
            LeaseStore, NodeRecord, NodeReport, RunRecord, StateError, records::record_from_row,
        },
    },
};

/// A tenant whose job is due within this time has work: its home has to be there when the job is due.
const DUE_SOON: Duration = Duration::from_secs(10);

/// The epochs of the leases that this process has taken.
#[derive(Debug, Default)]
pub(super) struct HeldEpochs(Mutex<HashMap<TenantId, LeaseEpoch>>);

impl HeldEpochs {
    fn get(&self, tenant: &TenantId) -> Option<LeaseEpoch> {
        self.0.lock().get(tenant).copied()
    }
}

fn lease_lost(tenant: &TenantId) -> StateError {
    StateError::Conflict {
        reason: LEASE_LOST,
        message: format!("this node does not hold the lease of the tenant `{tenant}`"),
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Tenants and epochs as two arrays.
fn columns(leases: &[GrantedLease]) -> (Vec<String>, Vec<i64>) {
    let tenants = leases.iter().map(|lease| lease.tenant.to_string());
    let epochs = leases.iter().map(|lease| to_column(lease.epoch.0));
    (tenants.collect(), epochs.collect())
}

fn names(tenants: &[TenantId]) -> Vec<String> {
    tenants.iter().map(ToString::to_string).collect()
}

pub(super) fn tenant_of(row: &PgRow) -> Result<TenantId, StateError> {
    let id: &str = row.try_get("tenant")?;
    TenantId::parse(id).map_err(StateError::broken)
}

fn count_of(row: &PgRow, column: &str) -> Result<u64, StateError> {
    let count: i64 = row.try_get(column)?;
    Ok(u64::try_from(count).unwrap_or(0))
}

impl PostgresState {
    /// A transaction of its own: leases do not wait for the writes of this node.
    pub(super) async fn begin_lease_change(&self) -> Result<Session, StateError> {
        let begun = self.readers.begin().await.map_err(database_error)?;
        Ok(Session::in_transaction(begun, &self.server))
    }

    /// Refuses what is written after the lease of a tenant was lost. Until the transaction ends, nobody can take it.
    pub(super) async fn fence(
        &self,
        write: &mut GroupedWrite,
        tenant: &TenantId,
    ) -> Result<(), StateError> {
        let epoch = self.leases.get(tenant).ok_or_else(|| lease_lost(tenant))?;
        let held = write
            .optional(
                sqlx::query(
                    "SELECT 1 FROM leases
                     WHERE tenant = $1 AND node = $2 AND epoch = $3 AND expires_at > clock_timestamp() FOR KEY SHARE",
                )
                .bind(tenant.as_str())
                .bind(&self.node)
                .bind(to_column(epoch.0)),
            )
            .await?;
        held.map(drop).ok_or_else(|| lease_lost(tenant))
    }

    fn remember_leases(&self, granted: &[GrantedLease]) {
        let mut epochs = self.leases.0.lock();
        for lease in granted {
            epochs.insert(lease.tenant.clone(), lease.epoch);
        }
    }
}

#[async_trait]
impl LeaseStore for PostgresState {
    fn has_other_nodes(&self) -> bool {
        true
    }

    async fn claim_leases(
        &self,
        tenants: &[TenantId],
        lasting: Duration,
    ) -> Result<Vec<GrantedLease>, StateError> {
        let names = names(tenants);
        let mut write = self.begin_lease_change().await?;
        write
            .execute(
                sqlx::query(
                    "INSERT INTO leases (tenant, epoch, expires_at)
                     SELECT id, 0, '-infinity' FROM tenants WHERE id = ANY($1) ON CONFLICT (tenant) DO NOTHING",
                )
                .bind(&names),
            )
            .await?;
        let rows = write
            .rows(
                sqlx::query(
                    "WITH free AS (
                         SELECT tenant FROM leases
                         WHERE tenant = ANY($1)
                             AND (node IS NULL OR node = $2 OR expires_at <= clock_timestamp())
                         FOR UPDATE SKIP LOCKED
                     )
                     UPDATE leases SET node = $2, epoch = epoch + 1,
                         expires_at = clock_timestamp() + $3 * INTERVAL '1 millisecond'
                     FROM free WHERE leases.tenant = free.tenant
                     RETURNING leases.tenant, leases.epoch",
                )
                .bind(&names)
                .bind(&self.node)
                .bind(milliseconds(lasting)),
            )
            .await?;
        write.commit().await?;
        let granted = rows.iter().map(|row| {
            Ok(GrantedLease {
                tenant: tenant_of(row)?,
                epoch: LeaseEpoch(count_of(row, "epoch")?),
            })
        });
        let granted: Vec<GrantedLease> = granted.collect::<Result<_, StateError>>()?;
        self.remember_leases(&granted);
        Ok(granted)
    }

    async fn renew_leases(
        &self,
        held: &[GrantedLease],
        lasting: Duration,
    ) -> Result<Vec<TenantId>, StateError> {
        let (tenants, epochs) = columns(held);
        let mut write = self.begin_lease_change().await?;
        let rows = write
            .rows(
                sqlx::query(
                    "UPDATE leases SET expires_at = clock_timestamp() + $4 * INTERVAL '1 millisecond'
                     FROM unnest($2::TEXT[], $3::BIGINT[]) AS held (tenant, epoch)
                     WHERE leases.tenant = held.tenant AND leases.epoch = held.epoch AND leases.node = $1
                         AND leases.expires_at > clock_timestamp()
                     RETURNING leases.tenant",
                )
                .bind(&self.node)
                .bind(tenants)
                .bind(epochs)
                .bind(milliseconds(lasting)),
            )
            .await?;
        write.commit().await?;
        rows.iter().map(tenant_of).collect()
    }

    async fn release_leases(&self, held: &[GrantedLease]) -> Result<(), StateError> {
        let (tenants, epochs) = columns(held);
        let mut write = self.begin_lease_change().await?;
        write
            .execute(
                sqlx::query(
                    "UPDATE leases SET node = NULL, expires_at = clock_timestamp()
                     FROM unnest($2::TEXT[], $3::BIGINT[]) AS held (tenant, epoch)
                     WHERE leases.tenant = held.tenant AND leases.epoch = held.epoch AND leases.node = $1",
                )
                .bind(&self.node)
                .bind(tenants)
                .bind(epochs),
            )
            .await?;
        write.commit().await
    }

    fn forget_leases(&self, tenants: &[TenantId]) {
        let mut epochs = self.leases.0.lock();
        for tenant in tenants {
            epochs.remove(tenant);
        }
    }

    fn held_epoch(&self, tenant: &TenantId) -> Option<LeaseEpoch> {
        self.leases.get(tenant)
    }

    async fn lease_holder(&self, tenant: &TenantId) -> Result<Option<LeaseHolder>, StateError> {
        let query = sqlx::query(
            "SELECT node, epoch FROM leases
             WHERE tenant = $1 AND node IS NOT NULL AND expires_at > clock_timestamp()",
        )
        .bind(tenant.as_str());
        let row = self.read().await?.optional(query).await?;
        row.map(|row| {
            Ok(LeaseHolder {
                node: row.try_get("node")?,
                epoch: LeaseEpoch(count_of(&row, "epoch")?),
            })
        })
        .transpose()
    }

    async fn tenants_with_work(&self, most: u32) -> Result<Vec<TenantId>, StateError> {
        let held: Vec<String> = {
            let epochs = self.leases.0.lock();
            epochs.keys().map(ToString::to_string).collect()
        };
        let query = sqlx::query(
            "SELECT work.tenant FROM (
                 SELECT tenant FROM runs WHERE ended_at IS NULL
                 UNION
                 SELECT tenant FROM job_times
                 WHERE next <= (SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT + $4)
                 UNION
                 SELECT tenant FROM leases WHERE always_on AND COALESCE(
                     (SELECT content::jsonb #> '{features,enabled}' FROM documents
                      WHERE kind = 'agent-policy' ORDER BY revision DESC LIMIT 1) ? 'messaging', TRUE)
                 UNION
                 SELECT id FROM tenants WHERE status = 'provisioning'
             ) work
             JOIN tenants ON tenants.id = work.tenant AND tenants.deleted_at IS NULL
             LEFT JOIN leases ON leases.tenant = work.tenant
             WHERE NOT work.tenant = ANY($2)
                 AND (leases.node IS NULL OR leases.node = $1 OR leases.expires_at <= clock_timestamp())
             LIMIT $3",
        )
        .bind(&self.node)
        .bind(held)
        .bind(i64::from(most))
        .bind(milliseconds(DUE_SOON));
        let rows = self.read().await?.rows(query).await?;
        rows.iter().map(tenant_of).collect()
    }

    async fn set_always_on(&self, tenant: &TenantId, always_on: bool) -> Result<(), StateError> {
        let mut write = self.begin_lease_change().await?;
        write
            .execute(
                sqlx::query(
                    "UPDATE leases SET always_on = $2 WHERE tenant = $1 AND always_on <> $2",
                )
                .bind(tenant.as_str())
                .bind(always_on),
            )
            .await?;
        write.commit().await
    }

    async fn adopt_runs(&self, tenant: &TenantId) -> Result<Vec<RunRecord>, StateError> {
        let mut write = self.begin_change().await?;
        self.fence(&mut write, tenant).await?;
        let rows = write
            .rows(
                sqlx::query(
                    "UPDATE runs SET node = $2
                     WHERE tenant = $1 AND ended_at IS NULL AND status <> 'queued' RETURNING *",
                )
                .bind(tenant.as_str())
                .bind(&self.node),
            )
            .await?;
        let runs = rows.iter().map(record_from_row).collect::<Result<_, _>>()?;
        write.commit().await?;
        Ok(runs)
    }

    async fn stopping_runs(&self) -> Result<Vec<(TenantId, RunId)>, StateError> {
        let query = sqlx::query(
            "SELECT tenant, id FROM runs WHERE ended_at IS NULL AND status = 'stopping' AND node = $1",
        )
        .bind(&self.node);
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| {
                let id: &str = row.try_get("id")?;
                let run = RunId::parse(id).map_err(StateError::broken)?;
                Ok((tenant_of(row)?, run))
            })
            .collect()
    }

    async fn held_tenants(&self) -> Result<Vec<HeldTenant>, StateError> {
        let query = sqlx::query(
            "SELECT leases.tenant, tenants.generation, tenants.access_status = 'blocked' AS blocked,
                 tenants.deleted_at IS NOT NULL AS deleted
             FROM leases JOIN tenants ON tenants.id = leases.tenant WHERE leases.node = $1",
        )
        .bind(&self.node);
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| {
                Ok(HeldTenant {
                    tenant: tenant_of(row)?,
                    generation: count_of(row, "generation")?,
                    is_blocked: row.try_get("blocked")?,
                    is_deleted: row.try_get("deleted")?,
                })
            })
            .collect()
    }

    async fn database_time(&self) -> Result<Option<Time>, StateError> {
        let query = sqlx::query("SELECT hub_now() AS now");
        let row = self.read().await?.one(query).await?;
        Ok(Some(Time::from_millis(row.try_get("now")?)))
    }

    async fn report_node(&self, report: &NodeReport) -> Result<HeartbeatReply, StateError> {
        let mut write = self.begin_lease_change().await?;
        let row = write
            .one(
                sqlx::query(
                    "INSERT INTO nodes (id, version, started_at, seen_at, capacity)
                     VALUES ($1, $2, $3, clock_timestamp(), $4)
                     ON CONFLICT (id) DO UPDATE SET version = excluded.version, started_at = excluded.started_at,
                         seen_at = excluded.seen_at, capacity = excluded.capacity
                     RETURNING draining, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT AS now",
                )
                .bind(&self.node)
                .bind(&report.version)
                .bind(report.started_at.millis())
                .bind(i64::from(report.capacity)),
            )
            .await?;
        write.commit().await?;
        Ok(HeartbeatReply {
            is_draining: row.try_get("draining")?,
            database_time: Some(Time::from_millis(row.try_get("now")?)),
        })
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError> {
        let query = sqlx::query(
            "SELECT id, version, started_at, capacity, draining,
                 (EXTRACT(EPOCH FROM seen_at) * 1000)::BIGINT AS seen_at,
                 (EXTRACT(EPOCH FROM clock_timestamp() - seen_at) * 1000)::BIGINT AS unseen,
                 (SELECT COUNT(*) FROM leases WHERE leases.node = nodes.id AND expires_at > clock_timestamp())
                     AS tenants
             FROM nodes ORDER BY id",
        );
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| {
                let capacity = count_of(row, "capacity")?;
                Ok(NodeRecord {
                    id: row.try_get("id")?,
                    version: row.try_get("version")?,
                    started_at: Time::from_millis(row.try_get("started_at")?),
                    seen_at: Time::from_millis(row.try_get("seen_at")?),
                    unseen_for: Duration::from_millis(count_of(row, "unseen")?),
                    capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
                    is_draining: row.try_get("draining")?,
                    tenants: count_of(row, "tenants")?,
                })
            })
            .collect()
    }

    async fn drain_node(&self, id: &str, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let drained = sqlx::query("UPDATE nodes SET draining = TRUE WHERE id = $1").bind(id);
        if write.execute(drained).await? == 0 {
            return Err(StateError::NotFound { what: "node" });
        }
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn undrain_node(&self) -> Result<(), StateError> {
        let mut write = self.begin_lease_change().await?;
        let working = sqlx::query("UPDATE nodes SET draining = FALSE WHERE id = $1 AND draining");
        write.execute(working.bind(&self.node)).await?;
        write.commit().await
    }
}
