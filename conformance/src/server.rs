//! The server that the suite calls: what its scenarios ask for, behind the product's own HTTP.
//!
//! It says where it listens in one line on stdout, and ends when its stdin does.

use std::{str::FromStr, sync::Arc};

use anyhow::Context as _;
use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
    middleware,
};
use hermes_config::Secret;
use hermes_mcp::serve::{
    Principal,
    http::{self, HttpOptions},
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};
use tokio_util::sync::CancellationToken;

mod asking;
mod content;
mod fixtures;
mod prompts;
mod resources;
mod rounds;
mod tasks;
mod telling;

use fixtures::Fixtures;

const TOKEN: &str = "everybody";
const PRESENTED: &str = "Bearer everybody";

/// Whose way of serving is tested.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mount {
    /// That of `hermes mcp serve --http`.
    Bridge,
}

impl FromStr for Mount {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "bridge" => Ok(Self::Bridge),
            _ => anyhow::bail!("nothing serves like `{name}`; there is `bridge`"),
        }
    }
}

impl Mount {
    /// The route, and the fixtures behind it as this one would serve them.
    fn router(self, fixtures: &Arc<Fixtures>, stop: &CancellationToken) -> (String, Router) {
        let fixtures = Arc::clone(fixtures);
        match self {
            Self::Bridge => {
                let options = HttpOptions::default();
                let path = options.path.clone();
                let router = http::router(move || fixtures.connection(), options, stop);
                let token = Secret::new(TOKEN.to_owned());
                let router = http::with_bearer(router, &token, Principal::new("bridge"));
                (path, router.layer(middleware::map_request(present_token)))
            }
        }
    }
}

/// The suite knows no token, so it is presented on its behalf.
async fn present_token(mut request: Request) -> Request {
    let value = HeaderValue::from_static(PRESENTED);
    request.headers_mut().insert(header::AUTHORIZATION, value);
    request
}

pub(crate) async fn run(mount: Mount) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("no port to listen on")?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let fixtures = Arc::new(Fixtures::new()?);
    let (path, router) = mount.router(&fixtures, &stop);
    announce(&format!("http://{address}{path}"));
    let until_stdin_ends = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        stop.cancel();
    };
    let (served, ()) = tokio::join!(
        http::serve(listener, router, stop.clone()),
        until_stdin_ends
    );
    fixtures.tasks.shutdown();
    Ok(served?)
}

#[expect(clippy::print_stdout, reason = "a program, not a library")]
fn announce(url: &str) {
    println!("{url}");
}
