//! Tokens without a person: a client's own credentials, a workload's identity, an employer's identity provider.

use hermes_config::server::{EnterpriseSettings, OAuthGrant};
use url::Url;

use super::{
    Login, OAuthError, ServerMetadata, Tokens,
    client::{ClientAuthMethod, ClientOrigin, OAuthClient},
    discovery,
    login::LoginContext,
    token_endpoint::{FormFields, TokenEndpoint},
};
use crate::oauth::tokens;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// A statement of an identity provider that a person may use a server.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

impl Login {
    /// Gets tokens by a grant that needs nobody. `more` are scopes that the server wants besides.
    pub(super) async fn log_in_noninteractively(
        &self,
        prepared: &LoginContext,
        grant: OAuthGrant,
        more: Option<&str>,
    ) -> Result<Tokens, OAuthError> {
        let discovered = &prepared.discovered;
        let client = self.noninteractive_client(prepared, grant)?;
        let wanted = self.scope(prepared, grant);
        let wanted = tokens::join_scopes(wanted.as_deref().into_iter().chain(more));
        let mut form: FormFields = match grant {
            OAuthGrant::JwtBearer => {
                let assertion = self.settings.assertion.clone();
                let assertion = assertion.ok_or_else(|| missing_setting("oauth.assertion"))?;
                vec![
                    ("grant_type", JWT_BEARER.into()),
                    ("assertion", assertion.trim().to_owned()),
                ]
            }
            OAuthGrant::EnterpriseManaged => {
                let statement = self.request_id_jag(prepared, wanted.as_deref()).await?;
                vec![("grant_type", JWT_BEARER.into()), ("assertion", statement)]
            }
            _ => vec![("grant_type", "client_credentials".into())],
        };
        form.push(("resource", discovered.resource.clone()));
        form.extend(wanted.clone().map(|scope| ("scope", scope)));
        let key = self.new_dpop_key(prepared)?;
        let endpoint = self.endpoint(
            &prepared.requests,
            &discovered.metadata,
            &client,
            key.as_ref(),
        );
        let tokens = endpoint.request_tokens(form).await?;
        Ok(Tokens {
            resource: Some(discovered.resource.clone()),
            requested_scope: wanted,
            // There is nothing to renew: the same question is asked again.
            refresh_token: None,
            ..tokens
        })
    }

    /// A workload's identity token says enough; the other grants want a client of the user's own.
    fn noninteractive_client(
        &self,
        prepared: &LoginContext,
        grant: OAuthGrant,
    ) -> Result<OAuthClient, OAuthError> {
        let need = self.client_lookup(&prepared.requests, &prepared.discovered.metadata);
        match (need.find_client()?, grant) {
            (Some(client), _) => Ok(client),
            (None, OAuthGrant::JwtBearer) => Ok(OAuthClient::anonymous()),
            (None, _) => Err(missing_setting("oauth.client_id")),
        }
    }

    /// Has the identity provider state that its person may use this server.
    async fn request_id_jag(
        &self,
        prepared: &LoginContext,
        scope: Option<&str>,
    ) -> Result<String, OAuthError> {
        let enterprise = self.settings.enterprise.as_ref();
        let enterprise = enterprise.ok_or_else(|| missing_setting("oauth.enterprise"))?;
        let provider = self.identity_provider(prepared, enterprise).await?;
        let client = OAuthClient {
            id: enterprise.client_id.clone().unwrap_or_default(),
            secret: enterprise.client_secret.clone(),
            auth_method: match &enterprise.client_secret {
                None => ClientAuthMethod::None,
                Some(_) if provider.supports_auth_method("client_secret_basic") => {
                    ClientAuthMethod::SecretInHeader
                }
                Some(_) => ClientAuthMethod::SecretInForm,
            },
            origin: ClientOrigin::Configured,
        };
        let discovered = &prepared.discovered;
        let mut form: FormFields = vec![
            ("grant_type", TOKEN_EXCHANGE.into()),
            ("requested_token_type", ID_JAG.into()),
            ("subject_token", enterprise.id_token.trim().to_owned()),
            ("subject_token_type", ID_TOKEN.into()),
            ("audience", discovered.metadata.issuer.clone()),
            ("resource", discovered.resource.clone()),
        ];
        form.extend(scope.map(|scope| ("scope", scope.to_owned())));
        let endpoint = TokenEndpoint {
            metadata: &provider,
            ..self.endpoint(&prepared.requests, &discovered.metadata, &client, None)
        };
        let reply = endpoint.post(&provider.token_url()?, form).await?;
        let statement = reply
            .json()
            .and_then(|body| Some(body.get("access_token")?.as_str()?.to_owned()));
        statement.ok_or_else(|| OAuthError::BadReply {
            what: format!("the identity provider {}", provider.issuer),
            reason: "it has no assertion".into(),
        })
    }

    /// The identity provider, by its metadata or its token endpoint alone. The user named it, so it may be anywhere.
    async fn identity_provider(
        &self,
        prepared: &LoginContext,
        enterprise: &EnterpriseSettings,
    ) -> Result<ServerMetadata, OAuthError> {
        if let Some(endpoint) = &enterprise.token_endpoint {
            let issuer = enterprise.issuer.clone();
            let origin = || Some(Url::parse(endpoint).ok()?.origin().ascii_serialization());
            return Ok(ServerMetadata {
                issuer: issuer.or_else(origin).unwrap_or_default(),
                token_endpoint: Some(endpoint.clone()),
                ..ServerMetadata::default()
            });
        }
        let issuer = enterprise.issuer.as_deref();
        let issuer = issuer.ok_or_else(|| missing_setting("oauth.enterprise.issuer"))?;
        discovery::fetch_server_metadata(&prepared.requests, issuer).await
    }
}

fn missing_setting(key: &'static str) -> OAuthError {
    OAuthError::Setting {
        key,
        reason: "is needed for this kind of login".into(),
    }
}
