//! The authorization code flow: the address that a person goes to, the answer that comes back, the code that becomes
//! tokens.

use std::time::SystemTime;

use futures::future::BoxFuture;
use hermes_config::server::OAuthGrant;
use url::Url;

use super::{
    AuthorizationPrompt, AuthorizationRedirect, Login, LoginFlow, LoginMode, LoginSummary, LoginUi,
    OAuthError, PendingLogin, Tokens,
    callback::{BrowserReply, CallbackListener},
    client::OAuthClient,
    dpop::DpopKey,
    login::LoginContext,
    pkce,
    requests::OAuthHttpClient,
};

/// Where a callback listens, and under which address the authorization server knows it.
struct CallbackRoute {
    redirect_uri: String,
    /// `None`: the person brings the answer.
    listener: Option<CallbackListener>,
}

/// A login that was begun.
struct StartedAuthorization {
    prompt: AuthorizationPrompt,
    pending: PendingLogin,
    client: OAuthClient,
    listener: Option<CallbackListener>,
}

impl Login {
    /// Sends a person to the authorization server and waits for the answer, whichever way it comes. If a browser brings
    /// it, `waiting` is that browser from then on.
    pub(super) async fn log_in_with_code(
        &self,
        prepared: &LoginContext,
        person: &dyn LoginUi,
        flow: Option<LoginFlow>,
        waiting: &mut BrowserReply,
    ) -> Result<Tokens, OAuthError> {
        let is_here = person.mode() == LoginMode::Interactive;
        let listens = is_here && flow != Some(LoginFlow::Paste);
        let begun = self.start_authorization(prepared, person, listens).await?;
        if !is_here {
            self.files.store_pending(&begun.pending)?;
            let server = self.server.to_string();
            let url = begun.prompt.url;
            return Err(OAuthError::RedirectPending { server, url });
        }
        person.open_url(&begun.prompt).await;
        let callback = Url::parse(&begun.prompt.redirect_uri);
        let callback = callback.map_or_else(|_| "/callback".into(), |url| url.path().to_owned());
        let redirect = match &begun.listener {
            Some(listener) => tokio::select! {
                heard = listener.wait_for_redirect(&callback) => {
                    let (redirect, reply) = heard?;
                    *waiting = reply;
                    redirect
                }
                pasted = pasted(person, &begun.pending) => pasted?,
            },
            None => pasted(person, &begun.pending).await?,
        };
        self.exchange_code(&prepared.requests, &begun.pending, &begun.client, &redirect)
            .await
    }

    /// Ends a login that was begun before, with the address that the browser was sent to.
    pub fn finish_pending<'a>(
        &'a self,
        answer: &'a str,
    ) -> BoxFuture<'a, Result<LoginSummary, OAuthError>> {
        Box::pin(async move {
            let nothing = || OAuthError::NoPendingLogin {
                server: self.server.to_string(),
            };
            let pending = self.files.pending().ok_or_else(nothing)?;
            let age = now().saturating_sub(pending.began);
            // A code lives for minutes; a login that is older is of use to a thief only.
            if age > 2 * self.settings.timeout.as_secs() {
                self.files.delete_pending();
                return Err(nothing());
            }
            let redirect = AuthorizationRedirect::parse(answer)?;
            let requests = OAuthHttpClient::new(&self.http).await?;
            let need = self.client_lookup(&requests, &pending.metadata);
            let client = need
                .find_client()?
                .filter(|client| client.id == pending.client_id)
                .ok_or_else(nothing)?;
            let tokens = self
                .exchange_code(&requests, &pending, &client, &redirect)
                .await?;
            let metadata = pending.metadata;
            self.store_tokens(&metadata, tokens).await
        })
    }

    async fn start_authorization(
        &self,
        prepared: &LoginContext,
        person: &dyn LoginUi,
        listens: bool,
    ) -> Result<StartedAuthorization, OAuthError> {
        let discovered = &prepared.discovered;
        let metadata = &discovered.metadata;
        let offers_s256 = metadata
            .code_challenge_methods_supported
            .as_ref()
            .is_some_and(|methods| methods.iter().any(|method| method == "S256"));
        if !offers_s256 {
            return Err(OAuthError::NoPkce {
                issuer: metadata.issuer.clone(),
            });
        }
        let mut address = metadata.authorization_url()?;
        prepared.requests.check(&address)?;
        let way = self.choose_callback(prepared, listens).await?;
        let scope = self.scope(prepared, OAuthGrant::AuthorizationCode);
        let client = self
            .choose_client(prepared, person, &way.redirect_uri, scope.as_deref())
            .await?;
        self.client_lookup(&prepared.requests, metadata)
            .store_client(&client, &way.redirect_uri)?;
        let pending = PendingLogin {
            state: match &self.state {
                Some(state) => state.clone(),
                None => pkce::random_token()?,
            },
            verifier: pkce::random_token()?,
            redirect_uri: way.redirect_uri.clone(),
            resource: discovered.resource.clone(),
            scope,
            dpop_key: self
                .new_dpop_key(prepared)?
                .map(|key| key.to_pkcs8().to_owned()),
            metadata: metadata.clone(),
            client_id: client.id.clone(),
            began: now(),
        };
        append_authorization_query(&mut address, &pending);
        Ok(StartedAuthorization {
            prompt: AuthorizationPrompt {
                url: address.into(),
                issuer: metadata.issuer.clone(),
                redirect_uri: way.redirect_uri,
                has_listener: way.listener.is_some(),
            },
            pending,
            client,
            listener: way.listener,
        })
    }

    /// The callback: the user's own address, else a port of this machine; the one that is registered, if it is free.
    async fn choose_callback(
        &self,
        prepared: &LoginContext,
        listens: bool,
    ) -> Result<CallbackRoute, OAuthError> {
        let settings = &self.settings;
        let host = &settings.redirect_host;
        let at = |port: u16| format!("http://{host}:{port}/callback");
        let registered = || {
            let need = self.client_lookup(&prepared.requests, &prepared.discovered.metadata);
            let uris = need.stored_client()?.redirect_uris;
            uris.iter().find_map(|uri| {
                let port = Url::parse(uri).ok()?.port()?;
                (at(port) == *uri).then_some(port)
            })
        };
        if let Some(own) = &settings.redirect_uri {
            let listener = match settings.redirect_port {
                port if port != 0 && listens => Some(CallbackListener::bind(port).await?),
                _ => None,
            };
            return Ok(CallbackRoute {
                redirect_uri: own.clone(),
                listener,
            });
        }
        if !listens {
            let port = match settings.redirect_port {
                // Nobody listens there: any number will do, and the browser shows the answer in its address line.
                0 => registered().unwrap_or(8765),
                port => port,
            };
            return Ok(CallbackRoute {
                redirect_uri: at(port),
                listener: None,
            });
        }
        let listener = match (settings.redirect_port, registered()) {
            (0, Some(port)) => match CallbackListener::bind(port).await {
                Ok(listener) => listener,
                // The client is registered again for the port that is found.
                Err(_) => CallbackListener::bind(0).await?,
            },
            (port, _) => CallbackListener::bind(port).await?,
        };
        Ok(CallbackRoute {
            redirect_uri: at(listener.port()),
            listener: Some(listener),
        })
    }

    /// Turns the code of an answer into tokens.
    async fn exchange_code(
        &self,
        requests: &OAuthHttpClient,
        pending: &PendingLogin,
        client: &OAuthClient,
        redirect: &AuthorizationRedirect,
    ) -> Result<Tokens, OAuthError> {
        let code = redirect.verified_code(&pending.state, &pending.metadata)?;
        let key = pending
            .dpop_key
            .as_deref()
            .map(DpopKey::from_pkcs8)
            .transpose()?;
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", pending.redirect_uri.clone()),
            ("code_verifier", pending.verifier.clone()),
            ("resource", pending.resource.clone()),
        ];
        let endpoint = self.endpoint(requests, &pending.metadata, client, key.as_ref());
        let tokens = endpoint.request_tokens(form).await;
        if let Err(OAuthError::Refused { error, .. }) = &tokens
            && error == "invalid_client"
        {
            self.client_lookup(requests, &pending.metadata)
                .record_rejection(client)?;
        }
        Ok(Tokens {
            resource: Some(pending.resource.clone()),
            requested_scope: pending.scope.clone(),
            ..tokens?
        })
    }
}

/// Waits for an answer by hand. Who pastes something else has another try: the page may still be open.
async fn pasted(
    person: &dyn LoginUi,
    pending: &PendingLogin,
) -> Result<AuthorizationRedirect, OAuthError> {
    loop {
        let text = person.read_redirect().await?;
        let read = AuthorizationRedirect::parse(&text).and_then(|redirect| {
            redirect.verified_code(&pending.state, &pending.metadata)?;
            Ok(redirect)
        });
        match read {
            Err(wrong) if wrong.is_wrong_paste() => person.reject_redirect(&wrong),
            read => return read,
        }
    }
}

fn append_authorization_query(address: &mut Url, pending: &PendingLogin) {
    let mut query = address.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &pending.client_id)
        .append_pair("redirect_uri", &pending.redirect_uri)
        .append_pair("state", &pending.state)
        .append_pair("code_challenge", &pkce::code_challenge(&pending.verifier))
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &pending.resource);
    if let Some(scope) = &pending.scope {
        query.append_pair("scope", scope);
        if scope.split(' ').any(|word| word == "offline_access") {
            // OpenID Connect gives out tokens for later only to people who were asked.
            query.append_pair("prompt", "consent");
        }
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
