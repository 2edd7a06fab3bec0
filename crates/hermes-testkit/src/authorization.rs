//! An authorization server and the MCP servers it protects, on loopback sockets.
//!
//! It takes what the standards let a server take and refuses the rest: PKCE is verified, codes are good for one use,
//! refresh tokens rotate and their reuse ends the whole family, tokens are bound to a resource and, if asked for, to a
//! key. It consents to everything by itself, so that a visit of the authorization endpoint is answered by the redirect.
//! Every request is recorded, and lies and failures can be ordered at any time.
//!
//! ```no_run
//! use hermes_testkit::authorization::{AuthorizationServer, Endpoint, EndpointFault, Resource, AuthorizationSetup};
//!
//! let server = AuthorizationServer::start(AuthorizationSetup::default());
//! let mcp = server.protect(Resource::default());
//! server.fail(Endpoint::Token, EndpointFault::Status(500));
//! println!("{} wants tokens of {}", mcp.url(), server.issuer());
//! ```

mod authorize;
mod browse;
mod client;
mod client_authentication;
mod device;
mod dpop;
mod federation;
mod grant;
mod jwt;
mod ledger;
mod metadata;
mod refusal;
mod resource;
mod setup;
mod state;
mod token;

pub use browse::{ConsentingBrowser, VisitedPage, browse, first_redirect};
pub use client::RegisteredClient;
pub use jwt::TokenIssuer;
pub use resource::{Challenge, MetadataLocation, Resource};
pub use setup::{
    AuthorizationSetup, CallbackFault, Discovery, Endpoint, EndpointFault, ProofOfPossession,
    RefreshTokens,
};

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    http::{HttpRequest, HttpServer},
    server_thread::{BoundPort, ServerThread},
};
use resource::ResourceGate;
use state::AuthorizationState;

/// An authorization server on a loopback port; it stops when dropped.
pub struct AuthorizationServer {
    state: Arc<AuthorizationState>,
    /// Absent where it shares the origin of the MCP server it protects.
    thread: Option<ServerThread>,
}

impl AuthorizationServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(setup: AuthorizationSetup) -> Self {
        let port = bind_port(0);
        let origin = format!("http://{}", port.address());
        let state = Arc::new(AuthorizationState::new(&origin, setup));
        Self {
            thread: Some(serve(port, &state)),
            state,
        }
    }

    /// An authorization server at the origin of the MCP server it protects, as the oldest revision with
    /// authorization has it. The MCP server has to outlive it.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_sharing_origin(
        setup: AuthorizationSetup,
        resource: Resource,
    ) -> (Self, HttpServer) {
        let mut made = None;
        let behaviour = resource.behaviour.clone();
        let server = HttpServer::start_behind(behaviour, |origin| {
            let state = Arc::new(AuthorizationState::new(origin, setup));
            made = Some(Arc::clone(&state));
            Arc::new(ResourceGate::new(origin, &state, resource).sharing_origin())
        });
        let state = made.unwrap_or_else(|| panic!("the gate is made when the server starts"));
        let authorization = Self {
            state,
            thread: None,
        };
        (authorization, server)
    }

    /// Starts an MCP server that asks for tokens of this one.
    pub fn protect(&self, resource: Resource) -> HttpServer {
        let behaviour = resource.behaviour.clone();
        HttpServer::start_behind(behaviour, |origin| {
            Arc::new(ResourceGate::new(origin, &self.state, resource))
        })
    }

    /// Its identifier: where discovery begins, and what `iss` has to be.
    pub fn issuer(&self) -> String {
        self.state.issuer()
    }

    /// What it signs with, for servers that are to trust it.
    pub fn identity(&self) -> &TokenIssuer {
        &self.state.identity
    }

    /// An ID token for a client, as somebody gets one who has signed on here.
    pub fn id_token(&self, subject: &str, client: &str) -> String {
        let token = self
            .state
            .identity
            .sign_claims(subject, client, json!({}), self.state.now());
        self.state.ledger().remember(&token);
        token
    }

    /// Makes a client known.
    pub fn register(&self, client: RegisteredClient) {
        self.state.ledger().add_client(client);
    }

    /// Lets it find a client's own description at this address.
    pub fn publish(&self, url: &str, document: Value) {
        self.state.ledger().publish(url, document);
    }

    /// Takes assertions of this issuer from now on.
    pub fn trust(&self, issuer: &TokenIssuer) {
        self.state.ledger().trust(issuer);
    }

    /// Says under which name the servers that trust this one know a client of it.
    pub fn federate(&self, client: &str, known_as: &str) {
        self.state.ledger().federate(client, known_as);
    }

    /// Makes an endpoint fail until [`Self::clear_fault`].
    pub fn fail(&self, endpoint: Endpoint, fault: EndpointFault) {
        self.state.ledger().fail(endpoint, fault);
    }

    /// Ends what [`Self::fail`] began.
    pub fn clear_fault(&self, endpoint: Endpoint) {
        self.state.ledger().mend(endpoint);
    }

    /// Sets or clears a fault of the redirect from the authorization endpoint.
    pub fn set_callback_fault(&self, fault: Option<CallbackFault>) {
        self.state.ledger().callback_fault = fault;
    }

    /// How long access tokens last that are issued from now on.
    pub fn set_lifetime(&self, lifetime: Duration) {
        self.state.ledger().lifetime = lifetime;
    }

    /// Puts the server's clock ahead of the machine's, or behind it, by so many seconds.
    pub fn set_clock_offset(&self, seconds: i64) {
        self.state.ledger().clock_offset = seconds;
    }

    /// Lets every access token expire; refresh tokens stay good.
    pub fn expire_access_tokens(&self) {
        self.state.ledger().expire_access_tokens();
    }

    /// Withdraws every token, as somebody does who takes back a consent.
    pub fn revoke_everything(&self) {
        self.state.ledger().revoke_everything();
    }

    /// Forgets the clients that registered themselves.
    pub fn forget_registrations(&self) {
        self.state.ledger().forget_registrations();
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.state.requests()
    }

    pub fn requests_to(&self, endpoint: Endpoint) -> Vec<HttpRequest> {
        let is_it = |request: &HttpRequest| {
            self.state.endpoint(request.path_without_query()) == Some(endpoint)
        };
        self.requests().into_iter().filter(is_it).collect()
    }

    /// Everything it issued or was shown that nobody else should see: tokens, codes, verifiers, secrets.
    pub fn secrets(&self) -> Vec<String> {
        self.state.ledger().secrets.clone()
    }

    /// Closes all connections and the listener. What was issued is remembered.
    pub fn stop(&mut self) {
        if let Some(thread) = &mut self.thread {
            thread.stop();
        }
    }

    /// Serves again after [`Self::stop`], at the same address.
    ///
    /// # Panics
    ///
    /// If the port is taken.
    pub fn restart(&mut self) {
        self.stop();
        if let Some(thread) = &mut self.thread {
            *thread = serve(bind_port(thread.address().port()), &self.state);
        }
    }
}

fn bind_port(port: u16) -> BoundPort {
    BoundPort::bind(port)
        .unwrap_or_else(|error| panic!("no authorization server on port {port}: {error}"))
}

fn serve(port: BoundPort, state: &Arc<AuthorizationState>) -> ServerThread {
    let state = Arc::clone(state);
    port.serve(move |socket| state::serve(socket, state))
        .unwrap_or_else(|error| panic!("no runtime for an authorization server: {error}"))
}
