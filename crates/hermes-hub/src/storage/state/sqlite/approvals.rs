//! Approvals in SQLite.

use async_trait::async_trait;
use hermes_protocol::FormAnswer;
use sqlx::{QueryBuilder, Sqlite};

use super::{Affected, SqliteState, commit};
use crate::{
    ApprovalId,
    api_types::{Approval, ApprovalState, Time},
    storage::{
        audit::NewAuditEntry,
        state::{
            ApprovalQuery, ApprovalStore, NewDecision, Page, Paged, StateError,
            columns::{ColumnReader, json_list},
            records::{approval_from_row, not_pending},
        },
    },
};

#[async_trait]
impl ApprovalStore for SqliteState {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StateError> {
        let row = sqlx::query("SELECT * FROM approvals WHERE id = ?1")
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await?;
        row.map(|row| approval_from_row(&row)).transpose()
    }

    async fn agent_approval(&self, id: &ApprovalId) -> Result<Option<String>, StateError> {
        let agent_id: Option<Option<String>> =
            sqlx::query_scalar("SELECT agent_id FROM approvals WHERE id = ?1")
                .bind(id.as_str())
                .fetch_optional(self.readers())
                .await?;
        Ok(agent_id.flatten())
    }

    async fn form_answer(&self, id: &ApprovalId) -> Result<Option<FormAnswer>, StateError> {
        let row = sqlx::query("SELECT answer FROM approvals WHERE id = ?1")
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await?;
        let answer = row.map(|row| row.optional_json("answer")).transpose()?;
        Ok(answer.flatten())
    }

    async fn approvals(
        &self,
        query: &ApprovalQuery,
        page: &Page,
    ) -> Result<Paged<Approval>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM approvals WHERE TRUE");
        if let Some(only) = json_list(query.only.as_deref())? {
            sql.push(" AND tenant IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
        }
        if let Some(run) = &query.run {
            sql.push(" AND run = (SELECT number FROM runs WHERE id = ")
                .push_bind(run.as_str())
                .push(")");
        }
        if query.pending {
            sql.push(" AND state = 'pending'");
        }
        if let Some(before) = query.expired_before {
            sql.push(" AND state = 'pending' AND expires_at < ")
                .push_bind(before.millis());
        }
        if query.undelivered {
            sql.push(" AND delivered = 0 AND state <> 'pending'");
        }
        if let Some([last]) = page.cursor_key::<1>()? {
            let last: i64 = last.parse().map_err(|_| StateError::BadCursor)?;
            sql.push(" AND number > ").push_bind(last);
        }
        sql.push(" ORDER BY number LIMIT ")
            .push_bind(page.fetch_limit());
        let rows = sql.build().fetch_all(self.readers()).await?;
        let approvals: Vec<_> = rows
            .iter()
            .map(|row| Ok::<_, StateError>((row.count("number")?, approval_from_row(row)?)))
            .collect::<Result<_, _>>()?;
        let paged = Paged::from_fetched(approvals, page, |(number, _)| [number.to_string()]);
        Ok(paged.map(|(_, approval)| approval))
    }

    async fn count_pending_approvals(&self) -> Result<u64, StateError> {
        let row = sqlx::query("SELECT COUNT(*) AS pending FROM approvals WHERE state = 'pending'")
            .fetch_one(self.readers())
            .await?;
        row.count("pending")
    }

    async fn decide(
        &self,
        id: &ApprovalId,
        decision: NewDecision,
        entry: NewAuditEntry,
    ) -> Result<Approval, StateError> {
        let state = match decision.by {
            Some(_) => ApprovalState::Decided,
            None => ApprovalState::Expired,
        };
        let answer = decision.answer.as_ref();
        let answer = answer.map(serde_json::to_string).transpose()?;
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let decided = sqlx::query(
            "UPDATE approvals SET state = ?2, choice = ?3, decided_by = ?4, decided_at = ?5, reason = ?6,
                 answer = ?7
             WHERE id = ?1 AND state = 'pending' RETURNING *",
        )
        .bind(id.as_str())
        .bind(state.as_str())
        .bind(decision.choice.as_str())
        .bind(&decision.by)
        .bind(Time::now().millis())
        .bind(&decision.reason)
        .bind(answer)
        .fetch_optional(&mut *write)
        .await?;
        let Some(row) = decided else {
            let known: Option<String> =
                sqlx::query_scalar("SELECT state FROM approvals WHERE id = ?1")
                    .bind(id.as_str())
                    .fetch_optional(&mut *write)
                    .await?;
            return Err(match known {
                Some(_) => not_pending(),
                None => StateError::NotFound { what: "approval" },
            });
        };
        let decided = approval_from_row(&row)?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await?;
        Ok(decided)
    }

    async fn mark_delivered(&self, id: &ApprovalId) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query("UPDATE approvals SET delivered = 1, answer = NULL WHERE id = ?1")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        commit(write).await
    }
}
