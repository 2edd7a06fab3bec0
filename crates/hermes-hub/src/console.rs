//! The web console: pages for people, over the operations that REST and MCP have.
//!
//! A page is a row of [`pages::PAGES`]: its address, the operation that it shows, and a function that fills its
//! template, which lies beside it. Pages read by [`request::PageRequest`], which calls an operation in the name of whoever
//! is signed in; forms change by [`actions`], one address for every operation. There is no second way to the state.
//!
//! Templates have no `hx-*` attributes: every link and every form works without scripts, and behaves the same with them.
//! htmx does one thing, which the browser cannot: `htmx.ajax` with `outerMorph` reads a page again in place when something
//! has changed, without what somebody has opened or is filling in. So its SSE and CSP extensions are not needed: one
//! `EventSource` (`console.js`) serves all pages of a browser, and the token of the session is a field of each form.

mod actions;
mod affected_tenants;
mod assets;
mod batch;
mod conflict;
mod diff;
mod downloads;
mod drawing;
mod form_content;
mod form_fields;
mod frame;
mod interrupted_form;
mod language;
mod live;
mod multipart;
mod navigation;
mod pages;
mod provider_sign_in;
mod request;
mod schedule_form;
mod schedule_words;
mod schema_form;
mod session_cookie;
mod sign_in;
mod tenant_tabs;
mod texts;
mod view;

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{FromRequestParts, Request},
    middleware,
    response::{Redirect, Response},
    routing,
};
use http::{Method, header};

use self::request::PageRequest;
use crate::{Hub, auth::oidc::OidcSignIn};

pub(crate) use session_cookie::authenticate as authenticate_person;

/// Where pages hear that something has changed.
const LIVE_PATH: &str = "/live";
/// Scripts and styles are files of our own; nothing is written into the page that the browser would run.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    media-src data:; connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What is of the API, where no address is a page.
const API_PATHS: [&str; 4] = ["/v1", "/mcp", "/internal", "/.well-known"];

/// Whether somebody looks for a page, by its address or by a link that is no longer right.
pub(crate) fn is_page_request(request: &Request) -> bool {
    let path = request.uri().path();
    let is_of_api = API_PATHS.iter().any(|api| {
        let rest = path.strip_prefix(api);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    let accepted = request.headers().get(header::ACCEPT);
    let accepts_page = accepted
        .and_then(|accepted| accepted.to_str().ok())
        .is_some_and(|accepted| accepted.contains("text/html"));
    !is_of_api && accepts_page && matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Says on a page that there is none at this address.
pub(crate) async fn serve_missing_page(hub: &Hub, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    match PageRequest::from_request_parts(&mut parts, hub).await {
        Ok(request) => pages::serve_page(request).await,
        Err(refusal) => refusal,
    }
}

pub(crate) fn router(hub: &Hub) -> Router {
    let mut router = Router::new()
        .route(
            "/sign-in",
            routing::get(sign_in::show).post(sign_in::submit),
        )
        .route("/sign-out", routing::post(sign_in::sign_out))
        .route(
            provider_sign_in::BEGIN_PATH,
            routing::get(provider_sign_in::begin),
        )
        .route(
            provider_sign_in::CALLBACK_PATH,
            routing::get(provider_sign_in::finish),
        )
        .route("/audit/export", routing::get(downloads::export_audit))
        .route(
            "/audit/verify",
            // A page that is read again does not begin another verification.
            routing::get(|| async { Redirect::to("/audit") }).post(pages::audit_check::verify),
        )
        .route("/usage/export", routing::get(downloads::export_usage))
        .route("/do/{operation}", routing::post(actions::submit))
        .route(
            "/tenants/{tenant_id}/mcp/{server}",
            routing::post(pages::use_mcp_server),
        )
        .route(language::PATH, routing::post(language::choose))
        .route(LIVE_PATH, routing::get(live::follow))
        .route(
            "/tenants/{tenant_id}/files/raw",
            routing::get(pages::send_file),
        )
        .route(
            "/tenants/{tenant_id}/files/upload",
            routing::post(pages::receive_files),
        )
        .route(
            "/groups/{group_id}/files/raw",
            routing::get(pages::send_file),
        )
        .route(
            "/groups/{group_id}/files/upload",
            routing::post(pages::receive_files),
        )
        .route(
            "/tenants/{tenant_id}/runs/{run_id}/events",
            routing::get(pages::follow_run),
        );
    for page in pages::PAGES {
        router = router.route(page.path, routing::get(pages::serve_page));
    }
    router
        .layer(Extension(Arc::new(OidcSignIn::default())))
        .layer(middleware::from_fn_with_state(
            hub.clone(),
            session_cookie::authenticate,
        ))
        .route("/assets/{file}", routing::get(assets::serve))
        .with_state(hub.clone())
}
