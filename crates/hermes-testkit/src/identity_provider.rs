//! An identity provider (OpenID Connect) on a loopback port. It signs everybody in at once, verifies PKCE, takes a code
//! once, and signs what a test wants it to sign.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{digest, hmac};
use axum::{
    Form, Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use crate::{
    authorization::TokenIssuer,
    server_thread::{BoundPort, ServerThread},
};

/// Who signs the ID tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdTokenSigner {
    /// The key that the provider publishes.
    #[default]
    Published,
    /// A key that it does not publish, under the name of the one that it does.
    Forged,
    /// Nobody: `alg` is `none`.
    Nobody,
    /// Whoever knows the public key, as if it were a secret: `alg` is `HS256`.
    PublicKeyAsSecret,
}

/// An identity provider; it stops when dropped.
pub struct IdentityProvider {
    state: Arc<ProviderState>,
    issuer: String,
    _thread: ServerThread,
}

struct ProviderState {
    issuer: String,
    inner: Mutex<ProviderData>,
}

struct ProviderData {
    key: TokenIssuer,
    kid: u32,
    signer: IdTokenSigner,
    /// Members of ID tokens that differ from the right ones; `null` leaves one out.
    claims: Map<String, Value>,
    user_info: Value,
    /// Codes that were given and not used yet: nonce and challenge.
    codes: HashMap<String, (String, String)>,
}

impl IdentityProvider {
    /// The only client that it knows.
    pub const CLIENT_ID: &'static str = "console";
    /// Whom it signs in.
    pub const SUBJECT: &'static str = "ada";

    /// Starts one on a free port.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start() -> Self {
        let port = BoundPort::bind(0)
            .unwrap_or_else(|error| panic!("no port for an identity provider: {error}"));
        let issuer = format!("http://{}", port.address());
        let state = Arc::new(ProviderState {
            issuer: issuer.clone(),
            inner: Mutex::new(ProviderData {
                key: TokenIssuer::new(&issuer),
                kid: 1,
                signer: IdTokenSigner::default(),
                claims: Map::new(),
                user_info: json!({"sub": Self::SUBJECT}),
                codes: HashMap::new(),
            }),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/userinfo", get(user_info))
            .with_state(Arc::clone(&state));
        let thread = port
            .serve(move |socket| async move { axum::serve(socket, router).await })
            .unwrap_or_else(|error| panic!("no runtime for an identity provider: {error}"));
        Self {
            state,
            issuer,
            _thread: thread,
        }
    }

    /// The address that its tokens name.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Changes members of the ID tokens from now on; `null` leaves one out.
    pub fn set_claims(&self, claims: &Value) {
        self.state.lock().claims = claims.as_object().cloned().unwrap_or_default();
    }

    /// What it says of the person besides the ID token.
    pub fn set_user_info(&self, user_info: Value) {
        self.state.lock().user_info = user_info;
    }

    /// Who signs from now on.
    pub fn set_signer(&self, signer: IdTokenSigner) {
        self.state.lock().signer = signer;
    }

    /// Takes another key, and publishes that one alone.
    pub fn rotate_key(&self) {
        let mut data = self.state.lock();
        data.kid += 1;
        data.key = TokenIssuer::new(&self.issuer);
    }
}

impl ProviderState {
    fn lock(&self) -> MutexGuard<'_, ProviderData> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn metadata(State(provider): State<Arc<ProviderState>>) -> Json<Value> {
    let issuer = &provider.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "userinfo_endpoint": format!("{issuer}/userinfo"),
        "end_session_endpoint": format!("{issuer}/sign-out"),
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    }))
}

async fn keys(State(provider): State<Arc<ProviderState>>) -> Json<Value> {
    let data = provider.lock();
    let mut key = data.key.jwk();
    key["kid"] = data.kid.to_string().into();
    key["use"] = "sig".into();
    Json(json!({"keys": [key]}))
}

async fn authorize(
    State(provider): State<Arc<ProviderState>>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let value = |name: &str| query.get(name).cloned().unwrap_or_default();
    let is_right = value("client_id") == IdentityProvider::CLIENT_ID
        && value("response_type") == "code"
        && value("code_challenge_method") == "S256"
        && value("scope").split(' ').any(|scope| scope == "openid");
    if !is_right {
        return (StatusCode::BAD_REQUEST, "wrong request").into_response();
    }
    let mut data = provider.lock();
    let code = format!("code-{}-{}", data.codes.len(), value("state"));
    let kept = (value("nonce"), value("code_challenge"));
    data.codes.insert(code.clone(), kept);
    let back = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("code", &code)
        .append_pair("state", &value("state"))
        .append_pair("iss", &provider.issuer)
        .finish();
    Redirect::to(&format!("{}?{back}", value("redirect_uri"))).into_response()
}

async fn token(
    State(provider): State<Arc<ProviderState>>,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    let value = |name: &str| form.get(name).map_or("", String::as_str);
    let mut data = provider.lock();
    let kept = data.codes.remove(value("code"));
    let challenge = digest::digest(&digest::SHA256, value("code_verifier").as_bytes());
    let challenge = URL_SAFE_NO_PAD.encode(challenge);
    let Some((nonce, _)) = kept.filter(|(_, kept)| *kept == challenge) else {
        return (
            StatusCode::BAD_REQUEST,
            Json(json!({"error": "invalid_grant"})),
        )
            .into_response();
    };
    let id_token = data.sign(&provider.issuer, &nonce);
    Json(json!({
        "access_token": "an access token",
        "token_type": "Bearer",
        "id_token": id_token,
    }))
    .into_response()
}

async fn user_info(State(provider): State<Arc<ProviderState>>) -> Json<Value> {
    Json(provider.lock().user_info.clone())
}

impl ProviderData {
    fn sign(&self, issuer: &str, nonce: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        let mut claims = json!({
            "iss": issuer,
            "sub": IdentityProvider::SUBJECT,
            "aud": IdentityProvider::CLIENT_ID,
            "nonce": nonce,
            "iat": now,
            "exp": now + 300,
        });
        for (name, value) in &self.claims {
            match value {
                // A number is added to the right one: times are relative.
                Value::Number(difference) if name == "iat" || name == "exp" => {
                    let right = claims[name].as_i64().unwrap_or_default();
                    claims[name] = (right + difference.as_i64().unwrap_or_default()).into();
                }
                Value::Null => {
                    claims.as_object_mut().map(|claims| claims.remove(name));
                }
                value => claims[name] = value.clone(),
            }
        }
        let kid = self.kid.to_string();
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = |algorithm: &str| json!({"alg": algorithm, "kid": kid});
        match self.signer {
            IdTokenSigner::Published => self.key.sign(&header("ES256"), &claims),
            IdTokenSigner::Forged => TokenIssuer::new(issuer).sign(&header("ES256"), &claims),
            IdTokenSigner::Nobody => format!("{}.{}.", part(&header("none")), part(&claims)),
            IdTokenSigner::PublicKeyAsSecret => {
                let text = format!("{}.{}", part(&header("HS256")), part(&claims));
                let public = self.key.jwk()["x"].as_str().unwrap_or_default().to_owned();
                let public = URL_SAFE_NO_PAD.decode(public).unwrap_or_default();
                let key = hmac::Key::new(hmac::HMAC_SHA256, &public);
                let signature = hmac::sign(&key, text.as_bytes());
                format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
            }
        }
    }
}
