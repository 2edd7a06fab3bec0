//! Skills of groups, and those that the Hub has put into homes, in SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;

use super::{Affected, SqliteState, commit, to_column};
use crate::{
    GroupId, TenantId,
    storage::{
        audit::NewAuditEntry,
        state::{
            ProvidedSkillStore, SkillRevisions, StateError,
            columns::{ColumnReader, json_list},
        },
    },
};

fn revisions(rows: &[SqliteRow]) -> Result<SkillRevisions, StateError> {
    let rows = rows.iter();
    rows.map(|row| Ok((row.text("name")?, row.count("revision")?)))
        .collect()
}

#[async_trait]
impl ProvidedSkillStore for SqliteState {
    async fn group_skills(&self, group: &GroupId) -> Result<Vec<String>, StateError> {
        let rows = sqlx::query("SELECT name FROM group_skills WHERE group_id = ?1 ORDER BY name")
            .bind(group.as_str())
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(|row| row.text("name")).collect()
    }

    async fn set_group_skills(
        &self,
        group: &GroupId,
        names: &[String],
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query("DELETE FROM group_skills WHERE group_id = ?1")
            .bind(group.as_str())
            .execute(&mut *write)
            .await?;
        for name in names {
            sqlx::query("INSERT INTO group_skills (group_id, name) VALUES (?1, ?2)")
                .bind(group.as_str())
                .bind(name)
                .execute(&mut *write)
                .await?;
        }
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn skills_of_groups_of(&self, tenant: &TenantId) -> Result<Vec<String>, StateError> {
        let rows = sqlx::query(
            "SELECT DISTINCT name FROM group_skills JOIN members USING (group_id) WHERE tenant = ?1 ORDER BY name",
        )
        .bind(tenant.as_str())
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(|row| row.text("name")).collect()
    }

    async fn library_revisions(&self, names: &[String]) -> Result<SkillRevisions, StateError> {
        let Some(names) = json_list(Some(names))? else {
            return Ok(SkillRevisions::new());
        };
        let rows = sqlx::query(
            "SELECT name, revision FROM library_skills WHERE name IN (SELECT value FROM json_each(?1))",
        )
        .bind(names)
        .fetch_all(self.readers())
        .await?;
        revisions(&rows)
    }

    async fn provided_skills(&self, tenant: &TenantId) -> Result<SkillRevisions, StateError> {
        let rows = sqlx::query("SELECT name, revision FROM provided_skills WHERE tenant = ?1")
            .bind(tenant.as_str())
            .fetch_all(self.readers())
            .await?;
        revisions(&rows)
    }

    async fn record_provided_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        revision: Option<u64>,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let query = match revision {
            Some(revision) => sqlx::query(
                "INSERT INTO provided_skills (tenant, name, revision) VALUES (?1, ?2, ?3)
                 ON CONFLICT (tenant, name) DO UPDATE SET revision = excluded.revision",
            )
            .bind(tenant.as_str())
            .bind(name)
            .bind(to_column(revision)),
            None => sqlx::query("DELETE FROM provided_skills WHERE tenant = ?1 AND name = ?2")
                .bind(tenant.as_str())
                .bind(name),
        };
        query.execute(&mut *write).await?;
        commit(write).await
    }
}
