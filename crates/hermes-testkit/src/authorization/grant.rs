//! What was granted: codes, access tokens, refresh tokens.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    jwt::sha256_base64url, ledger::Ledger, refusal::OAuthRefusal, setup::RefreshTokens,
    state::AuthorizationState,
};

/// Everything that goes back to one consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct GrantFamily(pub(super) u64);

/// Who may do what, where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) subject: String,
    pub(super) scopes: Vec<String>,
    pub(super) resource: String,
    /// The thumbprint of the key that the token is bound to.
    pub(super) key: Option<String>,
    pub(super) family: GrantFamily,
}

#[derive(Debug)]
pub(super) struct AuthorizationCode {
    pub(super) grant: Grant,
    pub(super) challenge: String,
    pub(super) redirect: String,
    pub(super) ends: Instant,
    pub(super) is_used: bool,
}

#[derive(Debug)]
pub(super) struct AccessToken {
    pub(super) grant: Grant,
    pub(super) ends: Instant,
}

#[derive(Debug)]
pub(super) struct RefreshToken {
    pub(super) grant: Grant,
    pub(super) is_used: bool,
}

/// Whether a client gets a refresh token with its access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefreshPolicy {
    /// As the server has it.
    Allowed,
    /// There is another way to a new one.
    None,
}

impl AuthorizationState {
    /// Issues tokens for a grant: the reply of the token endpoint.
    pub(super) fn issue_tokens(&self, grant: &Grant, renewal: RefreshPolicy) -> Value {
        let mut ledger = self.ledger();
        let access = ledger.new_secret("access");
        let lifetime = ledger.lifetime;
        let kind = if grant.key.is_some() {
            "DPoP"
        } else {
            "Bearer"
        };
        let mut reply = json!({
            "access_token": access, "token_type": kind, "expires_in": lifetime.as_secs(),
        });
        if !grant.scopes.is_empty() {
            reply["scope"] = grant.scopes.join(" ").into();
        }
        if renewal == RefreshPolicy::Allowed && self.setup.refresh_tokens != RefreshTokens::None {
            let refresh = ledger.new_secret("refresh");
            reply["refresh_token"] = refresh.clone().into();
            let kept = RefreshToken {
                grant: grant.clone(),
                is_used: false,
            };
            ledger.refresh.insert(refresh, kept);
        }
        let kept = AccessToken {
            grant: grant.clone(),
            ends: Instant::now() + lifetime,
        };
        ledger.access.insert(access, kept);
        reply
    }

    /// What a code is good for, once.
    pub(super) fn redeem_code(
        &self,
        code: &str,
        client: &str,
        redirect: Option<&str>,
        verifier: &str,
    ) -> Result<Grant, OAuthRefusal> {
        let mut ledger = self.ledger();
        let Some(found) = ledger.codes.get_mut(code) else {
            return Err(OAuthRefusal::grant("no such code"));
        };
        let grant = found.grant.clone();
        if std::mem::replace(&mut found.is_used, true) {
            ledger.withdrawn.insert(grant.family);
            return Err(OAuthRefusal::grant("the code was used before"));
        }
        if found.ends <= Instant::now() {
            return Err(OAuthRefusal::grant("the code has expired"));
        }
        if grant.client != client {
            return Err(OAuthRefusal::grant("the code was issued to another client"));
        }
        if redirect.is_some_and(|redirect| redirect != found.redirect) {
            return Err(OAuthRefusal::grant("the code was sent to another address"));
        }
        if sha256_base64url(verifier) != found.challenge {
            return Err(OAuthRefusal::grant(
                "the verifier does not fit the challenge",
            ));
        }
        ledger.remember(verifier);
        Ok(grant)
    }

    /// What a refresh token is good for. A second use of one that rotates ends its family.
    pub(super) fn redeem_refresh_token(
        &self,
        token: &str,
        client: &str,
    ) -> Result<Grant, OAuthRefusal> {
        let mut ledger = self.ledger();
        let Some(found) = ledger.refresh.get_mut(token) else {
            return Err(OAuthRefusal::grant("no such refresh token"));
        };
        let grant = found.grant.clone();
        if grant.client != client {
            return Err(OAuthRefusal::grant("the token belongs to another client"));
        }
        if self.setup.refresh_tokens == RefreshTokens::Rotating
            && std::mem::replace(&mut found.is_used, true)
        {
            ledger.withdrawn.insert(grant.family);
            return Err(OAuthRefusal::grant("the refresh token was used before"));
        }
        if ledger.withdrawn.contains(&grant.family) {
            return Err(OAuthRefusal::grant("the refresh token was revoked"));
        }
        Ok(grant)
    }

    /// What an access token is good for, as long as it is.
    pub(super) fn grant_of_token(&self, token: &str) -> Option<Grant> {
        let ledger = self.ledger();
        let found = ledger.access.get(token)?;
        let is_good =
            found.ends > Instant::now() && !ledger.withdrawn.contains(&found.grant.family);
        is_good.then(|| found.grant.clone())
    }

    /// The scopes that a request names, if all of them exist.
    pub(super) fn check_scopes(&self, wanted: Option<&str>) -> Result<Vec<String>, OAuthRefusal> {
        let wanted = wanted.unwrap_or_default().split_whitespace();
        let scopes: Vec<String> = wanted.map(str::to_owned).collect();
        let is_known = |scope: &String| scope == "openid" || self.setup.scopes.contains(scope);
        match scopes.iter().find(|scope| !is_known(scope)) {
            Some(unknown) => Err(OAuthRefusal::new(
                "invalid_scope",
                format!("no scope {unknown}"),
            )),
            None => Ok(scopes),
        }
    }

    /// The MCP server that a request names.
    pub(super) fn check_resource(&self, wanted: Option<String>) -> Result<String, OAuthRefusal> {
        let wanted = wanted.ok_or_else(|| OAuthRefusal::new("invalid_target", "no `resource`"))?;
        if self.ledger().resources.contains(&wanted) {
            return Ok(wanted);
        }
        let unknown = format!("no tokens are issued for {wanted}");
        Err(OAuthRefusal::new("invalid_target", unknown))
    }
}

impl Ledger {
    /// Issues a code.
    pub(super) fn add_code(&mut self, grant: Grant, challenge: String, redirect: String) -> String {
        let code = self.new_secret("code");
        let kept = AuthorizationCode {
            grant,
            challenge,
            redirect,
            ends: Instant::now() + Duration::from_mins(1),
            is_used: false,
        };
        self.codes.insert(code.clone(), kept);
        code
    }
}
