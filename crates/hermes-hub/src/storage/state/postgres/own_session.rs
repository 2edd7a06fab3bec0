//! Transactions of their own, for what locks rows for longer than the writes that share one.

use sqlx::{PgPool, SqlStr};

use super::{
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
            return self.begin(self.server.begin_read()).await;
        }
        Session::reading(&self.pool, &self.server).await
    }

    pub(super) async fn write(&self) -> Result<Session, StateError> {
        self.begin(self.server.begin_write()).await
    }

    async fn begin(&self, how: SqlStr) -> Result<Session, StateError> {
        let begun = self.pool.begin_with(how).await.map_err(database_error)?;
        Ok(Session::in_transaction(begun, &self.server))
    }
}
