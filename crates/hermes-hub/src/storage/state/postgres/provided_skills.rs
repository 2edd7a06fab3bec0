//! Skills of groups, and those that the Hub has put into homes, in PostgreSQL.

use async_trait::async_trait;
use sqlx::postgres::PgRow;

use super::{PostgresState, seen_changes::note_skills, to_column};
use crate::{
    GroupId, TenantId,
    storage::{
        audit::NewAuditEntry,
        state::{ProvidedSkillStore, SkillRevisions, StateError, columns::ColumnReader},
    },
};

fn revisions(rows: &[PgRow]) -> Result<SkillRevisions, StateError> {
    let rows = rows.iter();
    rows.map(|row| Ok((row.text("name")?, row.count("revision")?)))
        .collect()
}

#[async_trait]
impl ProvidedSkillStore for PostgresState {
    async fn group_skills(&self, group: &GroupId) -> Result<Vec<String>, StateError> {
        let query = sqlx::query("SELECT name FROM group_skills WHERE group_id = $1 ORDER BY name")
            .bind(group.as_str());
        let rows = self.read().await?.rows(query).await?;
        rows.iter().map(|row| row.text("name")).collect()
    }

    async fn set_group_skills(
        &self,
        group: &GroupId,
        names: &[String],
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query("DELETE FROM group_skills WHERE group_id = $1");
        write.execute(delete.bind(group.as_str())).await?;
        let insert = sqlx::query(
            "INSERT INTO group_skills (group_id, name) SELECT $1, name FROM unnest($2::text[]) AS given (name)",
        )
        .bind(group.as_str())
        .bind(names.to_vec());
        write.execute(insert).await?;
        note_skills(&mut write).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn skills_of_groups_of(&self, tenant: &TenantId) -> Result<Vec<String>, StateError> {
        let query = sqlx::query(
            "SELECT DISTINCT name FROM group_skills JOIN members USING (group_id) WHERE tenant = $1 ORDER BY name",
        )
        .bind(tenant.as_str());
        let rows = self.read().await?.rows(query).await?;
        rows.iter().map(|row| row.text("name")).collect()
    }

    async fn library_revisions(&self, names: &[String]) -> Result<SkillRevisions, StateError> {
        let query = sqlx::query("SELECT name, revision FROM library_skills WHERE name = ANY($1)")
            .bind(names.to_vec());
        revisions(&self.read().await?.rows(query).await?)
    }

    async fn provided_skills(&self, tenant: &TenantId) -> Result<SkillRevisions, StateError> {
        let query = sqlx::query("SELECT name, revision FROM provided_skills WHERE tenant = $1")
            .bind(tenant.as_str());
        revisions(&self.read().await?.rows(query).await?)
    }

    async fn record_provided_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        revision: Option<u64>,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let query = match revision {
            Some(revision) => sqlx::query(
                "INSERT INTO provided_skills (tenant, name, revision) VALUES ($1, $2, $3)
                 ON CONFLICT (tenant, name) DO UPDATE SET revision = excluded.revision",
            )
            .bind(tenant.as_str())
            .bind(name.to_owned())
            .bind(to_column(revision)),
            None => sqlx::query("DELETE FROM provided_skills WHERE tenant = $1 AND name = $2")
                .bind(tenant.as_str())
                .bind(name.to_owned()),
        };
        write.execute(query).await?;
        write.commit().await
    }
}
