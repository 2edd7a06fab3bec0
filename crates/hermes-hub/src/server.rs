//! Serving: the router with everything on it, and the listeners.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use futures::FutureExt;
use http::header;
use rmcp::ServerHandler;
use serde_json::json;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use crate::{
    api_types::Scope,
    console,
    http::{
        connections::{
            self, AcceptOptions, LocalListener, LocalProcess, ServeError, network_peer,
            open_connections::ConnectionLimits,
            tls::{PlainListener, TlsListener},
        },
        login_callback, mcp, rest,
    },
    hub::Hub,
    operations::document,
    service::mcp_servers::login::CALLBACK_PATH,
};

const PAGE_CACHE_CONTROL: &str = "max-age=300";

/// Who asks for an address at which there is nothing: a person for a page, or a program.
async fn authenticate_unknown(hub: State<Hub>, request: Request, next: Next) -> Response {
    if console::is_page_request(&request) {
        console::authenticate_person(hub, request, next).await
    } else {
        crate::http::middleware::authenticate(hub, request, next).await
    }
}

async fn refuse_unknown(State(hub): State<Hub>, request: Request) -> Response {
    if console::is_page_request(&request) {
        console::serve_missing_page(&hub, request).await
    } else {
        rest::route_not_found(request).await
    }
}

impl Hub {
    /// Everything the Hub serves: `/v1`, `/mcp`, the reference, the metadata document.
    pub fn router(&self) -> Router {
        let is_wanted = self.settings().mcp.enabled;
        self.build_router(is_wanted.then(|| mcp::router(self)))
    }

    /// The same with another handler behind `/mcp`, to test the middleware in front of it.
    pub fn router_with_handler<S: ServerHandler>(
        &self,
        make_handler: impl Fn() -> S + Send + Sync + 'static,
    ) -> Router {
        self.build_router(Some(mcp::mount_handler(
            self,
            make_handler,
            mcp::CallRouting::ByHandler,
        )))
    }

    fn build_router(&self, mcp: Option<Router>) -> Router {
        let mut router = rest::router(self.clone())
            .route("/docs", get(serve_page))
            .route("/reference", get(redirect_to_docs))
            .route("/reference.css", get(serve_stylesheet))
            .merge(
                Router::new()
                    .route(
                        "/.well-known/oauth-protected-resource/mcp",
                        get(serve_resource_metadata),
                    )
                    .route(
                        CALLBACK_PATH,
                        get(login_callback::receive_login).post(login_callback::confirm_login),
                    )
                    .with_state(self.clone()),
            );
        if let Some(mcp) = mcp {
            router = router.merge(mcp);
        }
        router
            .layer(middleware::from_fn_with_state(
                self.clone(),
                crate::http::middleware::authenticate,
            ))
            .merge(console::router(self))
            .fallback_service(
                Router::new()
                    .fallback(refuse_unknown)
                    .layer(middleware::from_fn_with_state(
                        self.clone(),
                        authenticate_unknown,
                    ))
                    .with_state(self.clone()),
            )
    }

    /// Serves until `stop` is cancelled, then waits for requests in progress.
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        self.spawn_command_worker();
        let overdue = self.drain_deadline(&stop);
        let draining = {
            let (hub, stop) = (self.clone(), stop.clone());
            async move {
                stop.cancelled().await;
                hub.start_draining();
            }
        };
        let router = self.router();
        let reception = self.accept_options(ConnectionLimits::public());
        let proxies = self.access().trusted_proxies.clone();
        let who = network_peer(move |address| proxies.iter().any(|one| one.contains(address)));
        let serving = match &self.settings().tls {
            None => {
                let listener = PlainListener(listener);
                connections::serve_connections(listener, router, reception, who, draining).boxed()
            }
            Some(tls) => {
                let listener = TlsListener::new(listener, tls)?;
                connections::serve_connections(listener, router, reception, who, draining).boxed()
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
            .route("/metrics", get(serve_metrics_text))
            .with_state(self.clone());
        let overdue = self.drain_deadline(&stop);
        let reception = self.accept_options(ConnectionLimits::metrics());
        let listener = PlainListener(listener);
        let who = network_peer(|_| false);
        let stopped = stop.cancelled_owned();
        tokio::select! {
            () = connections::serve_connections(listener, router, reception, who, stopped) => Ok(()),
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
        let overdue = self.drain_deadline(&stop);
        let reception = self.accept_options(ConnectionLimits::private());
        let listener = LocalListener(listener);
        let who = |process: &LocalProcess| (process.peer(), None);
        let stopped = stop.cancelled_owned();
        tokio::select! {
            () = connections::serve_connections(listener, router, reception, who, stopped) => {}
            () = overdue => {}
        }
    }

    fn accept_options(&self, limits: ConnectionLimits) -> AcceptOptions {
        AcceptOptions {
            limits,
            metrics: Arc::clone(self.agents().metrics()),
        }
    }

    /// Completes when the grace period after `stop` is over.
    fn drain_deadline(&self, stop: &CancellationToken) -> impl Future<Output = ()> + use<> {
        let stop = stop.clone();
        let drain_timeout = Duration::from_secs(self.settings().drain_seconds);
        async move {
            stop.cancelled().await;
            tokio::time::sleep(drain_timeout).await;
        }
    }
}

async fn serve_page(_: Request) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            document::CONTENT_SECURITY_POLICY,
        ),
        (header::CACHE_CONTROL, PAGE_CACHE_CONTROL),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, document::reference_html()).into_response()
}

async fn redirect_to_docs() -> Redirect {
    Redirect::permanent("/docs")
}

async fn serve_stylesheet() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, PAGE_CACHE_CONTROL),
    ];
    (headers, document::STYLESHEET).into_response()
}

/// The OAuth protected resource metadata, for clients without a token.
async fn serve_resource_metadata(State(hub): State<Hub>) -> Response {
    let scopes: Vec<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    Json(json!({
        "resource": format!("{}/mcp", hub.settings().public_url),
        "scopes_supported": scopes,
        "bearer_methods_supported": ["header"],
    }))
    .into_response()
}

async fn serve_metrics_text(State(hub): State<Hub>) -> Response {
    let headers = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    let gauges = hub.collect_gauges().await;
    (headers, hub.metrics().render(&gauges)).into_response()
}
