//! The bots of a tenant: its agent asks the Hub for each, so that no other tenant uses the same one.

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::{Secret, bot_lock::BotId};
use hermes_gateway::inbound::bot_claim::{BotClaim, BotRegistry, ClaimError};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;

use super::private_routes::PrivateRoutes;

/// Asks the Hub which bots are free.
pub(crate) struct HubBots(PrivateRoutes);

impl HubBots {
    /// Those of the Hub that this process belongs to.
    pub(crate) fn from_environment(key: &Secret<String>) -> Option<Self> {
        PrivateRoutes::from_environment(key).map(Self)
    }

    async fn ask(&self, bot: &BotId) -> Result<Box<dyn BotClaim>, ClaimError> {
        let unavailable = |reason: String| ClaimError::Unavailable { reason };
        let url = bot_url(bot).map_err(|error| unavailable(error.to_string()))?;
        let sent = self.0.request(Method::POST, url.clone()).send().await;
        let reply = sent.map_err(|error| unavailable(error.without_url().to_string()))?;
        match reply.status() {
            StatusCode::CONFLICT => {
                let problem: Value = reply.json().await.unwrap_or_default();
                let message = problem["message"].as_str();
                Err(ClaimError::InUse {
                    reason: message
                        .unwrap_or("another agent uses this bot token")
                        .into(),
                })
            }
            status if status.is_success() => Ok(Box::new(HubClaim {
                routes: self.0.clone(),
                url,
            })),
            status => Err(unavailable(format!("the Hub answered {status}"))),
        }
    }
}

fn bot_url(bot: &BotId) -> Result<Url, url::ParseError> {
    Url::parse(&format!("http://hub/internal/v1/bots/{bot}"))
}

impl BotRegistry for HubBots {
    fn claim<'a>(&'a self, bot: &'a BotId) -> BoxFuture<'a, Result<Box<dyn BotClaim>, ClaimError>> {
        self.ask(bot).boxed()
    }
}

/// A bot that the Hub has given to this tenant, until it is released or this process ends.
struct HubClaim {
    routes: PrivateRoutes,
    url: Url,
}

impl BotClaim for HubClaim {
    fn release(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move {
            let request = self.routes.request(Method::DELETE, self.url);
            if let Err(error) = request.send().await {
                let error = error.without_url();
                tracing::warn!(%error, "failed to tell the Hub that a bot is free");
            }
        }
        .boxed()
    }
}
