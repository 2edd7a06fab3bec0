//! Signing in at an identity provider: OpenID Connect with a code, PKCE and a nonce. Groups of the person become a role.

use std::collections::HashMap;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hermes_config::{Secret, random::random_bytes, sync::Mutex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use url::Url;

mod id_token;
mod provider;

use crate::{
    Problem, ProblemCode,
    api_types::{Role, Time},
    settings::OidcSettings,
    storage::state::SignedInPerson,
};
use id_token::{ExpectedToken, IdTokenError, verify_id_token};
use provider::{FoundProvider, ProviderClient};

/// Longer names are cut.
const MAX_NAME: usize = 200;
/// Longer subjects are none that a provider gives: the standard has 255.
const MAX_SUBJECT: usize = 255;

/// Why somebody is not signed in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    #[error("the sign-in provider cannot be reached: {0}")]
    Unreachable(String),
    #[error("the sign-in provider does not do what it should: {0}")]
    Provider(String),
    #[error("the provider's token is refused: {0}; sign in again")]
    Token(#[from] IdTokenError),
    #[error("the provider has not signed you in: {0}")]
    Refused(String),
    #[error("this is not the end of a sign-in that this browser has begun; sign in again")]
    State,
    #[error(
        "none of your groups has a role here; ask whoever runs this Hub to add one to `oidc.roles`"
    )]
    NoRole,
    #[error("the system's random generator failed")]
    Random,
}

impl From<OidcError> for Problem {
    fn from(error: OidcError) -> Self {
        let code = match &error {
            OidcError::Unreachable(_) | OidcError::Provider(_) | OidcError::Random => {
                ProblemCode::Unavailable
            }
            OidcError::Token(_) | OidcError::Refused(_) | OidcError::State => {
                ProblemCode::Unauthenticated
            }
            OidcError::NoRole => ProblemCode::PermissionDenied,
        };
        Self::new(code, error.to_string())
    }
}

/// A sign-in that has begun. The browser keeps it, encrypted, until it comes back.
#[derive(Serialize, Deserialize)]
pub(crate) struct PendingSignIn {
    pub(crate) state: String,
    nonce: String,
    verifier: String,
    issuer: String,
    /// The page that was wanted.
    pub(crate) next: String,
    pub(crate) expires_at: Time,
}

/// What a provider sends the browser back with.
#[derive(Default, Deserialize)]
pub(crate) struct ProviderReturn {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
    /// Who says so (RFC 9207).
    iss: Option<String>,
}

/// Signs people in at the provider of the settings.
#[derive(Default)]
pub(crate) struct OidcSignIn {
    client: ProviderClient,
    /// Sign-ins that have ended here, until they would be too old anyway.
    ended: Mutex<HashMap<String, Time>>,
}

impl OidcSignIn {
    /// Begins a sign-in. Returns where the browser goes.
    pub(crate) async fn begin(
        &self,
        settings: &OidcSettings,
        redirect_uri: &str,
        next: &str,
        expires_at: Time,
    ) -> Result<(String, PendingSignIn), OidcError> {
        let found = self.client.find(&settings.issuer).await?;
        let pending = PendingSignIn {
            state: random_token()?,
            nonce: random_token()?,
            verifier: random_token()?,
            issuer: settings.issuer.clone(),
            next: next.to_owned(),
            expires_at,
        };
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&pending.verifier));
        let mut address = parse_address(&found.metadata.authorization_endpoint)?;
        address.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", redirect_uri),
            ("scope", &settings.scopes.join(" ")),
            ("state", &pending.state),
            ("nonce", &pending.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok((address.into(), pending))
    }

    /// Ends it: who the person is with the role that their groups give, and the ID token that says so.
    pub(crate) async fn finish(
        &self,
        settings: &OidcSettings,
        redirect_uri: &str,
        pending: &PendingSignIn,
        returned: &ProviderReturn,
    ) -> Result<(SignedInPerson, Secret<String>), OidcError> {
        let now = Time::now();
        let is_own = pending.state == returned.state
            && pending.issuer == settings.issuer
            && returned
                .iss
                .as_ref()
                .is_none_or(|iss| *iss == pending.issuer)
            && now < pending.expires_at;
        if !is_own || !self.end_once(pending, now) {
            return Err(OidcError::State);
        }
        if !returned.error.is_empty() || returned.code.is_empty() {
            let reason = [&returned.error_description, &returned.error];
            let reason = reason.into_iter().find(|text| !text.is_empty());
            let reason = reason.map_or("it gives no code", String::as_str);
            return Err(OidcError::Refused(reason.chars().take(200).collect()));
        }
        let found = self.client.find(&settings.issuer).await?;
        let tokens = self.client.trade_code(
            &found.metadata,
            settings,
            &returned.code,
            &pending.verifier,
            redirect_uri,
        );
        let tokens = tokens.await?;
        let id_token = tokens
            .id_token
            .ok_or_else(|| OidcError::Provider("it gives no ID token".into()))?;
        let expected = ExpectedToken {
            issuer: &settings.issuer,
            client_id: &settings.client_id,
            nonce: &pending.nonce,
            now: u64::try_from(now.millis() / 1000).unwrap_or_default(),
        };
        let claims = match verify_id_token(&id_token, &found.keys, &expected) {
            // It may have other keys since.
            Err(IdTokenError::UnknownKey) => {
                let found = self.client.find_again(&settings.issuer).await?;
                verify_id_token(&id_token, &found.keys, &expected)?
            }
            verified => verified?,
        };
        if claims.sub.is_empty() || claims.sub.len() > MAX_SUBJECT {
            return Err(IdTokenError::Malformed.into());
        }
        let mut known = claims.others;
        if find_groups(&known, &settings.groups_claim).is_none() {
            let token = tokens.access_token.as_deref();
            known.extend(self.more_claims(&found, token, &claims.sub).await?);
        }
        let groups = find_groups(&known, &settings.groups_claim).unwrap_or_default();
        let role = role_of(settings, &groups).ok_or(OidcError::NoRole)?;
        let person = SignedInPerson {
            issuer: settings.issuer.clone(),
            name: person_name(&known).unwrap_or_else(|| claims.sub.clone()),
            subject: claims.sub,
            role,
            id_token: None,
        };
        Ok((person, Secret::new(id_token)))
    }

    /// Whether this sign-in ends for the first time.
    fn end_once(&self, pending: &PendingSignIn, now: Time) -> bool {
        let mut ended = self.ended.lock();
        ended.retain(|_, expires_at| *expires_at > now);
        let state = pending.state.clone();
        ended.insert(state, pending.expires_at).is_none()
    }

    /// Where to sign out at the provider, if it has such a place. With the ID token it does not have to ask the person.
    pub(crate) async fn sign_out_address(
        &self,
        settings: &OidcSettings,
        person: &SignedInPerson,
        id_token: Option<&Secret<String>>,
        back: &str,
    ) -> Option<String> {
        let found = self.client.find(&settings.issuer).await.ok()?;
        let place = found.metadata.end_session_endpoint.as_deref()?;
        let mut address = Url::parse(place).ok()?;
        address.query_pairs_mut().extend_pairs([
            ("client_id", settings.client_id.as_str()),
            ("post_logout_redirect_uri", back),
            ("logout_hint", &person.subject),
        ]);
        if let Some(id_token) = id_token {
            let mut query = address.query_pairs_mut();
            query.append_pair("id_token_hint", id_token.expose());
        }
        Some(address.into())
    }

    async fn more_claims(
        &self,
        found: &FoundProvider,
        access_token: Option<&str>,
        subject: &str,
    ) -> Result<Map<String, Value>, OidcError> {
        let (Some(address), Some(token)) = (&found.metadata.userinfo_endpoint, access_token) else {
            return Ok(Map::new());
        };
        let claims = self.client.user_info(address, token).await?;
        if claims.get("sub").and_then(Value::as_str) != Some(subject) {
            return Err(OidcError::Provider("it speaks of another person".into()));
        }
        Ok(claims)
    }
}

fn random_token() -> Result<String, OidcError> {
    let bytes = random_bytes::<32>().map_err(|_| OidcError::Random)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn parse_address(text: &str) -> Result<Url, OidcError> {
    Url::parse(text).map_err(|_| OidcError::Provider(format!("`{text}` is not an address")))
}

/// The groups in a claim, which may be within others: `realm_access.roles`.
fn find_groups(claims: &Map<String, Value>, claim: &str) -> Option<Vec<String>> {
    let found = claims.get(claim).or_else(|| {
        let mut parts = claim.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    })?;
    match found {
        Value::String(group) => Some(vec![group.clone()]),
        Value::Array(groups) => {
            let groups = groups.iter().filter_map(Value::as_str);
            Some(groups.map(str::to_owned).collect())
        }
        _ => None,
    }
}

/// The role with the most rights. `*` is everybody.
fn role_of(settings: &OidcSettings, groups: &[String]) -> Option<Role> {
    let names = groups.iter().map(String::as_str).chain(["*"]);
    let roles = names.filter_map(|group| settings.roles.get(group).copied());
    roles.reduce(|one, other| {
        if one.scopes().is_subset_of(other.scopes()) {
            other
        } else {
            one
        }
    })
}

fn person_name(claims: &Map<String, Value>) -> Option<String> {
    let named = ["name", "preferred_username", "email"].into_iter();
    let mut texts = named.filter_map(|claim| claims.get(claim)?.as_str());
    let name = texts.find(|name| !name.trim().is_empty())?;
    Some(name.chars().take(MAX_NAME).collect())
}
