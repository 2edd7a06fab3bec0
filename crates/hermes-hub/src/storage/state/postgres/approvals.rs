//! Approvals in PostgreSQL.

use async_trait::async_trait;
use hermes_protocol::FormAnswer;
use sqlx::{Postgres, QueryBuilder, Row};

use super::{PostgresState, optional_storable};
use crate::{
    ApprovalId,
    api_types::{Approval, ApprovalState},
    storage::{
        audit::NewAuditEntry,
        state::{
            ApprovalQuery, ApprovalStore, NewDecision, Page, Paged, StateError,
            columns::ColumnReader,
            records::{approval_from_row, not_pending},
        },
    },
};

#[async_trait]
impl ApprovalStore for PostgresState {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StateError> {
        let query = sqlx::query("SELECT * FROM approvals WHERE id = $1").bind(id.as_str());
        let row = self.read().await?.optional(query).await?;
        row.map(|row| approval_from_row(&row)).transpose()
    }

    async fn agent_approval(&self, id: &ApprovalId) -> Result<Option<String>, StateError> {
        let query = sqlx::query("SELECT agent_id FROM approvals WHERE id = $1").bind(id.as_str());
        let row = self.read().await?.optional(query).await?;
        row.map_or(Ok(None), |row| row.optional_text("agent_id"))
    }

    async fn form_answer(&self, id: &ApprovalId) -> Result<Option<FormAnswer>, StateError> {
        let query = sqlx::query("SELECT answer FROM approvals WHERE id = $1").bind(id.as_str());
        let row = self.read().await?.optional(query).await?;
        row.map_or(Ok(None), |row| row.optional_json("answer"))
    }

    async fn approvals(
        &self,
        query: &ApprovalQuery,
        page: &Page,
    ) -> Result<Paged<Approval>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new("SELECT * FROM approvals WHERE TRUE");
        if let Some(only) = &query.only {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            sql.push(" AND tenant = ANY(").push_bind(only).push(")");
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
            sql.push(" AND NOT delivered AND state <> 'pending'");
        }
        if let Some([last]) = page.cursor_key::<1>()? {
            let last: i64 = last.parse().map_err(|_| StateError::BadCursor)?;
            sql.push(" AND number > ").push_bind(last);
        }
        sql.push(" ORDER BY number LIMIT ")
            .push_bind(page.fetch_limit());
        let rows = self.read().await?.rows(sql.build()).await?;
        let approvals: Vec<_> = rows
            .iter()
            .map(|row| Ok::<_, StateError>((row.count("number")?, approval_from_row(row)?)))
            .collect::<Result<_, _>>()?;
        let paged = Paged::from_fetched(approvals, page, |(number, _)| [number.to_string()]);
        Ok(paged.map(|(_, approval)| approval))
    }

    async fn count_pending_approvals(&self) -> Result<u64, StateError> {
        let query =
            sqlx::query("SELECT COUNT(*) AS pending FROM approvals WHERE state = 'pending'");
        self.read().await?.one(query).await?.count("pending")
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
        let mut write = self.begin_change().await?;
        let decided = write
            .optional(
                sqlx::query(
                    "UPDATE approvals SET state = $2, choice = $3, decided_by = $4, decided_at = hub_now(), reason = $5,
                         answer = $6
                     WHERE id = $1 AND state = 'pending' RETURNING *",
                )
                .bind(id.as_str())
                .bind(state.as_str())
                .bind(decision.choice.as_str())
                .bind(&decision.by)
                .bind(optional_storable(decision.reason.as_ref()))
                .bind(answer),
            )
            .await?;
        let Some(row) = decided else {
            let known = sqlx::query("SELECT EXISTS (SELECT 1 FROM approvals WHERE id = $1)");
            let is_known: bool = write.one(known.bind(id.as_str())).await?.try_get(0)?;
            return Err(if is_known {
                not_pending()
            } else {
                StateError::NotFound { what: "approval" }
            });
        };
        let decided = approval_from_row(&row)?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        Ok(decided)
    }

    async fn mark_delivered(&self, id: &ApprovalId) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        write
            .execute(
                sqlx::query("UPDATE approvals SET delivered = TRUE, answer = NULL WHERE id = $1")
                    .bind(id.as_str()),
            )
            .await?;
        write.commit().await
    }
}
