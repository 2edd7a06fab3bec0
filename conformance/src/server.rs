//! The server that the suite calls: what its scenarios ask for, behind the product's own HTTP.
//!
//! It says where it listens in one line on stdout, and ends when its stdin does.

use std::{net::SocketAddr, str::FromStr, sync::Arc};

use anyhow::Context as _;
use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
    middleware,
};
use hermes_config::Secret;
use hermes_hub::{Hub, OpenedHub, settings::Settings, tenants::runtime::mock::MockRuntime};
use hermes_serve::{HttpServeOptions, Principal, http};
use tempfile::TempDir;
use tokio::{io::AsyncReadExt as _, net::TcpListener};
use tokio_util::sync::CancellationToken;

mod content;
mod fixtures;
mod input_required;
mod notifications;
mod prompts;
mod resources;
mod server_requests;
mod tasks;

use fixtures::Fixtures;

const TOKEN: &str = "everybody";
/// The suite opens a session for every check and leaves them open.
const MAX_SESSIONS: usize = 10_000;

/// Whose way of serving is tested.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mount {
    /// That of `hermes mcp serve --http`.
    Bridge,
    Hub,
}

impl FromStr for Mount {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "bridge" => Ok(Self::Bridge),
            "hub" => Ok(Self::Hub),
            _ => anyhow::bail!("nothing serves like `{name}`; there are `bridge` and `hub`"),
        }
    }
}

/// The fixtures behind a way of serving, at `/mcp`.
struct MountedServer {
    router: Router,
    /// What a Hub stands on.
    hub: Option<(OpenedHub, TempDir)>,
}

impl Mount {
    /// The fixtures as this one would serve them.
    async fn mount(
        self,
        fixtures: &Arc<Fixtures>,
        address: SocketAddr,
        stop: &CancellationToken,
    ) -> anyhow::Result<MountedServer> {
        let fixtures = Arc::clone(fixtures);
        match self {
            Self::Bridge => {
                let options = HttpServeOptions::default();
                let router = http::router(move || fixtures.connection(), options, stop);
                let token = Secret::new(TOKEN.to_owned());
                let router = http::with_bearer(router, &token, Principal::new("bridge"));
                Ok(MountedServer {
                    router: with_token(router, TOKEN)?,
                    hub: None,
                })
            }
            Self::Hub => {
                let directory = tempfile::tempdir()?;
                let mut settings = Settings::for_directory(&directory.path().join("hub"))?;
                settings.listen = address;
                settings.public_url = format!("http://{address}");
                settings.mcp.sessions_per_token = MAX_SESSIONS;
                let opened = Hub::open(settings, Arc::new(MockRuntime::default())).await?;
                let token = opened.first_token.as_ref().context("no token was made")?;
                let token = std::fs::read_to_string(token)?;
                let router = opened
                    .hub
                    .router_with_handler(move || fixtures.connection());
                Ok(MountedServer {
                    router: with_token(router, token.trim())?,
                    hub: Some((opened, directory)),
                })
            }
        }
    }
}

/// The suite knows no token, so it is presented on its behalf.
fn with_token(router: Router, token: &str) -> anyhow::Result<Router> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"))?;
    let present = move |mut request: Request| {
        let value = value.clone();
        async move {
            request.headers_mut().insert(header::AUTHORIZATION, value);
            request
        }
    };
    Ok(router.layer(middleware::map_request(present)))
}

pub(crate) async fn run(mount: Mount) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("no port to listen on")?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let fixtures = Arc::new(Fixtures::new()?);
    let MountedServer { router, hub } = mount.mount(&fixtures, address, &stop).await?;
    print_url(&format!("http://{address}/mcp"));
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
    if let Some((opened, _directory)) = hub {
        opened.hub.close().await;
    }
    Ok(served?)
}

#[expect(clippy::print_stdout, reason = "a program, not a library")]
fn print_url(url: &str) {
    println!("{url}");
}
