//! Who the bot is, and what the app may do.

use hermes_config::Secret;
use serde_json::{Value, json};

use super::{
    SlackCore,
    api::{SlackBody, SlackFailure},
};
use crate::{
    platform::{FatalError, PlatformHealth},
    send::SLACK_SCOPES,
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SlackIdentity {
    pub(super) user_id: String,
    pub(super) bot_id: String,
    pub(super) team_id: String,
    /// The scopes of the token; `None` where Slack does not tell.
    pub(super) scopes: Option<Vec<String>>,
}

impl SlackIdentity {
    fn from_reply(reply: &Value, scopes: Option<&str>) -> Self {
        let text = |name: &str| reply[name].as_str().unwrap_or_default().to_owned();
        Self {
            user_id: text("user_id"),
            bot_id: text("bot_id"),
            team_id: text("team_id"),
            scopes: scopes.map(|scopes| {
                scopes
                    .split(',')
                    .map(|scope| scope.trim().to_owned())
                    .collect()
            }),
        }
    }

    /// Needed scopes that the token does not have.
    fn missing_scopes(&self) -> Vec<&'static str> {
        let Some(granted) = &self.scopes else {
            return Vec::new();
        };
        let is_missing = |scope: &&str| !granted.iter().any(|granted| granted == scope);
        SLACK_SCOPES.into_iter().filter(is_missing).collect()
    }
}

impl SlackCore {
    /// Who the bot is, asked once.
    pub(super) async fn identity(&self) -> Result<SlackIdentity, SlackFailure> {
        if let Some(identity) = self.known_identity() {
            return Ok(identity);
        }
        self.check_token().await
    }

    /// Asks Slack whether the token is valid, and whose it is.
    pub(super) async fn check_token(&self) -> Result<SlackIdentity, SlackFailure> {
        let body = SlackBody::Json(&json!({}));
        let (reply, headers) = self
            .api
            .call_as(self.api.token(), "auth.test", &body)
            .await?;
        let scopes = headers.get("x-oauth-scopes");
        let scopes = scopes.and_then(|scopes| scopes.to_str().ok());
        let identity = SlackIdentity::from_reply(&reply, scopes);
        *self.identity.write() = Some(identity.clone());
        Ok(identity)
    }

    pub(super) fn known_identity(&self) -> Option<SlackIdentity> {
        self.identity.read().clone()
    }

    /// Tells which scopes are missing.
    pub(super) fn report_scopes(&self, identity: &SlackIdentity, health: &PlatformHealth) {
        let missing = identity.missing_scopes();
        if missing.is_empty() {
            health.clear_warning("missing_scope");
            return;
        }
        let message = format!(
            "the Slack app lacks the scopes {}: add them under OAuth & Permissions and reinstall the app",
            missing.join(", ")
        );
        if health.record_warning("missing_scope", &message) {
            tracing::warn!(account = %self.account, scopes = %missing.join(","), "Slack app lacks scopes");
        }
    }

    /// An address for a new socket.
    pub(super) async fn open_address(
        &self,
        app_token: &Secret<String>,
    ) -> Result<String, SlackFailure> {
        let (reply, _) = self
            .api
            .call_as(app_token, "apps.connections.open", &SlackBody::Form(&[]))
            .await?;
        match reply["url"].as_str() {
            Some(url) => Ok(url.to_owned()),
            None => Err(SlackFailure::Temporary {
                reason: "Slack returned no WebSocket address".into(),
            }),
        }
    }

    /// What cannot be mended by trying again, about the bot's token.
    pub(super) fn fatal_of_bot_token(&self, failure: &SlackFailure) -> Option<FatalError> {
        failure.is_bad_token().then(|| FatalError {
            code: "bad_token",
            message: format!(
                "Slack does not accept {} ({failure}): copy the Bot User OAuth Token (xoxb-…) from OAuth & Permissions",
                self.account.variable("BOT_TOKEN")
            ),
        })
    }

    /// What cannot be mended by trying again, about the app's token.
    pub(super) fn fatal_of_app_token(&self, failure: &SlackFailure) -> Option<FatalError> {
        let variable = self.account.variable("APP_TOKEN");
        let (code, message) = if failure.is("missing_scope") {
            let message = format!(
                "{variable} lacks the scope `connections:write`: generate another App-Level Token with it under Basic Information"
            );
            ("missing_scope", message)
        } else if failure.is("not_allowed_token_type") {
            let message = format!(
                "{variable} is not an App-Level Token: generate one (xapp-…) with `connections:write` under Basic Information"
            );
            ("bad_token", message)
        } else if failure.is_bad_token() {
            let message = format!(
                "Slack does not accept {variable} ({failure}): copy the App-Level Token (xapp-…) from Basic Information"
            );
            ("bad_token", message)
        } else {
            return None;
        };
        Some(FatalError { code, message })
    }
}
