//! A login from beginning to end: find the authorization server, be its client, send the person there, take what comes
//! back, keep it. The old tokens stay until there are new ones.

use futures::future::BoxFuture;
use hermes_config::{
    ServerName,
    server::{DpopUse, HttpSettings, OAuthGrant, OAuthSettings},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::{
    Challenge, ClientIdentity, LoginFlow, LoginSummary, LoginUi, OAuthError, ServerMetadata,
    TokenFiles, Tokens,
    callback::BrowserReply,
    challenge::AuthScheme,
    client::{ClientAuthMethod, ClientLookup, ClientOrigin, OAuthClient},
    discovery::{self, DiscoveredServer, is_same_issuer},
    dpop::{DpopKey, Nonces},
    requests::OAuthHttpClient,
    token_endpoint::TokenEndpoint,
};
use crate::oauth::tokens;

/// A login that waits for its answer.
#[derive(Clone, Serialize, Deserialize)]
pub struct PendingLogin {
    pub(super) state: String,
    pub(super) verifier: String,
    pub(super) redirect_uri: String,
    pub(super) resource: String,
    pub(super) scope: Option<String>,
    pub(super) dpop_key: Option<String>,
    pub(super) metadata: ServerMetadata,
    pub(super) client_id: String,
    /// In seconds since 1970.
    pub(super) began: u64,
}

#[derive(Clone)]
pub struct Login {
    pub(super) server: ServerName,
    pub(super) http: HttpSettings,
    pub(super) settings: OAuthSettings,
    pub(super) files: TokenFiles,
    pub(super) nonces: Nonces,
    /// What comes back with the browser; random unless somebody gives it.
    pub(super) state: Option<String>,
}

/// What is known before anybody is asked.
pub(super) struct LoginContext {
    pub(super) requests: OAuthHttpClient,
    pub(super) challenge: Challenge,
    pub(super) discovered: DiscoveredServer,
    /// What an earlier login with the same authorization server brought.
    pub(super) earlier_tokens: Option<Tokens>,
}

impl Login {
    /// For a server whose references are filled in.
    pub fn new(
        server: ServerName,
        http: HttpSettings,
        settings: OAuthSettings,
        files: TokenFiles,
    ) -> Self {
        Self {
            server,
            http,
            settings,
            files,
            nonces: Nonces::default(),
            state: None,
        }
    }

    /// With a state by which whoever receives the browser knows the login. It must not be guessable.
    #[must_use]
    pub fn with_state(mut self, state: String) -> Self {
        self.state = Some(state);
        self
    }

    /// Where it is kept.
    pub fn files(&self) -> &TokenFiles {
        &self.files
    }

    /// Logs in. Without a flow, the settings and the authorization server decide which it is.
    pub fn run<'a>(
        &'a self,
        person: &'a dyn LoginUi,
        flow: Option<LoginFlow>,
    ) -> BoxFuture<'a, Result<LoginSummary, OAuthError>> {
        Box::pin(async move {
            let limit = self.settings.timeout;
            let mut waiting = BrowserReply::none();
            let login = Box::pin(self.log_in(person, flow, &mut waiting));
            let ended = match tokio::time::timeout(limit, login).await {
                Ok(ended) => ended,
                Err(_) => Err(OAuthError::TimedOut(limit)),
            };
            // However it ended: whoever waits at the browser hears of it.
            waiting.send(&self.server, ended.as_ref().err()).await;
            ended
        })
    }

    async fn log_in(
        &self,
        person: &dyn LoginUi,
        flow: Option<LoginFlow>,
        waiting: &mut BrowserReply,
    ) -> Result<LoginSummary, OAuthError> {
        let prepared = self.prepare(None).await?;
        let tokens = match (flow, self.grant(&prepared.discovered.metadata)) {
            (Some(LoginFlow::Device), _) | (None, OAuthGrant::DeviceCode) => {
                self.log_in_with_device_code(&prepared, person).await?
            }
            (Some(LoginFlow::ClientCredentials), _) => {
                let grant = OAuthGrant::ClientCredentials;
                self.log_in_noninteractively(&prepared, grant, None).await?
            }
            (
                None,
                grant @ (OAuthGrant::ClientCredentials
                | OAuthGrant::JwtBearer
                | OAuthGrant::EnterpriseManaged),
            ) => self.log_in_noninteractively(&prepared, grant, None).await?,
            (flow, _) => {
                self.log_in_with_code(&prepared, person, flow, waiting)
                    .await?
            }
        };
        self.store_tokens(&prepared.discovered.metadata, tokens)
            .await
    }

    /// Finds out who gives out tokens. Without a challenge the last one counts, or the server is asked for one.
    pub(super) async fn prepare(
        &self,
        challenge: Option<&Challenge>,
    ) -> Result<LoginContext, OAuthError> {
        let requests = OAuthHttpClient::new(&self.http).await?;
        let server = self.url()?;
        let challenge = match challenge {
            Some(challenge) => challenge.clone(),
            None => match self
                .files
                .challenge()
                .filter(|kept| is_challenge_of(kept, &server))
            {
                Some(challenge) => challenge,
                None => request_challenge(&requests, &server).await?,
            },
        };
        let discovered = discovery::discover(&requests, &server, &challenge).await?;
        let earlier = self
            .files
            .tokens()
            .filter(|tokens| self.is_issued_by(tokens, &discovered.metadata));
        Ok(LoginContext {
            requests,
            challenge,
            discovered,
            earlier_tokens: earlier,
        })
    }

    /// Whether tokens come from this authorization server.
    pub(super) fn is_issued_by(&self, tokens: &Tokens, metadata: &ServerMetadata) -> bool {
        let issuer = tokens
            .issuer
            .clone()
            .or_else(|| self.files.metadata().map(|kept| kept.issuer));
        issuer.is_some_and(|issuer| is_same_issuer(&issuer, &metadata.issuer))
    }

    pub(super) fn url(&self) -> Result<Url, OAuthError> {
        Url::parse(&self.http.url).map_err(|error| OAuthError::Setting {
            key: "url",
            reason: error.to_string(),
        })
    }

    /// Which way tokens are got.
    pub(super) fn grant(&self, metadata: &ServerMetadata) -> OAuthGrant {
        let settings = &self.settings;
        let has_credentials = settings.client_secret.is_some() || settings.private_key.is_some();
        if let Some(grant) = settings.grant {
            grant
        } else if settings.enterprise.is_some() {
            OAuthGrant::EnterpriseManaged
        } else if settings.assertion.is_some() {
            OAuthGrant::JwtBearer
        } else if metadata.supports_grant("authorization_code") {
            OAuthGrant::AuthorizationCode
        } else if has_credentials && metadata.supports_grant("client_credentials") {
            OAuthGrant::ClientCredentials
        } else if metadata.supports_grant(super::device::DEVICE_CODE_GRANT) {
            OAuthGrant::DeviceCode
        } else {
            OAuthGrant::AuthorizationCode
        }
    }

    pub(super) fn may_be_noninteractive(&self) -> bool {
        Self::supports_noninteractive(&self.settings)
    }

    /// Whether tokens may be had without a person; what the authorization server offers may still be against it.
    pub fn supports_noninteractive(settings: &OAuthSettings) -> bool {
        match settings.grant {
            Some(OAuthGrant::AuthorizationCode | OAuthGrant::DeviceCode) => false,
            Some(_) => true,
            None => {
                settings.enterprise.is_some()
                    || settings.assertion.is_some()
                    || settings.client_id.is_some()
                        && (settings.client_secret.is_some() || settings.private_key.is_some())
            }
        }
    }

    /// What to ask for: the user's words, else the server's, and what earlier logins had.
    pub(super) fn scope(&self, prepared: &LoginContext, grant: OAuthGrant) -> Option<String> {
        let LoginContext {
            challenge,
            discovered: found,
            ..
        } = prepared;
        let challenged = challenge.scope.as_deref();
        if let Some(own) = &self.settings.scope {
            let more = challenged.filter(|_| challenge.is_insufficient_scope());
            return tokens::join_scopes([own.as_str()].into_iter().chain(more));
        }
        let supported = found
            .scopes_supported
            .as_ref()
            .map(|scopes| scopes.join(" "));
        let earlier = prepared
            .earlier_tokens
            .as_ref()
            .and_then(Tokens::all_scopes);
        let wanted = tokens::join_scopes(
            [earlier.as_deref(), challenged.or(supported.as_deref())]
                .into_iter()
                .flatten(),
        )?;
        let is_person = matches!(
            grant,
            OAuthGrant::AuthorizationCode | OAuthGrant::DeviceCode
        );
        if is_person && found.metadata.supports_scope("offline_access") {
            return tokens::join_scopes([wanted.as_str(), "offline_access"]);
        }
        Some(wanted)
    }

    /// A key to bind tokens to, if they are to be bound.
    pub(super) fn new_dpop_key(
        &self,
        prepared: &LoginContext,
    ) -> Result<Option<DpopKey>, OAuthError> {
        let LoginContext {
            challenge,
            discovered: found,
            ..
        } = prepared;
        let is_asked_for = challenge.scheme == AuthScheme::Dpop || found.wants_dpop;
        let is_wanted = match self.settings.dpop {
            DpopUse::Auto => is_asked_for,
            DpopUse::On => true,
            DpopUse::Off => false,
        };
        if is_wanted && found.metadata.supports_es256_proofs() {
            return DpopKey::generate().map(Some);
        }
        Ok(None)
    }

    pub(super) fn client_lookup<'a>(
        &'a self,
        requests: &'a OAuthHttpClient,
        metadata: &'a ServerMetadata,
    ) -> ClientLookup<'a> {
        ClientLookup {
            requests,
            settings: &self.settings,
            files: &self.files,
            metadata,
        }
    }

    /// The client of a login that a person takes part in: known, newly registered, or named by the person.
    pub(super) async fn choose_client(
        &self,
        prepared: &LoginContext,
        person: &dyn LoginUi,
        redirect_uri: &str,
        scope: Option<&str>,
    ) -> Result<OAuthClient, OAuthError> {
        let need = self.client_lookup(&prepared.requests, &prepared.discovered.metadata);
        let fits = |client: &OAuthClient| {
            client.origin != ClientOrigin::Registered
                || need
                    .stored_client()
                    .is_some_and(|kept| kept.redirect_uris.iter().any(|uri| uri == redirect_uri))
        };
        if let Some(client) = need.find_client()?.filter(fits) {
            return Ok(client);
        }
        if let Some(client) = need.register(redirect_uri, scope).await? {
            return Ok(client);
        }
        let issuer = prepared.discovered.metadata.issuer.clone();
        match person.request_client(&issuer, redirect_uri).await {
            Some(ClientIdentity { id, secret }) => {
                let proof = match &secret {
                    None => ClientAuthMethod::None,
                    Some(_)
                        if prepared
                            .discovered
                            .metadata
                            .supports_auth_method("client_secret_basic") =>
                    {
                        ClientAuthMethod::SecretInHeader
                    }
                    Some(_) => ClientAuthMethod::SecretInForm,
                };
                Ok(OAuthClient {
                    id,
                    secret,
                    auth_method: proof,
                    origin: ClientOrigin::Configured,
                })
            }
            None => Err(OAuthError::NoClient {
                issuer,
                redirect_uri: redirect_uri.to_owned(),
            }),
        }
    }

    pub(super) fn endpoint<'a>(
        &'a self,
        requests: &'a OAuthHttpClient,
        metadata: &'a ServerMetadata,
        client: &'a OAuthClient,
        key: Option<&'a DpopKey>,
    ) -> TokenEndpoint<'a> {
        TokenEndpoint {
            requests,
            settings: &self.settings,
            metadata,
            client,
            key,
            nonces: &self.nonces,
        }
    }

    /// Writes everything down. Another process may be renewing the old tokens just now: it is waited for.
    pub(super) async fn store_tokens(
        &self,
        metadata: &ServerMetadata,
        tokens: Tokens,
    ) -> Result<LoginSummary, OAuthError> {
        let _alone = self.files.lock().await?;
        self.files.store_metadata(metadata)?;
        self.files.store_tokens(&tokens)?;
        self.files.delete_pending();
        Ok(LoginSummary {
            issuer: metadata.issuer.clone(),
            expires_at: tokens.expires_at(),
            scope: tokens.scope.clone().or(tokens.requested_scope),
            is_renewable: tokens.refresh_token.is_some(),
        })
    }

    /// Gives the tokens back to the authorization server, as far as it takes them, and forgets them.
    pub fn revoke(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (Some(tokens), Some(metadata)) = (self.files.tokens(), self.files.metadata())
            else {
                return;
            };
            if !self.is_issued_by(&tokens, &metadata) {
                return;
            }
            let revoked = async {
                let endpoint = metadata.revocation_endpoint.as_deref();
                let url = metadata.endpoint_url("revocation_endpoint", endpoint)?;
                let requests = OAuthHttpClient::new(&self.http).await?;
                let need = self.client_lookup(&requests, &metadata);
                let Some(client) = need.find_client()? else {
                    return Ok(());
                };
                let token = tokens
                    .refresh_token
                    .as_ref()
                    .unwrap_or(&tokens.access_token);
                let form = vec![("token", token.clone())];
                let endpoint = self.endpoint(&requests, &metadata, &client, None);
                endpoint.post(&url, form).await.map(drop)
            };
            if let Err(error) = revoked.await {
                tracing::debug!(server = %self.server, %error, "OAuth token revocation failed");
            }
        })
    }
}

/// Whether a kept challenge is of the server as it is configured now, as far as it says so.
fn is_challenge_of(challenge: &Challenge, server: &Url) -> bool {
    match &challenge.resource_metadata {
        Some(url) => server
            .join(url)
            .is_ok_and(|url| url.origin() == server.origin()),
        None => true,
    }
}

/// Asks the server something without a token, to hear how to get one.
async fn request_challenge(
    requests: &OAuthHttpClient,
    server: &Url,
) -> Result<Challenge, OAuthError> {
    let question = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "hermes", "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let reply = match requests.post_json(server, &question).await {
        // Whoever redirects a message may still describe itself.
        Err(OAuthError::Redirected { .. }) => return Ok(Challenge::default()),
        other => other?,
    };
    Ok(reply
        .header("www-authenticate")
        .map(|header| Challenge::parse(&header))
        .unwrap_or_default())
}
