//! The first token of a new Hub: without it nobody could create one.

use std::{io, path::Path};

use super::TokenRequest;
use crate::{
    TokenId,
    api_types::{KeyKind, NewKey, Role},
    storage::{
        audit::NewAuditEntry,
        state::{NewSecret, State, StateError},
    },
};

/// Why there is no first token.
#[derive(Debug, thiserror::Error)]
pub enum FirstTokenError {
    /// The file could not be written.
    #[error("the admin token could not be written to its file: {0}")]
    File(#[from] io::Error),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the system gives no random bytes: {0}")]
    Random(#[from] hermes_config::random::RandomError),
}

/// Creates an admin token and writes it to this file, unless there is any token. Returns whether it did.
///
/// The file is written first: a Hub that is killed in between creates another token at the next start, instead of
/// having one that nobody knows.
pub async fn create_first_token(state: &dyn State, file: &Path) -> Result<bool, FirstTokenError> {
    if state.has_tokens().await? {
        return Ok(false);
    }
    let key = NewKey::random(KeyKind::Management)?;
    let id = TokenId::random()?;
    hermes_config::private_file::write_private(
        file,
        format!("{}\n", key.secret.expose()).as_bytes(),
    )?;
    let request = TokenRequest {
        name: "admin".into(),
        role: Some(Role::Admin),
        ..TokenRequest::default()
    };
    let secret = NewSecret {
        hash: key.hash,
        last4: key.last4,
        grace_until: None,
    };
    let entry = NewAuditEntry::by_hub("create_token").with_target(id.as_str());
    state
        .create_token(request.into_token(id, secret), entry)
        .await?;
    Ok(true)
}
