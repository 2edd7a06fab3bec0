//! Transactions of their own, for what locks rows for longer than the writes that share one.

use sqlx::PgPool;

use super::{
    BEGIN_READ, BEGIN_WRITE,
    server::ServerLink,
    session::{Session, database_error},
};
use crate::storage::state::StateError;

#[derive(Debug, Clone)]
pub(super) struct OwnSessions {
    pub(super) pool: PgPool,
    pub(super) server: ServerLink,
}

impl OwnSessions {
    pub(super) async fn read(&self) -> Result<Session, StateError> {
        if self.server.is_pooled {
            return self.begin(BEGIN_READ).await;
        }
        let connection = self.pool.acquire().await;
        Ok(Session::direct(
            connection.map_err(database_error)?,
            &self.server,
        ))
    }

    pub(super) async fn write(&self) -> Result<Session, StateError> {
        self.begin(BEGIN_WRITE).await
    }

    async fn begin(&self, how: &'static str) -> Result<Session, StateError> {
        let begun = self.pool.begin_with(how).await.map_err(database_error)?;
        Ok(Session::in_transaction(begun, &self.server))
    }
}
