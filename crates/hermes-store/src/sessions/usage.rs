//! What a session cost: tokens, calls and money, in all and by model.

use sqlx::{SqliteConnection, sqlite::SqliteRow};

use crate::{SessionId, Store, StoreError, clock::epoch_seconds, db::row};

/// What one call to a model, or a whole session, took and gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionUsage {
    /// Calls to the model.
    pub api_calls: i64,
    /// Tokens sent.
    pub input_tokens: i64,
    /// Tokens received.
    pub output_tokens: i64,
    /// Of those sent, read from the provider's cache.
    pub cache_read_tokens: i64,
    /// Of those sent, written to the provider's cache.
    pub cache_write_tokens: i64,
    /// Tokens of thinking.
    pub reasoning_tokens: i64,
    /// What it should cost.
    pub estimated_cost_usd: Option<f64>,
    /// What it did cost.
    pub actual_cost_usd: Option<f64>,
    /// How sure that is.
    pub cost_status: Option<String>,
    /// Who is paid.
    pub billing_provider: Option<String>,
    /// Where.
    pub billing_base_url: Option<String>,
    /// By which plan.
    pub billing_mode: Option<String>,
}

impl SessionUsage {
    pub(super) fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            api_calls: row::integer(found, "api_call_count")?,
            input_tokens: row::integer(found, "input_tokens")?,
            output_tokens: row::integer(found, "output_tokens")?,
            cache_read_tokens: row::integer(found, "cache_read_tokens")?,
            cache_write_tokens: row::integer(found, "cache_write_tokens")?,
            reasoning_tokens: row::integer(found, "reasoning_tokens")?,
            estimated_cost_usd: row::real(found, "estimated_cost_usd")?,
            actual_cost_usd: row::real(found, "actual_cost_usd")?,
            cost_status: row::text(found, "cost_status")?,
            billing_provider: row::text(found, "billing_provider")?,
            billing_base_url: row::text(found, "billing_base_url")?,
            billing_mode: row::text(found, "billing_mode")?,
        })
    }
}

/// The part of a session's usage that went to one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelUsage {
    pub model: String,
    /// What it was used for; empty for the conversation itself.
    pub task: String,
    /// What it took.
    pub usage: SessionUsage,
}

impl Store {
    /// Adds a call's usage to the session and to the model's share of it. A side task (`vision`, `compression`)
    /// is named, and counted for the model alone.
    pub async fn record_usage(
        &self,
        id: &SessionId,
        model: &str,
        task: Option<&str>,
        usage: &SessionUsage,
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        if task.is_none() {
            let rows = add_to_session(&mut write, id, model, usage)
                .await
                .map_err(|error| self.error(error))?;
            super::require_row(rows, id)?;
        }
        add_to_model(&mut write, id, model, task.unwrap_or_default(), usage)
            .await
            .map_err(|error| match crate::db::sqlite_error_kind(&error) {
                Some(crate::db::SqliteErrorKind::ForeignKey) => {
                    StoreError::NoSuchSession { id: id.clone() }
                }
                _ => self.error(error),
            })?;
        write.commit_without_checkpoint().await
    }

    /// What each model took, the dearest in tokens first.
    pub async fn model_usage(&self, id: &SessionId) -> Result<Vec<ModelUsage>, StoreError> {
        if !self.layout().has("session_model_usage") {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(
            "SELECT model, task, billing_provider, billing_base_url, billing_mode, api_call_count, input_tokens, \
             output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, estimated_cost_usd, \
             actual_cost_usd, cost_status FROM session_model_usage WHERE session_id = ?1 \
             ORDER BY input_tokens + output_tokens DESC, model, task",
        )
        .bind(id.as_str())
        .fetch_all(self.readers())
        .await
        .map_err(|error| self.error(error))?;
        rows.iter()
            .map(|found| {
                Ok(ModelUsage {
                    model: row::required_text(found, "model")?,
                    task: row::required_text(found, "task")?,
                    usage: SessionUsage::read(found)?,
                })
            })
            .collect::<Result<_, _>>()
            .map_err(|error| self.error(error))
    }
}

/// The first call that is paid for decides what the row says about model and billing.
async fn add_to_session(
    connection: &mut SqliteConnection,
    id: &SessionId,
    model: &str,
    usage: &SessionUsage,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "UPDATE sessions SET \
         model = CASE WHEN COALESCE(api_call_count, 0) = 0 THEN ?2 ELSE COALESCE(model, ?2) END, \
         billing_provider = CASE WHEN COALESCE(api_call_count, 0) = 0 THEN COALESCE(?12, billing_provider) \
         ELSE COALESCE(billing_provider, ?12) END, \
         billing_base_url = CASE WHEN COALESCE(api_call_count, 0) = 0 THEN COALESCE(?13, billing_base_url) \
         ELSE COALESCE(billing_base_url, ?13) END, \
         billing_mode = CASE WHEN COALESCE(api_call_count, 0) = 0 THEN COALESCE(?14, billing_mode) \
         ELSE COALESCE(billing_mode, ?14) END, \
         api_call_count = COALESCE(api_call_count, 0) + ?3, \
         input_tokens = COALESCE(input_tokens, 0) + ?4, \
         output_tokens = COALESCE(output_tokens, 0) + ?5, \
         cache_read_tokens = COALESCE(cache_read_tokens, 0) + ?6, \
         cache_write_tokens = COALESCE(cache_write_tokens, 0) + ?7, \
         reasoning_tokens = COALESCE(reasoning_tokens, 0) + ?8, \
         estimated_cost_usd = CASE WHEN ?9 IS NULL THEN estimated_cost_usd \
         ELSE COALESCE(estimated_cost_usd, 0) + ?9 END, \
         actual_cost_usd = CASE WHEN ?10 IS NULL THEN actual_cost_usd \
         ELSE COALESCE(actual_cost_usd, 0) + ?10 END, \
         cost_status = COALESCE(?11, cost_status) WHERE id = ?1",
    )
    .bind(id.as_str())
    .bind(model)
    .bind(usage.api_calls)
    .bind(usage.input_tokens)
    .bind(usage.output_tokens)
    .bind(usage.cache_read_tokens)
    .bind(usage.cache_write_tokens)
    .bind(usage.reasoning_tokens)
    .bind(usage.estimated_cost_usd)
    .bind(usage.actual_cost_usd)
    .bind(&usage.cost_status)
    .bind(&usage.billing_provider)
    .bind(&usage.billing_base_url)
    .bind(&usage.billing_mode)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

async fn add_to_model(
    connection: &mut SqliteConnection,
    id: &SessionId,
    model: &str,
    task: &str,
    usage: &SessionUsage,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO session_model_usage (session_id, model, billing_provider, billing_base_url, billing_mode, task, \
         api_call_count, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, \
         estimated_cost_usd, actual_cost_usd, cost_status, first_seen, last_seen) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16) \
         ON CONFLICT(session_id, model, billing_provider, billing_base_url, billing_mode, task) DO UPDATE SET \
         api_call_count = api_call_count + excluded.api_call_count, \
         input_tokens = input_tokens + excluded.input_tokens, \
         output_tokens = output_tokens + excluded.output_tokens, \
         cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens, \
         cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens, \
         reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens, \
         estimated_cost_usd = estimated_cost_usd + excluded.estimated_cost_usd, \
         actual_cost_usd = actual_cost_usd + excluded.actual_cost_usd, \
         cost_status = COALESCE(excluded.cost_status, cost_status), \
         last_seen = excluded.last_seen",
    )
    .bind(id.as_str())
    .bind(model)
    .bind(usage.billing_provider.as_deref().unwrap_or_default())
    .bind(usage.billing_base_url.as_deref().unwrap_or_default())
    .bind(usage.billing_mode.as_deref().unwrap_or_default())
    .bind(task)
    .bind(usage.api_calls)
    .bind(usage.input_tokens)
    .bind(usage.output_tokens)
    .bind(usage.cache_read_tokens)
    .bind(usage.cache_write_tokens)
    .bind(usage.reasoning_tokens)
    .bind(usage.estimated_cost_usd.unwrap_or_default())
    .bind(usage.actual_cost_usd.unwrap_or_default())
    .bind(&usage.cost_status)
    .bind(epoch_seconds())
    .execute(connection)
    .await?;
    Ok(())
}
