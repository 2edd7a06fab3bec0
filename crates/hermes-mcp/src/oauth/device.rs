//! Device codes (RFC 8628): a short code is shown here and entered on any other machine.

use std::{fmt, time::Duration};

use hermes_config::server::OAuthGrant;
use serde::Deserialize;

use super::{
    Login, LoginUi, OAuthError, Tokens, address::display_url, login::LoginContext,
    token_endpoint::FormFields,
};

/// The grant, as authorization servers name it.
pub(super) const DEVICE_CODE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Between questions, where the authorization server does not say.
const DEFAULT_POLL_INTERVAL: u64 = 5;

/// What a person has to do. `Debug` does not show what the tokens are asked for with.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct DeviceCode {
    pub user_code: String,
    #[serde(alias = "verification_url")]
    pub verification_uri: String,
    /// The same address with the code in it.
    #[serde(default)]
    pub verification_uri_complete: Option<String>,
    /// For how many seconds it holds.
    #[serde(default = "default_lifetime")]
    pub expires_in: u64,
    #[serde(rename = "device_code")]
    secret: String,
    #[serde(default = "default_poll_interval")]
    interval: u64,
}

impl fmt::Debug for DeviceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceCode")
            .field("user_code", &self.user_code)
            .field("verification_uri", &self.verification_uri)
            .finish_non_exhaustive()
    }
}

fn default_lifetime() -> u64 {
    600
}

fn default_poll_interval() -> u64 {
    DEFAULT_POLL_INTERVAL
}

impl Login {
    /// Shows a code and asks until it was entered.
    pub(super) async fn log_in_with_device_code(
        &self,
        prepared: &LoginContext,
        person: &dyn LoginUi,
    ) -> Result<Tokens, OAuthError> {
        let discovered = &prepared.discovered;
        let metadata = &discovered.metadata;
        let url = metadata.endpoint_url(
            "device_authorization_endpoint",
            metadata.device_authorization_endpoint.as_deref(),
        )?;
        let scope = self.scope(prepared, OAuthGrant::DeviceCode);
        // Nothing comes back by a browser; a registration needs an address anyway.
        let redirect_uri = format!("http://{}:8765/callback", self.settings.redirect_host);
        let client = self
            .choose_client(prepared, person, &redirect_uri, scope.as_deref())
            .await?;
        self.client_lookup(&prepared.requests, metadata)
            .store_client(&client, &redirect_uri)?;
        let key = self.new_dpop_key(prepared)?;
        let endpoint = self.endpoint(&prepared.requests, metadata, &client, key.as_ref());
        let mut form: FormFields = vec![("resource", discovered.resource.clone())];
        form.extend(scope.clone().map(|scope| ("scope", scope)));
        let reply = endpoint.post(&url, form).await?;
        let code = reply
            .json()
            .and_then(|body| serde_json::from_value::<DeviceCode>(body).ok())
            .ok_or_else(|| OAuthError::BadReply {
                what: display_url(&url),
                reason: "it has no device code".into(),
            })?;
        let life = Duration::from_secs(code.expires_in);
        person.show_device_code(&code).await;
        let mut pause = Duration::from_secs(code.interval.max(1));
        let asking = async {
            loop {
                tokio::time::sleep(pause).await;
                let form = vec![
                    ("grant_type", DEVICE_CODE_GRANT.to_owned()),
                    ("device_code", code.secret.clone()),
                    ("resource", discovered.resource.clone()),
                ];
                match endpoint.request_tokens(form).await {
                    Err(OAuthError::Refused { error, .. }) if error == "authorization_pending" => {}
                    Err(OAuthError::Refused { error, .. }) if error == "slow_down" => {
                        pause += Duration::from_secs(DEFAULT_POLL_INTERVAL);
                    }
                    // A token endpoint that is away for a moment does not end the login.
                    Err(OAuthError::Unavailable { .. } | OAuthError::BadReply { .. }) => {
                        pause = (pause * 2).min(life);
                    }
                    Err(OAuthError::Refused { error, .. }) if error == "access_denied" => {
                        return Err(OAuthError::Denied(error));
                    }
                    other => return other,
                }
            }
        };
        let tokens = match tokio::time::timeout(life, asking).await {
            Ok(tokens) => tokens?,
            Err(_) => return Err(OAuthError::TimedOut(life)),
        };
        Ok(Tokens {
            resource: Some(discovered.resource.clone()),
            requested_scope: scope,
            ..tokens
        })
    }
}
