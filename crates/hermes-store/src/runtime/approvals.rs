//! Approvals: what processes ask, and what became of it.
//!
//! `open` → `answered` → `resolved`, all by the owner alone: rows are a record, and decide nothing. A row that somebody
//! else has changed is opened again.

use std::time::Duration;

use hermes_config::random::random_digits;
use sqlx::sqlite::SqliteRow;

use super::RuntimeStore;
use crate::{SessionId, SessionKey, StoreError, clock::epoch_seconds, db::row};

/// An approval request. Its texts are redacted by the owner.
#[derive(Debug, Clone, PartialEq)]
pub struct NewApproval {
    /// Letters, digits, `_` and `-`, 64 at most.
    pub id: String,
    /// `exec`, `mcp` or `plugin`.
    pub kind: String,
    /// The chat it is about.
    pub session_key: Option<SessionKey>,
    pub session: Option<SessionId>,
    pub run_id: Option<String>,
    /// What would be done.
    pub command: String,
    /// Why that is asked.
    pub description: String,
    /// The rules that a lasting answer would be remembered for.
    pub pattern_keys: Vec<String>,
    /// Whether "always" may be answered.
    pub allow_permanent: bool,
    /// How long the owner waits for an answer.
    pub timeout: Option<Duration>,
    /// The process that waits.
    pub owner_pid: u32,
    /// When that process started, so that another one of the same number is not taken for it.
    pub owner_start: Option<i64>,
}

/// A name for a question, short enough to go into a button of a chat.
pub fn new_approval_id() -> String {
    format!("ap_{}", random_digits(12))
}

/// A question and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    pub id: String,
    /// `exec`, `mcp` or `plugin`.
    pub kind: String,
    /// The chat it is about.
    pub session_key: Option<SessionKey>,
    pub session: Option<SessionId>,
    pub run_id: Option<String>,
    /// What would be done.
    pub command: String,
    /// Why that is asked.
    pub description: String,
    /// The rules that a lasting answer would be remembered for.
    pub pattern_keys: Vec<String>,
    /// Whether "always" may be answered.
    pub allow_permanent: bool,
    pub state: ApprovalState,
    /// Seconds since 1970.
    pub created_at: f64,
    /// Seconds since 1970.
    pub expires_at: Option<f64>,
    /// The process that waits.
    pub owner_pid: i64,
    /// When that process started.
    pub owner_start: Option<i64>,
    pub answer: Option<ApprovalAnswer>,
    pub answered_by: Option<String>,
    pub reason: Option<String>,
    /// What became of it, in the words of [`ApprovalOutcome`].
    pub outcome: Option<String>,
    /// Seconds since 1970.
    pub resolved_at: Option<f64>,
}

/// How far a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    /// Nobody has answered.
    Open,
    /// Answered, but the owner has not yet acted on it.
    Answered,
    /// Done with.
    Resolved,
}

/// What can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Yes, this time.
    Once,
    /// Yes, for this session.
    Session,
    /// Yes, from now on.
    Always,
    Deny,
}

impl ApprovalAnswer {
    /// The word stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::Deny => "deny",
        }
    }

    /// Reads such a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Once, Self::Session, Self::Always, Self::Deny]
            .into_iter()
            .find(|answer| answer.as_str() == word)
    }
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOutcome {
    Answered(ApprovalAnswer),
    /// Nobody answered in time, or the owner is gone.
    Expired,
    /// The owner no longer wants to know.
    Cancelled,
}

impl ApprovalOutcome {
    /// The word stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered(answer) => answer.as_str(),
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerReceipt {
    /// It is the one that counts.
    Accepted,
    /// There is no such question.
    NotFound,
    /// It was answered or closed before.
    TooLate,
    /// This question cannot be answered forever.
    NotPermanent,
}

const COLUMNS: &str = "id, kind, session_key, session_id, run_id, command, description, pattern_keys, \
     allow_permanent, state, created_at, expires_at, owner_pid, owner_start, answer, answered_by, reason, outcome, \
     resolved_at";

impl Approval {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        let text = |column| row::text(found, column);
        let keys = row::json(found, "pattern_keys")?;
        Ok(Self {
            id: row::required_text(found, "id")?,
            kind: row::required_text(found, "kind")?,
            session_key: text("session_key")?.map(SessionKey::new),
            session: text("session_id")?.map(SessionId::from_stored),
            run_id: text("run_id")?,
            command: row::required_text(found, "command")?,
            description: row::required_text(found, "description")?,
            pattern_keys: keys
                .and_then(|keys| serde_json::from_value(keys).ok())
                .unwrap_or_default(),
            allow_permanent: row::integer(found, "allow_permanent")? != 0,
            state: match row::required_text(found, "state")?.as_str() {
                "open" => ApprovalState::Open,
                "answered" => ApprovalState::Answered,
                _ => ApprovalState::Resolved,
            },
            created_at: row::real(found, "created_at")?.unwrap_or_default(),
            expires_at: row::real(found, "expires_at")?,
            owner_pid: row::integer(found, "owner_pid")?,
            owner_start: row::optional_integer(found, "owner_start")?,
            answer: text("answer")?.as_deref().and_then(ApprovalAnswer::parse),
            answered_by: text("answered_by")?,
            reason: text("reason")?,
            outcome: text("outcome")?,
            resolved_at: row::real(found, "resolved_at")?,
        })
    }
}

impl RuntimeStore {
    pub async fn publish_approval(&self, approval: &NewApproval) -> Result<(), StoreError> {
        let sign = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=64).contains(&approval.id.len()) || !approval.id.chars().all(sign) {
            return Err(StoreError::BadApprovalId {
                id: approval.id.clone(),
            });
        }
        let now = epoch_seconds();
        let mut write = self.database.begin().await?;
        sqlx::query(
            "INSERT INTO approvals (id, kind, session_key, session_id, run_id, command, description, pattern_keys, \
             allow_permanent, state, created_at, expires_at, owner_pid, owner_start) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'open', ?10, ?11, ?12, ?13)",
        )
        .bind(&approval.id)
        .bind(&approval.kind)
        .bind(approval.session_key.as_ref().map(SessionKey::as_str))
        .bind(approval.session.as_ref().map(SessionId::as_str))
        .bind(&approval.run_id)
        .bind(&approval.command)
        .bind(&approval.description)
        .bind(serde_json::json!(approval.pattern_keys).to_string())
        .bind(approval.allow_permanent)
        .bind(now)
        .bind(approval.timeout.map(|timeout| now + timeout.as_secs_f64()))
        .bind(approval.owner_pid)
        .bind(approval.owner_start)
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// The question of that name.
    pub async fn approval(&self, id: &str) -> Result<Option<Approval>, StoreError> {
        let found = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE id = ?1"
        )))
        .bind(id)
        .fetch_optional(self.database.readers())
        .await;
        found
            .and_then(|found| found.as_ref().map(Approval::read).transpose())
            .map_err(|error| self.database.error(error))
    }

    /// The questions nobody has answered and whose time is not over, oldest first. Whether their owners still live
    /// is for the caller to see.
    pub async fn open_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE state = 'open' \
             AND (expires_at IS NULL OR expires_at > ?1) ORDER BY created_at, id"
        )))
        .bind(epoch_seconds())
        .fetch_all(self.database.readers())
        .await;
        rows.and_then(|rows| rows.iter().map(Approval::read).collect())
            .map_err(|error| self.database.error(error))
    }

    /// The same of one run.
    pub async fn open_approvals_of_run(&self, run: &str) -> Result<Vec<Approval>, StoreError> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE run_id = ?1 AND state = 'open' \
             AND (expires_at IS NULL OR expires_at > ?2) ORDER BY created_at, id"
        )))
        .bind(run)
        .bind(epoch_seconds())
        .fetch_all(self.database.readers())
        .await;
        rows.and_then(|rows| rows.iter().map(Approval::read).collect())
            .map_err(|error| self.database.error(error))
    }

    /// Records an answer. The first one counts.
    pub async fn answer_approval(
        &self,
        id: &str,
        answer: ApprovalAnswer,
        by: &str,
        reason: Option<&str>,
    ) -> Result<AnswerReceipt, StoreError> {
        let mut write = self.database.begin().await?;
        let found = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE id = ?1"
        )))
        .bind(id)
        .fetch_optional(&mut *write)
        .await
        .and_then(|found| found.as_ref().map(Approval::read).transpose())
        .map_err(|error| self.database.error(error))?;
        let now = epoch_seconds();
        let Some(approval) = found else {
            return Ok(AnswerReceipt::NotFound);
        };
        if approval.state != ApprovalState::Open
            || approval.expires_at.is_some_and(|expires| expires <= now)
        {
            return Ok(AnswerReceipt::TooLate);
        }
        if answer == ApprovalAnswer::Always && !approval.allow_permanent {
            return Ok(AnswerReceipt::NotPermanent);
        }
        sqlx::query(
            "UPDATE approvals SET state = 'answered', answer = ?2, answered_by = ?3, answered_at = ?4, reason = ?5 \
             WHERE id = ?1",
        )
        .bind(id)
        .bind(answer.as_str())
        .bind(by)
        .bind(now)
        .bind(reason)
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(AnswerReceipt::Accepted)
    }

    /// Makes a question open again that somebody but its owner has answered or closed. Returns whether it was.
    pub async fn reopen_approval(&self, id: &str) -> Result<bool, StoreError> {
        let mut write = self.database.begin().await?;
        let done = sqlx::query(
            "UPDATE approvals SET state = 'open', answer = NULL, answered_by = NULL, answered_at = NULL, \
             reason = NULL, outcome = NULL, resolved_at = NULL WHERE id = ?1 AND state != 'open'",
        )
        .bind(id)
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Closes a question. Returns whether it was still to be closed.
    pub async fn resolve_approval(
        &self,
        id: &str,
        outcome: ApprovalOutcome,
    ) -> Result<bool, StoreError> {
        let mut write = self.database.begin().await?;
        let done = sqlx::query(
            "UPDATE approvals SET state = 'resolved', outcome = ?2, resolved_at = ?3 \
             WHERE id = ?1 AND state != 'resolved'",
        )
        .bind(id)
        .bind(outcome.as_str())
        .bind(epoch_seconds())
        .execute(&mut *write)
        .await
        .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Closes every question whose time is over, and those whose owner `is_gone`. Returns which.
    pub async fn expire_approvals(
        &self,
        is_gone: impl Fn(&Approval) -> bool,
    ) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM approvals WHERE state != 'resolved'"
        )))
        .fetch_all(self.database.readers())
        .await;
        let unresolved: Vec<Approval> = rows
            .and_then(|rows| rows.iter().map(Approval::read).collect())
            .map_err(|error| self.database.error(error))?;
        let now = epoch_seconds();
        let mut expired = Vec::new();
        for approval in unresolved {
            let late = approval.state == ApprovalState::Open
                && approval.expires_at.is_some_and(|expires| expires <= now);
            if (late || is_gone(&approval))
                && self
                    .resolve_approval(&approval.id, ApprovalOutcome::Expired)
                    .await?
            {
                expired.push(approval.id);
            }
        }
        Ok(expired)
    }

    /// Forgets questions that were closed that long ago.
    pub async fn prune_approvals(&self, age: Duration) -> Result<u64, StoreError> {
        let mut write = self.database.begin().await?;
        let done =
            sqlx::query("DELETE FROM approvals WHERE state = 'resolved' AND resolved_at < ?1")
                .bind(epoch_seconds() - age.as_secs_f64())
                .execute(&mut *write)
                .await
                .map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }
}
