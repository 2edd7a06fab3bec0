//! Renews tokens: one process at a time, and never at another authorization server than the one that gave them out.

use std::time::SystemTime;

use super::{
    Challenge, Login, OAuthError, ServerMetadata, Tokens, client::ClientLookup, dpop::DpopKey,
    requests::OAuthHttpClient, tokens::TokenAge,
};

/// Why tokens are renewed.
#[derive(Debug, Clone, Copy)]
pub(super) enum RenewalReason<'a> {
    /// They end soon.
    Due,
    /// The server does not take them any more, and says so.
    Rejected(&'a Challenge),
}

impl Login {
    /// Renews tokens, unless another process has done so meanwhile. Returns what is in the file afterwards.
    pub(super) async fn renew_tokens(
        &self,
        known: &Tokens,
        occasion: RenewalReason<'_>,
    ) -> Result<Tokens, OAuthError> {
        let _alone = self.files.lock().await?;
        // Whoever held the lock before may have done the work.
        let Some(kept) = self.files.tokens() else {
            return Err(self.files.missing_tokens_error(&self.url()?));
        };
        let is_new = kept.access_token != known.access_token;
        if is_new
            && (kept.age(SystemTime::now()) == TokenAge::Fresh || kept.refresh_token.is_none())
        {
            return Ok(kept);
        }
        let Some(refresh_token) = &kept.refresh_token else {
            return Err(OAuthError::LoginExpired {
                reason: "the server no longer accepts it, and it cannot be renewed".into(),
            });
        };
        let requests = OAuthHttpClient::new(&self.http).await?;
        let (metadata, resource) = self.renewal_metadata(&requests, &kept, occasion).await?;
        let need = self.client_lookup(&requests, &metadata);
        let client = need
            .find_client()?
            .filter(|client| kept.client_id.as_ref().is_none_or(|id| *id == client.id))
            .ok_or_else(|| OAuthError::LoginExpired {
                reason: "the client that logged in is no longer known".into(),
            })?;
        let key = kept
            .dpop_key
            .as_deref()
            .map(DpopKey::from_pkcs8)
            .transpose()?;
        let form = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh_token.clone()),
            ("resource", resource.clone()),
        ];
        let endpoint = self.endpoint(&requests, &metadata, &client, key.as_ref());
        let renewed = match endpoint.request_tokens(form).await {
            Ok(renewed) => renewed,
            Err(OAuthError::Refused { error, description }) => {
                return Err(self.renewal_error(&need, &client, error, description));
            }
            Err(other) => return Err(other),
        };
        let renewed = Tokens {
            // Not every authorization server gives a new one each time.
            refresh_token: renewed.refresh_token.or_else(|| kept.refresh_token.clone()),
            scope: renewed.scope.or(kept.scope),
            resource: Some(resource),
            requested_scope: kept.requested_scope,
            others: kept.others,
            ..renewed
        };
        self.files.store_tokens(&renewed)?;
        Ok(renewed)
    }

    /// The authorization server that gave the tokens out, and the name of what they are for, which Hermes Agent in Python
    /// does not write down. After a refusal the server is asked whether it is still the one.
    async fn renewal_metadata(
        &self,
        requests: &OAuthHttpClient,
        tokens: &Tokens,
        occasion: RenewalReason<'_>,
    ) -> Result<(ServerMetadata, String), OAuthError> {
        let kept = self.files.metadata();
        let kept = kept.filter(|metadata| self.is_issued_by(tokens, metadata));
        let challenge = match (occasion, kept, &tokens.resource) {
            (RenewalReason::Due, Some(kept), Some(resource)) if kept.token_endpoint.is_some() => {
                return Ok((kept, resource.clone()));
            }
            (RenewalReason::Due, ..) => Challenge::default(),
            (RenewalReason::Rejected(challenge), ..) => challenge.clone(),
        };
        let discovered = super::discovery::discover(requests, &self.url()?, &challenge).await?;
        if !self.is_issued_by(tokens, &discovered.metadata) {
            return Err(OAuthError::LoginExpired {
                reason: format!(
                    "the server has another authorization server now, {}",
                    discovered.metadata.issuer
                ),
            });
        }
        let resource = tokens.resource.clone().unwrap_or(discovered.resource);
        Ok((discovered.metadata, resource))
    }

    /// What a refusal of the token endpoint means.
    fn renewal_error(
        &self,
        need: &ClientLookup<'_>,
        client: &super::client::OAuthClient,
        error: String,
        description: Option<String>,
    ) -> OAuthError {
        if error == "invalid_client"
            && let Err(error) = need.record_rejection(client)
        {
            tracing::warn!(server = %self.server, %error, "failed to record the rejected OAuth client");
        }
        let is_over = matches!(
            error.as_str(),
            "invalid_grant" | "invalid_client" | "unauthorized_client" | "invalid_target"
        );
        if is_over {
            let description = description.map(|text| format!(" ({text})"));
            let description = description.unwrap_or_default();
            OAuthError::LoginExpired {
                reason: format!("the authorization server says {error}{description}"),
            }
        } else {
            OAuthError::Refused { error, description }
        }
    }
}
