//! Rules for creating and rotating tokens: nobody grants more rights than they have. The first token of a new Hub:
//! without it nobody could create one.

use std::{io, path::Path};

use schemars::JsonSchema;
use serde::Deserialize;

use super::Principal;
use crate::{
    Problem, TenantId, TokenId,
    api_types::{Cidr, KeyKind, NewKey, Role, Scope, Time, Token},
    storage::{
        audit::NewAuditEntry,
        state::{NewSecret, NewToken, State, StateError},
    },
};

/// A token that somebody wants.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// Its name for people.
    pub name: String,
    /// Scopes by name.
    #[serde(default)]
    pub role: Option<Role>,
    /// More scopes.
    #[serde(default)]
    pub scopes: Vec<Scope>,
    /// The tenants it sees; all, if absent.
    #[serde(default)]
    pub tenants: Option<Vec<TenantId>>,
    /// Where it may be used from; anywhere, if empty.
    #[serde(default)]
    pub cidrs: Vec<Cidr>,
    /// When it ends.
    #[serde(default)]
    pub expires_at: Option<Time>,
}

impl TokenRequest {
    pub fn into_token(self, id: TokenId, secret: NewSecret) -> NewToken {
        NewToken {
            id,
            name: self.name,
            role: self.role,
            scopes: self.scopes,
            tenants: self.tenants,
            cidrs: self.cidrs,
            expires_at: self.expires_at,
            secret,
        }
    }
}

/// Refuses a token without rights, and one with more rights than its creator.
pub fn check_request(maker: &Principal, request: &TokenRequest) -> Result<(), Problem> {
    maker.require(Scope::TokensAdmin)?;
    maker.require_whole_hub()?;
    let length = request.name.chars().count();
    if !(1..=200).contains(&length) {
        return Err(
            Problem::invalid("a token needs a name of 1 to 200 characters")
                .with_detail("name", "length"),
        );
    }
    if request.role.is_none() && request.scopes.is_empty() {
        return Err(
            Problem::invalid("a token needs a role or scopes").with_detail("role", "required")
        );
    }
    if request.expires_at.is_some_and(|end| end <= Time::now()) {
        return Err(
            Problem::invalid("the token would already be expired").with_detail("expiresAt", "past")
        );
    }
    let token = Token {
        id: maker.token.clone(),
        name: request.name.clone(),
        role: request.role,
        scopes: request.scopes.clone(),
        tenants: request.tenants.clone(),
        cidrs: request.cidrs.clone(),
        last4: String::new(),
        expires_at: request.expires_at,
        last_used_at: None,
    };
    check_enclosed(maker, &token, "the token would go")
}

/// Refuses to rotate or revoke a token that has more rights than the caller.
pub fn check_change(by: &Principal, token: &Token) -> Result<(), Problem> {
    by.require(Scope::TokensAdmin)?;
    by.require_whole_hub()?;
    check_enclosed(by, token, "the token goes")
}

fn check_enclosed(by: &Principal, token: &Token, goes: &str) -> Result<(), Problem> {
    by.check_encloses(&Principal::from(token)).map_err(|field| {
        Problem::denied(format!(
            "{goes} beyond your own in `{field}`; ask for less, or use a stronger token"
        ))
        .with_reason("beyond_own_token")
        .with_detail(field, "beyond your own token")
    })
}

/// Why there is no first token.
#[derive(Debug, thiserror::Error)]
pub enum FirstTokenError {
    /// The file could not be written.
    #[error("the admin token could not be written to its file: {0}")]
    File(#[from] io::Error),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the system's random generator failed: {0}")]
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
    let is_made = state
        .create_first_token(request.into_token(id, secret), entry)
        .await?;
    if !is_made {
        // Another node was first, and this one is good for nothing.
        std::fs::remove_file(file)?;
    }
    Ok(is_made)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn maker(role: Option<Role>, scopes: &[Scope]) -> Principal {
        Principal::from(&Token {
            id: TokenId::parse("tok_1").unwrap(),
            name: "maker".into(),
            role,
            scopes: scopes.to_vec(),
            tenants: None,
            cidrs: Vec::new(),
            last4: String::new(),
            expires_at: None,
            last_used_at: None,
        })
    }

    fn wanted(role: Role) -> TokenRequest {
        TokenRequest {
            name: "ci".into(),
            role: Some(role),
            ..TokenRequest::default()
        }
    }

    #[test]
    fn nobody_hands_out_more_scopes_than_they_have() {
        let admin = maker(Some(Role::Admin), &[]);
        assert!(check_request(&admin, &wanted(Role::Admin)).is_ok());
        let lesser = maker(Some(Role::Viewer), &[Scope::TokensAdmin]);
        assert!(check_request(&lesser, &wanted(Role::Viewer)).is_ok());
        let refused = check_request(&lesser, &wanted(Role::Operator)).unwrap_err();
        assert_eq!(refused.details[0].field, "scopes");
        let without = maker(Some(Role::Operator), &[]);
        assert!(check_request(&without, &wanted(Role::Viewer)).is_err());
    }

    #[test]
    fn a_token_for_some_tenants_makes_none() {
        let mut bound = maker(Some(Role::Admin), &[]);
        bound.tenants = Some([TenantId::parse("a").unwrap()].into());
        assert!(check_request(&bound, &wanted(Role::Viewer)).is_err());
    }

    #[test]
    fn a_token_that_ends_makes_only_such_that_end_no_later() {
        let mut ending = maker(Some(Role::Admin), &[]);
        let end = Time::now().after(Duration::from_hours(1));
        ending.expires_at = Some(end);
        assert!(check_request(&ending, &wanted(Role::Viewer)).is_err());
        let mut request = wanted(Role::Viewer);
        request.expires_at = Some(end);
        assert!(check_request(&ending, &request).is_ok());
        request.expires_at = Some(end.after(Duration::from_millis(1)));
        assert!(check_request(&ending, &request).is_err());
    }

    #[test]
    fn a_token_bound_to_addresses_makes_none_that_is_not() {
        let mut bound = maker(Some(Role::Admin), &[]);
        bound.cidrs = ["10.0.0.0/8".parse().unwrap()].into();
        assert!(check_request(&bound, &wanted(Role::Viewer)).is_err());
        let mut request = wanted(Role::Viewer);
        request.cidrs = vec!["10.1.0.0/16".parse().unwrap()];
        assert!(check_request(&bound, &request).is_ok());
    }

    #[test]
    fn a_lesser_token_neither_gets_the_secret_of_a_stronger_one_nor_ends_it() {
        let lesser = maker(Some(Role::Viewer), &[Scope::TokensAdmin]);
        let strong = Token {
            id: TokenId::parse("tok_2").unwrap(),
            name: "admin".into(),
            role: Some(Role::Admin),
            scopes: Vec::new(),
            tenants: None,
            cidrs: Vec::new(),
            last4: String::new(),
            expires_at: None,
            last_used_at: None,
        };
        assert!(check_change(&lesser, &strong).is_err());
    }

    #[test]
    fn a_token_without_a_use_is_refused() {
        let admin = maker(Some(Role::Admin), &[]);
        let nothing = TokenRequest {
            name: "x".into(),
            ..TokenRequest::default()
        };
        assert!(check_request(&admin, &nothing).is_err());
        let mut nameless = wanted(Role::Viewer);
        nameless.name = String::new();
        assert!(check_request(&admin, &nameless).is_err());
    }
}
