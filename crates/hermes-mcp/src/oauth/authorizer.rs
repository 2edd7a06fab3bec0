//! Credentials for the requests to a connected server. Nothing here is interactive: what only a person can do is an
//! error, and the server's state says so.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use hermes_config::{
    Redactor, Secret,
    server::{OAuthGrant, OAuthSettings},
    sync::Mutex,
};
use http::{HeaderName, HeaderValue, Method, header};
use tokio_util::task::TaskTracker;
use url::Url;

use super::{
    Challenge, Login, OAuthError, TokenFiles, Tokens,
    dpop::{DpopKey, Nonces},
    files::TokenFileVersion,
    refresh::RenewalReason,
    token_endpoint::{DPOP_HEADER, secret_header},
    tokens::TokenAge,
};
use crate::oauth::tokens;

/// How long all that can be done about a refusal may take.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the end of a connection waits for a renewal that is under way.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// After a renewal that failed, the old token is used this long before the next one.
const RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Resolves the settings again: an identity token in a file is replaced often.
pub(crate) type OAuthSource =
    Arc<dyn Fn() -> BoxFuture<'static, Result<OAuthSettings, OAuthError>> + Send + Sync>;

/// Authorizes the requests to one server.
pub(crate) struct Authorizer {
    login: Login,
    source: OAuthSource,
    state: Mutex<AuthorizerState>,
    /// Held by the one who renews; the others wait and use what came of it.
    renewal_lock: tokio::sync::Mutex<()>,
    /// Renewals that go on even if nobody waits for them any more.
    renewals: TaskTracker,
    redactor: Arc<ArcSwap<Redactor>>,
    /// Secrets of the configuration.
    secrets: Vec<Secret<String>>,
}

#[derive(Default)]
struct AuthorizerState {
    /// The version of the file that was read.
    stamp: Option<TokenFileVersion>,
    credentials: Option<Arc<Credentials>>,
    /// No renewal before this time: the last one failed.
    renew_not_before: Option<Instant>,
    /// A refresh token that the authorization server does not take any more, and why the login is over.
    expired_login: Option<(String, OAuthError)>,
}

impl AuthorizerState {
    /// Why these tokens are not renewed any more, if that is so.
    fn expired_login_error(&self, tokens: &Tokens) -> Option<OAuthError> {
        let (dead, end) = self.expired_login.as_ref()?;
        (tokens.refresh_token.as_ref() == Some(dead)).then(|| end.clone())
    }
}

/// What one request is sent with.
pub(crate) struct Credentials {
    tokens: Tokens,
    key: Option<DpopKey>,
    nonces: Nonces,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorizer")
            .field("server", &self.login.server)
            .finish_non_exhaustive()
    }
}

/// A server's 401 or 403.
#[derive(Debug, Clone)]
pub(crate) struct AuthRefusal {
    pub(crate) status: u16,
    pub(crate) challenge: Option<String>,
}

/// What to do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalAction {
    /// Send the request again: there are other credentials now.
    Retry,
    /// Return the refusal to the caller.
    GiveUp,
}

impl Credentials {
    pub(crate) fn headers(
        &self,
        method: &Method,
        url: &Url,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, OAuthError> {
        let token = &self.tokens.access_token;
        let Some(key) = &self.key else {
            let value = secret_header(&format!("Bearer {token}"))?;
            return Ok(vec![(header::AUTHORIZATION, value)]);
        };
        let nonce = self.nonces.get(url);
        let proof = key.proof(method.as_str(), url, Some(token), nonce.as_deref())?;
        Ok(vec![
            (
                header::AUTHORIZATION,
                secret_header(&format!("DPoP {token}"))?,
            ),
            (DPOP_HEADER, secret_header(&proof)?),
        ])
    }
}

impl Authorizer {
    pub(crate) fn new(
        login: Login,
        source: OAuthSource,
        redactor: Arc<ArcSwap<Redactor>>,
        secrets: Vec<Secret<String>>,
    ) -> Self {
        Self {
            login,
            source,
            state: Mutex::default(),
            renewal_lock: tokio::sync::Mutex::default(),
            renewals: TaskTracker::new(),
            redactor,
            secrets,
        }
    }

    /// Takes over the running renewals of an earlier attempt's authorizer.
    pub(crate) fn continuing(self, earlier: Option<&Self>) -> Self {
        let renewals = earlier.map(|earlier| earlier.renewals.clone());
        Self {
            renewals: renewals.unwrap_or_default(),
            ..self
        }
    }

    /// Waits for renewals that are under way.
    pub(crate) async fn wait_for_renewals(&self) {
        self.renewals.close();
        // What hangs for longer would hold up the end of the program.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, self.renewals.wait()).await;
    }

    pub(crate) fn files(&self) -> &TokenFiles {
        &self.login.files
    }

    /// Resolves when the token file is another one than was last read.
    pub(crate) async fn wait_for_token_change(&self) {
        const PAUSE: Duration = Duration::from_secs(1);
        while self.files().token_file_version() == self.state().stamp {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Remembers a nonce that the server wants in the next proofs.
    pub(crate) fn store_nonce(&self, url: &Url, nonce: &str) {
        self.login.nonces.store(url, nonce);
    }

    /// What to send with the next request; `None` while nobody has logged in.
    pub(crate) async fn credentials(&self) -> Result<Option<Arc<Credentials>>, OAuthError> {
        let current = self.load_credentials();
        let Some(current) = current else {
            return Ok(None);
        };
        let can_renew = {
            let state = self.state();
            let has_refresh_token = current.tokens.refresh_token.is_some();
            let is_alive =
                has_refresh_token && state.expired_login_error(&current.tokens).is_none();
            (is_alive || self.login.may_be_noninteractive())
                && state
                    .renew_not_before
                    .is_none_or(|time| Instant::now() >= time)
        };
        if !can_renew || current.tokens.age(SystemTime::now()) == TokenAge::Fresh {
            return Ok(Some(current));
        }
        let renewal = self.replace_credentials(Some(&current), RenewalReason::Due);
        match tokio::time::timeout(RECOVERY_TIMEOUT, renewal).await {
            Ok(Ok(())) => {}
            // The server has the last word: this clock may be wrong, or the token may hold a little longer.
            Ok(Err(error)) => self.delay_renewal(&error),
            Err(_) => self.delay_renewal(&OAuthError::TimedOut(RECOVERY_TIMEOUT)),
        }
        Ok(self.load_credentials())
    }

    /// Does what can be done about a refusal without a person.
    pub(crate) async fn handle_refusal(
        &self,
        used: Option<&Arc<Credentials>>,
        refusal: &AuthRefusal,
    ) -> Result<RefusalAction, OAuthError> {
        let challenge = refusal.challenge.as_deref().map(Challenge::parse);
        let challenge = challenge.unwrap_or_default();
        if challenge.error.as_deref() == Some("use_dpop_nonce") {
            return Ok(RefusalAction::Retry);
        }
        let outcome = async {
            if refusal.status != 403 {
                return self
                    .replace_credentials(used, RenewalReason::Rejected(&challenge))
                    .await;
            }
            self.request_more_scopes(used, &challenge).await
        };
        if refusal.status == 403 && !challenge.is_insufficient_scope() {
            return Ok(RefusalAction::GiveUp);
        }
        match tokio::time::timeout(RECOVERY_TIMEOUT, Box::pin(outcome)).await {
            Ok(Ok(())) => Ok(RefusalAction::Retry),
            Ok(Err(error)) => {
                if error.needs_login() && refusal.status != 403 {
                    self.store_challenge(&challenge);
                }
                Err(error)
            }
            Err(_) => Err(OAuthError::TimedOut(RECOVERY_TIMEOUT)),
        }
    }

    /// Gets other credentials than those that were used. One at a time: all who were refused share what comes of it.
    async fn replace_credentials(
        &self,
        used: Option<&Arc<Credentials>>,
        occasion: RenewalReason<'_>,
    ) -> Result<(), OAuthError> {
        let _one_at_a_time = self.renewal_lock.lock().await;
        let current = self.load_credentials();
        if was_replaced(used, current.as_ref()) {
            return Ok(());
        }
        if self.login.may_be_noninteractive()
            && self.get_tokens_noninteractively(occasion, None).await?
        {
            return Ok(());
        }
        let Some(current) = current else {
            return Err(self.files().missing_tokens_error(&self.login.url()?));
        };
        if let Some(end) = self.state().expired_login_error(&current.tokens) {
            return Err(end);
        }
        let renewed = self.renew(&current.tokens, occasion).await;
        if let Err(end @ OAuthError::LoginExpired { .. }) = &renewed
            && let Some(token) = &current.tokens.refresh_token
        {
            self.state().expired_login = Some((token.clone(), end.clone()));
        }
        let renewed = renewed?;
        self.load_credentials();
        // Nothing was gained if the very token came back that the server refuses.
        match occasion {
            RenewalReason::Rejected(_) if renewed.access_token == current.tokens.access_token => {
                Err(OAuthError::LoginExpired {
                    reason: "the server no longer accepts it".into(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Renews in a task of its own: once the authorization server has replaced a refresh token, the new one must reach
    /// the file, or the login is lost. Whoever asked for it may give up meanwhile.
    async fn renew(
        &self,
        tokens: &Tokens,
        occasion: RenewalReason<'_>,
    ) -> Result<Tokens, OAuthError> {
        let (login, tokens) = (self.login.clone(), tokens.clone());
        let challenge = match occasion {
            RenewalReason::Due => None,
            RenewalReason::Rejected(challenge) => Some(challenge.clone()),
        };
        let renewal = self.renewals.spawn(async move {
            let occasion = challenge
                .as_ref()
                .map_or(RenewalReason::Due, RenewalReason::Rejected);
            login.renew_tokens(&tokens, occasion).await
        });
        let broken = |error: tokio::task::JoinError| OAuthError::Unavailable {
            what: "the renewal".into(),
            reason: error.to_string(),
        };
        renewal.await.map_err(broken)?
    }

    /// Gets tokens by a grant that needs nobody, if that is the way here.
    async fn get_tokens_noninteractively(
        &self,
        occasion: RenewalReason<'_>,
        more: Option<&str>,
    ) -> Result<bool, OAuthError> {
        let login = Login {
            settings: (self.source)().await?,
            ..self.login.clone()
        };
        let challenge = match occasion {
            RenewalReason::Rejected(challenge) => challenge.clone(),
            RenewalReason::Due => login.files.challenge().unwrap_or_default(),
        };
        let prepared = login.prepare(Some(&challenge)).await?;
        let grant = login.grant(&prepared.discovered.metadata);
        if matches!(
            grant,
            OAuthGrant::AuthorizationCode | OAuthGrant::DeviceCode
        ) {
            return Ok(false);
        }
        let tokens = login
            .log_in_noninteractively(&prepared, grant, more)
            .await?;
        login
            .store_tokens(&prepared.discovered.metadata, tokens)
            .await?;
        if let RenewalReason::Rejected(challenge) = occasion {
            // How the server wants to be asked is needed again when these tokens end.
            self.store_challenge(challenge);
        }
        self.load_credentials();
        Ok(true)
    }

    /// The server wants scopes that the token lacks.
    async fn request_more_scopes(
        &self,
        used: Option<&Arc<Credentials>>,
        challenge: &Challenge,
    ) -> Result<(), OAuthError> {
        let _one_at_a_time = self.renewal_lock.lock().await;
        let current = self.load_credentials();
        if was_replaced(used, current.as_ref()) {
            return Ok(());
        }
        let wanted = challenge.scope.clone().unwrap_or_default();
        let had = current.and_then(|current| current.tokens.all_scopes());
        let is_had = had.is_some_and(|had| tokens::scope_covers(&had, &wanted));
        if self.login.may_be_noninteractive() {
            if is_had {
                return Err(OAuthError::ScopeRefused { scope: wanted });
            }
            if self
                .get_tokens_noninteractively(RenewalReason::Rejected(challenge), Some(&wanted))
                .await?
            {
                return Ok(());
            }
        }
        // A login that has asked for the scope already may have been one of another account: once more is worth a try.
        let before = self.files().challenge().map_or(0, |before| before.repeated);
        let repeated = if is_had { before + 1 } else { 0 };
        if repeated > 1 {
            return Err(OAuthError::ScopeRefused { scope: wanted });
        }
        self.store_challenge(&Challenge {
            repeated,
            ..challenge.clone()
        });
        Err(OAuthError::ScopeMissing { scope: wanted })
    }

    /// Keeps what the server said for the login that follows.
    fn store_challenge(&self, challenge: &Challenge) {
        if self.files().challenge().as_ref() == Some(challenge) {
            return;
        }
        if let Err(error) = self.files().store_challenge(challenge) {
            tracing::warn!(server = %self.login.server, %error, "failed to store the OAuth challenge");
        }
    }

    fn delay_renewal(&self, error: &OAuthError) {
        tracing::warn!(server = %self.login.server, %error, "OAuth token renewal failed");
        self.state().renew_not_before = Some(Instant::now() + RENEWAL_RETRY_DELAY);
    }

    /// The credentials in the file, which is read when it has changed.
    fn load_credentials(&self) -> Option<Arc<Credentials>> {
        let stamp = self.files().token_file_version();
        let mut state = self.state();
        if state.stamp == stamp {
            return state.credentials.clone();
        }
        let tokens = self
            .files()
            .tokens()
            .filter(|tokens| self.matches_server(tokens));
        let read = tokens.and_then(|tokens| {
            let key = tokens.dpop_key.as_deref().map(DpopKey::from_pkcs8);
            Some(Arc::new(Credentials {
                key: key.transpose().ok()?,
                nonces: self.login.nonces.clone(),
                tokens,
            }))
        });
        *state = AuthorizerState {
            stamp,
            credentials: read.clone(),
            renew_not_before: None,
            expired_login: state.expired_login.take(),
        };
        drop(state);
        self.redact_tokens(read.as_deref());
        read
    }

    /// Whether tokens were got for the server as it is configured now: its address may have changed since.
    fn matches_server(&self, tokens: &Tokens) -> bool {
        let url = self.login.url();
        !url.is_ok_and(|url| tokens.wrong_server_error(&url).is_some())
    }

    /// Makes the redactor know the tokens, so that no message shows them.
    fn redact_tokens(&self, credentials: Option<&Credentials>) {
        let tokens = credentials.map(|credentials| &credentials.tokens);
        let tokens = tokens
            .into_iter()
            .flat_map(|tokens| std::iter::once(&tokens.access_token).chain(&tokens.refresh_token));
        let tokens = tokens.map(|token| Secret::new(token.clone()));
        let all = self.secrets.iter().cloned().chain(tokens);
        self.redactor.store(Arc::new(Redactor::new(all)));
    }

    fn state(&self) -> hermes_config::sync::MutexGuard<'_, AuthorizerState> {
        self.state.lock()
    }
}

/// Whether the credentials have been replaced since a request was sent with these.
fn was_replaced(used: Option<&Arc<Credentials>>, current: Option<&Arc<Credentials>>) -> bool {
    let token = |credentials: &Arc<Credentials>| credentials.tokens.access_token.clone();
    current.is_some() && used.map(token) != current.map(token)
}
