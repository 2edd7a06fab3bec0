//! Serving over Streamable HTTP: the route, who may call it, and the socket.
//!
//! The protocol library answers in both eras and checks `Host` and `Origin`; tokens, the binding of MCP sessions to
//! their owner and the limits are ours.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, any},
    serve::ListenerExt,
};
use futures::future::BoxFuture;
use hermes_config::Secret;
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::SessionStore,
    },
};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use super::sessions::{InOpenSession, OpenSessions};
use super::{
    HttpServeOptions, Principal, ServeError,
    boxed_handler::BoxedHandler,
    sessions::{self, Sessions},
};

/// How long responses in flight may take at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// The names of this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The route of a server. Each MCP session, and each request without one, gets a handler of its own. A layer in front
/// must say whose a request is; what has no [`Principal`] is refused.
pub fn router<S: ServerHandler>(
    make_handler: impl Fn() -> S + Send + Sync + 'static,
    options: HttpServeOptions,
    stop: &CancellationToken,
) -> Router {
    mount(make_handler, options, stop, std::convert::identity).0
}

/// The same as [`router`], and a handle on the sessions. `within` may put layers between the check of a request's
/// session and the library; requests of sessions that are open in this process have [`InOpenSession`] there.
pub fn mount<S: ServerHandler>(
    make_handler: impl Fn() -> S + Send + Sync + 'static,
    options: HttpServeOptions,
    stop: &CancellationToken,
    within: impl FnOnce(Router) -> Router,
) -> (Router, OpenSessions) {
    let path = options.path.clone();
    let make_handler = Box::new(move || BoxedHandler::new(make_handler()));
    let (library, sessions) = mount_boxed(make_handler, options, stop);
    let open = OpenSessions(Arc::clone(&sessions));
    // Without `with_state` the route and all its layers would be put together again for every request.
    let route = Router::new().route(&path, library).with_state(());
    let router = within(route).layer(middleware::from_fn_with_state(
        sessions,
        sessions::check_session,
    ));
    (router, open)
}

/// The library's service, which is generic over its handler.
fn mount_boxed(
    make_handler: Box<dyn Fn() -> BoxedHandler + Send + Sync>,
    options: HttpServeOptions,
    stop: &CancellationToken,
) -> (MethodRouter, Arc<Sessions>) {
    let sessions = Sessions::new(&options);
    let this_machine = LOOPBACK.map(str::to_owned);
    let own_pages = LOOPBACK
        .iter()
        .flat_map(|host| ["http", "https"].map(|scheme| format!("{scheme}://{host}:*")));
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(this_machine.into_iter().chain(options.allowed_hosts))
        .with_allowed_origins(own_pages.chain(options.allowed_origins))
        .enforce_origin_validation()
        .with_max_request_body_bytes(options.max_body_bytes)
        .with_json_response(true)
        .with_cancellation_token(stop.child_token());
    if options.records.is_some() {
        config.session_store = Some(Arc::clone(&sessions.negotiated) as Arc<dyn SessionStore>);
    }
    let service = StreamableHttpService::new(
        move || Ok(make_handler()),
        Arc::clone(&sessions.manager),
        config,
    );
    // Shared, not a copy with all its settings for every request.
    let service = Arc::new(service);
    let library = any(move |request: Request| {
        let service = Arc::clone(&service);
        async move { service.handle(request).await }
    });
    (library, sessions)
}

/// Takes every request for this principal's: for servers that nobody else can reach.
pub fn with_principal(router: Router, principal: Principal) -> Router {
    router.layer(axum::Extension(principal))
}

/// A token, kept as a hash so that comparing takes the same time whatever is presented.
#[derive(Clone)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub fn new(token: &Secret<String>) -> Self {
        Self(Sha256::digest(token.expose()).into())
    }

    pub fn matches(&self, presented: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let difference = digest
            .iter()
            .zip(&self.0)
            .fold(0, |difference, (a, b)| difference | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

#[derive(Clone)]
struct BearerAuth {
    token: TokenDigest,
    principal: Principal,
}

/// Lets only requests through that present the token. They are this principal's.
pub fn with_bearer(router: Router, token: &Secret<String>, principal: Principal) -> Router {
    let bearer = BearerAuth {
        token: TokenDigest::new(token),
        principal,
    };
    router.layer(middleware::from_fn_with_state(bearer, authenticate_bearer))
}

async fn authenticate_bearer(
    State(bearer): State<BearerAuth>,
    mut request: Request,
    next: Next,
) -> Response {
    let challenge = match bearer_token(request.headers()) {
        Some(token) if bearer.token.matches(token) => {
            request.extensions_mut().insert(bearer.principal);
            return next.run(request).await;
        }
        Some(_) => "Bearer error=\"invalid_token\"",
        None => "Bearer",
    };
    let message = "Unauthorized: present the token as `Authorization: Bearer …`";
    (
        StatusCode::UNAUTHORIZED,
        [(header::WWW_AUTHENTICATE, challenge)],
        message,
    )
        .into_response()
}

pub fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Serves on a socket until `stop` is cancelled.
pub fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), ServeError>> {
    Box::pin(async move {
        let overdue = {
            let stop = stop.clone();
            async move {
                stop.cancelled().await;
                tokio::time::sleep(SHUTDOWN_GRACE).await;
            }
        };
        // No piece of an answer waits until the one before is acknowledged: events come in small ones.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
        tokio::select! {
            ended = async { serving.await } => Ok(ended?),
            () = overdue => Ok(()),
        }
    })
}
