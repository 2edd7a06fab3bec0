//! Remote servers that refuse, redirect, break off and send too much. Whatever they do, their neighbour goes on.

mod auth;
mod bodies;
mod redirects;
mod sessions;
mod tls;

use hermes_testkit::{Behaviour, HttpServer};
use serde_json::{Value, json};

use crate::setup::{Setup, http, with, with_neighbour};

/// A host with the remote server `s`, configured with these keys, and a neighbour.
pub(crate) async fn beside_neighbour(behaviour: Behaviour, keys: Value) -> (Setup, HttpServer) {
    let server = HttpServer::start(behaviour);
    let servers = json!({ "s": with(http(&server), keys) });
    let setup = Setup::start(with_neighbour(servers)).await;
    (setup, server)
}

/// How many requests with this JSON-RPC method a server has seen.
pub(crate) fn count(server: &HttpServer, method: &str) -> usize {
    let requests = server.requests();
    let matching = requests
        .iter()
        .filter(|request| request.rpc_method() == method);
    matching.count()
}
