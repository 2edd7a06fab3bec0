//! A login from beginning to end: find the authorization server, be its client, send the person there, take what comes
//! back, keep it. The old tokens stay until there are new ones.

use hermes_config::{
    ServerName,
    server::{DpopUse, HttpSettings, OAuthGrant, OAuthSettings},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::{
    Challenge, ClientIdentity, Flow, LoggedIn, OAuthError, Person, ServerMetadata, TokenFiles,
    Tokens,
    callback::Reply,
    challenge::Scheme,
    client::{Client, ClientNeed, ClientOrigin, ClientProof},
    discovery::{self, Discovered},
    dpop::{DpopKey, Nonces},
    metadata::is_same_issuer,
    requests::Requests,
    scope,
    token_endpoint::TokenEndpoint,
};

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
}

/// What is known before anybody is asked.
pub(super) struct Prepared {
    pub(super) requests: Requests,
    pub(super) challenge: Challenge,
    pub(super) found: Discovered,
    /// What an earlier login with the same authorization server brought.
    pub(super) earlier: Option<Tokens>,
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
        }
    }

    /// Where it is kept.
    pub fn files(&self) -> &TokenFiles {
        &self.files
    }

    /// Logs in. Without a flow, the settings and the authorization server decide which it is.
    pub async fn run(
        &self,
        person: &dyn Person,
        flow: Option<Flow>,
    ) -> Result<LoggedIn, OAuthError> {
        let limit = self.settings.timeout;
        let mut waiting = Reply::nobody();
        let login = Box::pin(self.log_in(person, flow, &mut waiting));
        let ended = match tokio::time::timeout(limit, login).await {
            Ok(ended) => ended,
            Err(_) => Err(OAuthError::TimedOut(limit)),
        };
        // However it ended: whoever waits at the browser hears of it.
        waiting.send(&self.server, ended.as_ref().err()).await;
        ended
    }

    async fn log_in(
        &self,
        person: &dyn Person,
        flow: Option<Flow>,
        waiting: &mut Reply,
    ) -> Result<LoggedIn, OAuthError> {
        let prepared = self.prepare(None).await?;
        let tokens = match (flow, self.grant(&prepared.found.metadata)) {
            (Some(Flow::Device), _) | (None, OAuthGrant::DeviceCode) => {
                self.by_device(&prepared, person).await?
            }
            (Some(Flow::ClientCredentials), _) => {
                let grant = OAuthGrant::ClientCredentials;
                self.by_machine(&prepared, grant, None).await?
            }
            (
                None,
                grant @ (OAuthGrant::ClientCredentials
                | OAuthGrant::JwtBearer
                | OAuthGrant::EnterpriseManaged),
            ) => self.by_machine(&prepared, grant, None).await?,
            (flow, _) => self.by_code(&prepared, person, flow, waiting).await?,
        };
        self.keep(&prepared.found.metadata, tokens).await
    }

    /// Finds out who gives out tokens. Without a challenge the last one counts, or the server is asked for one.
    pub(super) async fn prepare(
        &self,
        challenge: Option<&Challenge>,
    ) -> Result<Prepared, OAuthError> {
        let requests = Requests::new(&self.http).await?;
        let server = self.url()?;
        let challenge = match challenge {
            Some(challenge) => challenge.clone(),
            None => match self.files.challenge().filter(|kept| is_of(kept, &server)) {
                Some(challenge) => challenge,
                None => provoke(&requests, &server).await?,
            },
        };
        let found = discovery::discover(&requests, &server, &challenge).await?;
        let earlier = self
            .files
            .tokens()
            .filter(|tokens| self.is_by(tokens, &found.metadata));
        Ok(Prepared {
            requests,
            challenge,
            found,
            earlier,
        })
    }

    /// Whether tokens come from this authorization server.
    pub(super) fn is_by(&self, tokens: &Tokens, metadata: &ServerMetadata) -> bool {
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
        } else if metadata.offers("authorization_code") {
            OAuthGrant::AuthorizationCode
        } else if has_credentials && metadata.offers("client_credentials") {
            OAuthGrant::ClientCredentials
        } else if metadata.offers(super::device::GRANT) {
            OAuthGrant::DeviceCode
        } else {
            OAuthGrant::AuthorizationCode
        }
    }

    pub(super) fn may_need_nobody(&self) -> bool {
        Self::may_do_alone(&self.settings)
    }

    /// Whether tokens may be had without a person; what the authorization server offers may still be against it.
    pub fn may_do_alone(settings: &OAuthSettings) -> bool {
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
    pub(super) fn scope(&self, prepared: &Prepared, grant: OAuthGrant) -> Option<String> {
        let Prepared {
            challenge, found, ..
        } = prepared;
        let challenged = challenge.scope.as_deref();
        if let Some(own) = &self.settings.scope {
            let more = challenged.filter(|_| challenge.is_insufficient_scope());
            return scope::union([own.as_str()].into_iter().chain(more));
        }
        let supported = found
            .scopes_supported
            .as_ref()
            .map(|scopes| scopes.join(" "));
        let earlier = prepared.earlier.as_ref().and_then(Tokens::all_scopes);
        let wanted = scope::union(
            [earlier.as_deref(), challenged.or(supported.as_deref())]
                .into_iter()
                .flatten(),
        )?;
        let is_person = matches!(
            grant,
            OAuthGrant::AuthorizationCode | OAuthGrant::DeviceCode
        );
        if is_person && found.metadata.knows_scope("offline_access") {
            return scope::union([wanted.as_str(), "offline_access"]);
        }
        Some(wanted)
    }

    /// A key to bind tokens to, if they are to be bound.
    pub(super) fn key(&self, prepared: &Prepared) -> Result<Option<DpopKey>, OAuthError> {
        let Prepared {
            challenge, found, ..
        } = prepared;
        let is_asked_for = challenge.scheme == Scheme::Dpop || found.wants_dpop;
        let is_wanted = match self.settings.dpop {
            DpopUse::Auto => is_asked_for,
            DpopUse::On => true,
            DpopUse::Off => false,
        };
        if is_wanted && found.metadata.signs_proofs_with_es256() {
            return DpopKey::generate().map(Some);
        }
        Ok(None)
    }

    pub(super) fn need<'a>(
        &'a self,
        requests: &'a Requests,
        metadata: &'a ServerMetadata,
    ) -> ClientNeed<'a> {
        ClientNeed {
            requests,
            settings: &self.settings,
            files: &self.files,
            metadata,
        }
    }

    /// The client of a login that a person takes part in: known, newly registered, or named by the person.
    pub(super) async fn client(
        &self,
        prepared: &Prepared,
        person: &dyn Person,
        redirect_uri: &str,
        scope: Option<&str>,
    ) -> Result<Client, OAuthError> {
        let need = self.need(&prepared.requests, &prepared.found.metadata);
        let fits = |client: &Client| {
            client.origin != ClientOrigin::Registered
                || need
                    .kept()
                    .is_some_and(|kept| kept.redirect_uris.iter().any(|uri| uri == redirect_uri))
        };
        if let Some(client) = need.known()?.filter(fits) {
            return Ok(client);
        }
        if let Some(client) = need.register(redirect_uri, scope).await? {
            return Ok(client);
        }
        let issuer = prepared.found.metadata.issuer.clone();
        match person.client(&issuer, redirect_uri).await {
            Some(ClientIdentity { id, secret }) => {
                let proof = match &secret {
                    None => ClientProof::None,
                    Some(_)
                        if prepared
                            .found
                            .metadata
                            .accepts_client_by("client_secret_basic") =>
                    {
                        ClientProof::SecretInHeader
                    }
                    Some(_) => ClientProof::SecretInForm,
                };
                Ok(Client {
                    id,
                    secret,
                    proof,
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
        requests: &'a Requests,
        metadata: &'a ServerMetadata,
        client: &'a Client,
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
    pub(super) async fn keep(
        &self,
        metadata: &ServerMetadata,
        tokens: Tokens,
    ) -> Result<LoggedIn, OAuthError> {
        let _alone = self.files.lock().await?;
        self.files.store_metadata(metadata)?;
        self.files.store_tokens(&tokens)?;
        self.files.forget_pending();
        Ok(LoggedIn {
            issuer: metadata.issuer.clone(),
            expires_at: tokens.expires_at(),
            scope: tokens.scope.clone().or(tokens.requested_scope),
            is_renewable: tokens.refresh_token.is_some(),
        })
    }

    /// Gives the tokens back to the authorization server, as far as it takes them, and forgets them.
    pub async fn revoke(&self) {
        let (Some(tokens), Some(metadata)) = (self.files.tokens(), self.files.metadata()) else {
            return;
        };
        if !self.is_by(&tokens, &metadata) {
            return;
        }
        let revoked = async {
            let endpoint = metadata.revocation_endpoint.as_deref();
            let url = metadata.url("revocation_endpoint", endpoint)?;
            let requests = Requests::new(&self.http).await?;
            let need = self.need(&requests, &metadata);
            let Some(client) = need.known()? else {
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
    }
}

/// Whether a kept challenge is of the server as it is configured now, as far as it says so.
fn is_of(challenge: &Challenge, server: &Url) -> bool {
    match &challenge.resource_metadata {
        Some(place) => server
            .join(place)
            .is_ok_and(|place| place.origin() == server.origin()),
        None => true,
    }
}

/// Asks the server something without a token, to hear how to get one.
async fn provoke(requests: &Requests, server: &Url) -> Result<Challenge, OAuthError> {
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
