//! The bridge over HTTP: where it listens, for whom, and the token that clients present.

use std::{
    fs, io,
    net::{SocketAddr, ToSocketAddrs},
    path::Path,
};

use hermes_config::{
    Secret, Settings,
    private_file::{ExistingFile, FileOwner, WriteOptions, create_private_dirs, write_file},
    random::random_hex,
};
use hermes_gateway::bridge::Bridge;
use hermes_serve::{HttpServeOptions, Principal, http};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{cli::ServeArgs, context::Context, failure::Failure};

const TOKEN_VARIABLE: &str = "HERMES_BRIDGE_TOKEN";

/// Where it will listen, and what it will ask for.
pub(super) struct HttpEndpoint {
    address: SocketAddr,
    token: Secret<String>,
    options: HttpServeOptions,
}

impl HttpEndpoint {
    pub(super) fn prepare(
        context: &Context,
        args: &ServeArgs,
        address: &str,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let address = resolve_address(address)?;
        let is_remote = !address.ip().is_loopback();
        if is_remote && !args.allow_remote {
            let failure = Failure::usage(format!("other machines can reach {address}"));
            return Err(failure.hint(
                "`--allow-remote` allows that; whoever has the token can then read and send messages",
            ));
        }
        let http = &settings.bridge.http;
        let mut options = HttpServeOptions {
            allowed_hosts: http.allowed_hosts.clone(),
            allowed_origins: http.allowed_origins.clone(),
            ..HttpServeOptions::default()
        };
        if is_remote && !address.ip().is_unspecified() {
            options.allowed_hosts.push(host_header(address));
        }
        if address.ip().is_unspecified() && options.allowed_hosts.is_empty() {
            context.output.warning(
                "only requests to `localhost` are answered; name the others in `bridge.http.allowed_hosts`",
            );
        }
        Ok(Self {
            address,
            token: find_token(context, args, settings)?,
            options,
        })
    }

    pub(super) async fn serve(
        self,
        context: &Context,
        bridge: &Bridge,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let listener = TcpListener::bind(self.address).await.map_err(|error| {
            Failure::failed(format!("{} cannot be listened on: {error}", self.address))
        })?;
        let address = listener.local_addr()?;
        let path = self.options.path.clone();
        let handlers = bridge.clone();
        let router = http::router(move || handlers.new_connection(), self.options, stop);
        let router = http::with_bearer(router, &self.token, Principal::new("bridge"));
        context
            .output
            .note(format!("listening on http://{address}{path}"));
        http::serve(listener, router, stop.clone())
            .await
            .map_err(|error| Failure::failed(error.to_string()))
    }
}

fn resolve_address(address: &str) -> Result<SocketAddr, Failure> {
    let unusable = |reason: String| {
        Failure::usage(format!(
            "`{address}` is not an address to listen on: {reason}"
        ))
        .hint("give a host and a port, such as `127.0.0.1:8765`")
    };
    let mut addresses = address
        .to_socket_addrs()
        .map_err(|error| unusable(error.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| unusable("it is unknown".into()))
}

/// An address as it stands in the header `Host`, without the port.
fn host_header(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// The token: from the file that is named, the environment, the configuration, or one kept in the home.
pub(super) fn find_token(
    context: &Context,
    args: &ServeArgs,
    settings: &Settings,
) -> Result<Secret<String>, Failure> {
    if let Some(path) = &args.token_file {
        return read_token(path);
    }
    if let Some(token) = settings
        .variables
        .get(TOKEN_VARIABLE)
        .filter(|token| !token.is_empty())
    {
        return Ok(Secret::new(token.to_owned()));
    }
    if let Some(token) = &settings.bridge.http.token {
        return Ok(token.clone());
    }
    let path = context.home.path().join("bridge/token");
    if !path.exists() {
        create_token(&path).map_err(|error| {
            Failure::failed(format!(
                "no token can be kept in `{}`: {error}",
                path.display()
            ))
            .hint(format!(
                "name a file with `--token-file`, or set `{TOKEN_VARIABLE}`"
            ))
        })?;
    }
    context.output.note(format!("token: {}", path.display()));
    read_token(&path)
}

fn read_token(path: &Path) -> Result<Secret<String>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!(
            "the token in `{}` cannot be read: {error}",
            path.display()
        ))
    })?;
    let token = text.trim();
    let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_one {
        let problem = format!(
            "`{}` has no token: one line of visible characters is expected",
            path.display()
        );
        return Err(Failure::usage(problem));
    }
    Ok(Secret::new(token.to_owned()))
}

/// Makes a token that nobody can guess, in a file that only its owner can read.
fn create_token(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        create_private_dirs(directory, FileOwner::Writer)?;
    }
    let token = random_hex::<32>()? + "\n";
    let options = WriteOptions {
        existing: ExistingFile::Refuse,
        ..WriteOptions::default()
    };
    write_file(path, token.as_bytes(), options)
}
