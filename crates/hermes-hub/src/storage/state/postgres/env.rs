//! Variables in PostgreSQL.

use async_trait::async_trait;

use super::{PostgresState, write_group::GroupedWrite};
use crate::{
    TenantId,
    api_types::{EnvVariable, Time},
    storage::{
        audit::NewAuditEntry,
        encryption::EncryptedSecret,
        state::{EnvStore, NewVariable, StateError, columns::ColumnReader},
    },
};

/// Sets a variable of an existing tenant.
pub(super) async fn set_variable(
    write: &mut GroupedWrite,
    tenant: &TenantId,
    variable: &NewVariable,
) -> Result<(), StateError> {
    let upsert = sqlx::query(
        "INSERT INTO env (tenant, name, sealed, last4, updated_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (tenant, name) DO UPDATE SET sealed = excluded.sealed, last4 = excluded.last4,
             updated_at = excluded.updated_at",
    )
    .bind(tenant.as_str())
    .bind(&variable.name)
    .bind(variable.encrypted.as_bytes())
    .bind(&variable.last4)
    .bind(Time::now().millis());
    write.execute(upsert).await?;
    Ok(())
}

/// Deletes a variable; returns whether it existed.
pub(super) async fn unset_variable(
    write: &mut GroupedWrite,
    tenant: &TenantId,
    name: &str,
) -> Result<bool, StateError> {
    let delete = sqlx::query("DELETE FROM env WHERE tenant = $1 AND name = $2")
        .bind(tenant.as_str())
        .bind(name);
    Ok(write.execute(delete).await? > 0)
}

/// The tenant's agent has to be restarted to see changed variables.
async fn bump_generation(write: &mut GroupedWrite, tenant: &TenantId) -> Result<(), StateError> {
    let update = sqlx::query(
        "UPDATE tenants SET generation = generation + 1, revision = revision + 1, updated_at = $2
         WHERE id = $1 AND deleted_at IS NULL",
    )
    .bind(tenant.as_str())
    .bind(Time::now().millis());
    if write.execute(update).await? == 0 {
        return Err(StateError::NotFound { what: "tenant" });
    }
    Ok(())
}

#[async_trait]
impl EnvStore for PostgresState {
    async fn env(&self, tenant: &TenantId) -> Result<Vec<EnvVariable>, StateError> {
        let query =
            sqlx::query("SELECT name, last4, updated_at FROM env WHERE tenant = $1 ORDER BY name")
                .bind(tenant.as_str());
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| {
                Ok(EnvVariable {
                    name: row.text("name")?,
                    set: true,
                    last4: row.optional_text("last4")?,
                    updated_at: row.time("updated_at")?,
                })
            })
            .collect()
    }

    async fn encrypted_env(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<(String, EncryptedSecret)>, StateError> {
        let query = sqlx::query("SELECT name, sealed FROM env WHERE tenant = $1 ORDER BY name")
            .bind(tenant.as_str());
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| {
                Ok((
                    row.text("name")?,
                    EncryptedSecret::from_bytes(row.bytes("sealed")?),
                ))
            })
            .collect()
    }

    async fn env_owners(&self) -> Result<Vec<TenantId>, StateError> {
        let query = sqlx::query("SELECT DISTINCT tenant FROM env");
        let rows = self.read().await?.rows(query).await?;
        rows.iter()
            .map(|row| row.id("tenant", TenantId::parse))
            .collect()
    }

    async fn set_env(
        &self,
        tenant: &TenantId,
        variable: NewVariable,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        bump_generation(&mut write, tenant).await?;
        set_variable(&mut write, tenant, &variable).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn unset_env(
        &self,
        tenant: &TenantId,
        name: &str,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError> {
        let mut write = self.begin_change().await?;
        let was_set = unset_variable(&mut write, tenant, name).await?;
        if was_set {
            bump_generation(&mut write, tenant).await?;
        }
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        Ok(was_set)
    }
}
