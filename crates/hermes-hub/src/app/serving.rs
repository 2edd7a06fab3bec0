//! Serving: the router with everything on it, and the listeners.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use futures::FutureExt;
use http::header;
use rmcp::ServerHandler;
use serde_json::json;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::{
    Hub,
    connections::{self, LocalListener, LocalProcess, Reception, over_network},
    open_connections::ConnectionLimits,
    tls::{PlainListener, TlsListener},
};
use crate::{auth::Scope, document, mcp, rest};

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the Hub's listener failed: {0}")]
    Socket(#[from] std::io::Error),
    #[error("`{path}` cannot be used for TLS: {reason}")]
    Certificate {
        path: String,
        reason: String,
    },
}

const PAGE_CACHE: &str = "max-age=300";

impl Hub {
    /// Everything the Hub serves: `/v1`, `/mcp`, the reference, the metadata document.
    pub fn router(&self) -> Router {
        let is_wanted = self.settings().mcp.enabled;
        self.router_with(is_wanted.then(|| mcp::router(self)))
    }

    /// The same with another handler behind `/mcp`, to test the middleware in front of it.
    pub fn router_over<S: ServerHandler>(
        &self,
        make_handler: impl Fn() -> S + Send + Sync + 'static,
    ) -> Router {
        self.router_with(Some(mcp::mount(self, make_handler, mcp::Calls::ByHandler)))
    }

    fn router_with(&self, mcp: Option<Router>) -> Router {
        let mut router = rest::router(self.clone())
            .route("/", get(page))
            .route("/reference", get(page))
            .route("/reference.css", get(style))
            .merge(
                Router::new()
                    .route("/.well-known/oauth-protected-resource/mcp", get(metadata))
                    .with_state(self.clone()),
            );
        if let Some(mcp) = mcp {
            router = router.merge(mcp);
        }
        router
            .fallback(rest::no_route)
            .layer(middleware::from_fn_with_state(
                self.clone(),
                rest::door::guard,
            ))
    }

    /// Serves until `stop` is cancelled, then waits for requests in progress.
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let overdue = self.overdue(&stop);
        let draining = {
            let (hub, stop) = (self.clone(), stop.clone());
            async move {
                stop.cancelled().await;
                hub.begin_drain();
            }
        };
        let router = self.router();
        let reception = self.reception(ConnectionLimits::public());
        let proxies = self.trusted_proxies().to_vec();
        let who = over_network(move |address| proxies.iter().any(|one| one.contains(address)));
        let serving = match &self.settings().tls {
            None => {
                let listener = PlainListener(listener);
                connections::serve(listener, router, reception, who, draining).boxed()
            }
            Some(tls) => {
                let listener = TlsListener::new(listener, tls)?;
                connections::serve(listener, router, reception, who, draining).boxed()
            }
        };
        tokio::select! {
            () = serving => Ok(()),
            () = overdue => Ok(()),
        }
    }

    /// Serves the metrics on a listener of their own.
    pub async fn serve_metrics(
        &self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let router = Router::new()
            .route("/metrics", get(metrics))
            .with_state(self.clone());
        let overdue = self.overdue(&stop);
        let reception = self.reception(ConnectionLimits::metrics());
        let listener = PlainListener(listener);
        let who = over_network(|_| false);
        let stopped = stop.cancelled_owned();
        tokio::select! {
            () = connections::serve(listener, router, reception, who, stopped) => Ok(()),
            () = overdue => Ok(()),
        }
    }

    /// Serves local processes on a Unix socket.
    pub(crate) async fn serve_unix(
        &self,
        listener: UnixListener,
        router: Router,
        stop: CancellationToken,
    ) {
        let overdue = self.overdue(&stop);
        let reception = self.reception(ConnectionLimits::private());
        let listener = LocalListener(listener);
        let who = |process: &LocalProcess| (process.peer(), None);
        let stopped = stop.cancelled_owned();
        tokio::select! {
            () = connections::serve(listener, router, reception, who, stopped) => {}
            () = overdue => {}
        }
    }

    fn reception(&self, limits: ConnectionLimits) -> Reception {
        Reception {
            limits,
            metrics: Arc::clone(&self.0.metrics),
        }
    }

    /// Completes when the grace period after `stop` is over.
    fn overdue(&self, stop: &CancellationToken) -> impl Future<Output = ()> + use<> {
        let stop = stop.clone();
        let patience = Duration::from_secs(self.settings().drain_seconds);
        async move {
            stop.cancelled().await;
            tokio::time::sleep(patience).await;
        }
    }
}

async fn page(_: Request) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, document::POLICY),
        (header::CACHE_CONTROL, PAGE_CACHE),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, document::html()).into_response()
}

async fn style() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, PAGE_CACHE),
    ];
    (headers, document::STYLE).into_response()
}

/// The OAuth protected resource metadata, for clients without a token.
async fn metadata(State(hub): State<Hub>) -> Response {
    let scopes: Vec<_> = Scope::ALL.iter().map(|scope| scope.word()).collect();
    Json(json!({
        "resource": format!("{}/mcp", hub.settings().public_url),
        "scopes_supported": scopes,
        "bearer_methods_supported": ["header"],
    }))
    .into_response()
}

async fn metrics(State(hub): State<Hub>) -> Response {
    let headers = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    let gauges = hub.gauges().await;
    (headers, hub.metrics().text(&gauges)).into_response()
}
