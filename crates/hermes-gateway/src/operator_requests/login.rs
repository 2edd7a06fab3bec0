//! Logins to remote servers that a person begins and ends elsewhere: the address to open goes out, and the address that the
//! browser was sent to comes in. The tokens stay here.

use hermes_config::{ConfigFile, Server, ServerName, TransportSettings};
use hermes_mcp::oauth::{
    AuthorizationPrompt, Login, LoginFlow, LoginMode, LoginUi, OAuthError, TokenFiles,
};
use hermes_mcp::tools::pins::Pins;
use hermes_protocol::{LoginAddress, LoginReport, RefusalReason, RequestRefusal};

use super::{check_feature, refuse, unknown_server};
use crate::gateway::Gateway;

/// Nobody is here: the person is where the Hub's client is.
struct RemotePerson;

impl LoginUi for RemotePerson {
    fn mode(&self) -> LoginMode {
        LoginMode::Deferred
    }

    fn open_url<'a>(&'a self, _: &'a AuthorizationPrompt) -> futures::future::BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

pub(super) async fn begin(
    gateway: &Gateway,
    server: &str,
    redirect_uri: String,
    state: String,
) -> Result<LoginAddress, RequestRefusal> {
    let login = login_for(gateway, server, Some(redirect_uri))?.with_state(state);
    match login.run(&RemotePerson, Some(LoginFlow::Paste)).await {
        Err(OAuthError::RedirectPending { url, .. }) => Ok(LoginAddress { url }),
        Ok(_) => Err(refuse(
            RefusalReason::LoginFailed,
            format!("the login to `{server}` needs no person"),
        )),
        Err(error) => Err(describe_failure(gateway, &error)),
    }
}

pub(super) async fn finish(
    gateway: &Gateway,
    server: &str,
    address: &str,
) -> Result<LoginReport, RequestRefusal> {
    let login = login_for(gateway, server, None)?;
    let summary = login
        .finish_pending(address)
        .await
        .map_err(|error| describe_failure(gateway, &error))?;
    let name = ServerName::new(server);
    set_auth(gateway, &name)?;
    // The entry may say `auth: oauth` now, and whoever asks next should find the server connected.
    match gateway.load_settings() {
        Ok(settings) => drop(gateway.reload(settings).await),
        Err(error) => tracing::warn!(%error, "failed to read the configuration"),
    }
    if let Some(host) = gateway.agent().host() {
        host.check(&name).await;
    }
    Ok(LoginReport {
        issuer: summary.issuer,
        scope: summary.scope,
        expires_at: summary.expires_at,
        is_renewable: summary.is_renewable,
    })
}

/// Deletes the tokens, the registered client and the pins of a server.
pub(super) fn forget(gateway: &Gateway, server: &str) -> Result<(), RequestRefusal> {
    let name = ServerName::new(server);
    let home = gateway.home();
    let names = gateway
        .load_settings()
        .map(|settings| settings.server_names());
    let files = TokenFiles::new(home, &names.unwrap_or_default(), &name);
    let forgotten = delete_files(&files).and_then(|()| Pins::for_home(home).forget(&name));
    forgotten.map_err(|error| {
        tracing::warn!(server, %error, "failed to delete the stored data of a server");
        refuse(
            RefusalReason::Unusable,
            format!("the files of `{server}` cannot be removed"),
        )
    })
}

fn delete_files(files: &TokenFiles) -> std::io::Result<()> {
    for path in files.list_files()? {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// The login of a server, its references filled in with the home's variables.
fn login_for(
    gateway: &Gateway,
    server: &str,
    redirect_uri: Option<String>,
) -> Result<Login, RequestRefusal> {
    check_feature(gateway)?;
    let name = ServerName::new(server);
    let agent = gateway.agent();
    let settings = agent.settings();
    let Some(entry) = settings.server(server) else {
        return Err(super::explain_missing(gateway, &name));
    };
    let unusable = |error: &dyn std::fmt::Display| {
        refuse(
            RefusalReason::Unusable,
            format!("server `{server}` cannot be used: {error}"),
        )
    };
    let usable: &Server = entry.server.as_ref().map_err(|error| unusable(error))?;
    let resolved = usable
        .resolve(agent.home(), &settings.variables, agent.references())
        .map_err(|error| unusable(&error))?;
    let http = match resolved.transport {
        TransportSettings::Http(http) | TransportSettings::Sse(http) => http,
        TransportSettings::Stdio(_) => {
            return Err(refuse(
                RefusalReason::Unusable,
                format!("`{server}` is a local server; there is nothing to log in to"),
            ));
        }
    };
    let mut oauth = resolved.oauth;
    if let Some(redirect_uri) = redirect_uri {
        oauth.redirect_uri = Some(redirect_uri);
        oauth.redirect_port = 0;
    }
    let files = TokenFiles::new(agent.home(), &settings.server_names(), &name);
    Ok(Login::new(name, http, oauth, files))
}

/// Writes `auth: oauth` where it is missing, so that the tokens are used.
fn set_auth(gateway: &Gateway, name: &ServerName) -> Result<(), RequestRefusal> {
    let settings = gateway.agent().settings();
    let Some(entry) = settings.server(name.as_str()) else {
        return Err(unknown_server(name));
    };
    if !entry
        .server
        .as_ref()
        .is_ok_and(|server| server.auth.is_none())
    {
        return Ok(());
    }
    let saved = ConfigFile::open(gateway.home()).and_then(|mut file| {
        file.set_server_key(name.as_str(), &["auth"], "oauth".into());
        file.save()
    });
    saved.map_err(|error| {
        tracing::warn!(server = %name, %error, "failed to save `auth: oauth`");
        refuse(
            RefusalReason::LoginFailed,
            format!("the login is kept, but `auth: oauth` of `{name}` cannot be saved; set it"),
        )
    })
}

fn describe_failure(gateway: &Gateway, error: &OAuthError) -> RequestRefusal {
    let message = match error {
        OAuthError::NoPendingLogin { server } => {
            format!(
                "no login to `{server}` is waiting: it was finished, or it is too old; begin again"
            )
        }
        error => error.to_string(),
    };
    refuse(
        RefusalReason::LoginFailed,
        gateway.agent().redactor().redact(&message).into_owned(),
    )
}
