//! The bots of a tenant: its agent asks the Hub for each, so that no other tenant uses the same one.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::{Secret, bot_lock::BotId};
use hermes_gateway::inbound::bot_claim::{BotClaim, BotRegistry, ClaimError};
use hermes_hub::ProblemDocument;
use reqwest::{Method, StatusCode, Url};

use crate::private_routes::PrivateRoutes;

const HOME_URL: &str = "http://hub/internal/v1/home/checkpoints";

/// Asks the Hub which bots are free.
pub(crate) struct HubBots {
    routes: PrivateRoutes,
    /// The Hub has said that the home stays on this machine.
    stays_here: AtomicBool,
}

impl HubBots {
    /// Those of the Hub that this process belongs to.
    pub(crate) fn from_environment(key: &Secret<String>) -> Option<Self> {
        let routes = PrivateRoutes::from_environment(key)?;
        Some(Self {
            routes,
            stays_here: AtomicBool::new(false),
        })
    }

    async fn ask(&self, bot: &BotId) -> Result<Box<dyn BotClaim>, ClaimError> {
        let unavailable = |reason: String| ClaimError::Unavailable { reason };
        let url = bot_url(bot).map_err(|error| unavailable(error.to_string()))?;
        let sent = self.routes.request(Method::POST, url.clone()).send().await;
        let reply = sent.map_err(|error| unavailable(error.without_url().to_string()))?;
        match reply.status() {
            StatusCode::CONFLICT => {
                let problem = reply.json::<ProblemDocument>().await;
                Err(ClaimError::InUse {
                    reason: problem.map_or_else(
                        |_| "another agent uses this bot token".into(),
                        |problem| problem.message,
                    ),
                })
            }
            status if status.is_success() => Ok(Box::new(HubClaim {
                routes: self.routes.clone(),
                url,
            })),
            status => Err(unavailable(format!("the Hub answered {status}"))),
        }
    }
}

impl HubBots {
    /// Has the Hub store the home, where other machines may go on with it.
    async fn store_home(&self) -> Result<(), ClaimError> {
        if self.stays_here.load(Ordering::Relaxed) {
            return Ok(());
        }
        let unavailable = |reason: String| ClaimError::Unavailable { reason };
        let url = Url::parse(HOME_URL).map_err(|error| unavailable(error.to_string()))?;
        let sent = self.routes.request(Method::POST, url).send().await;
        let reply = sent.map_err(|error| unavailable(error.without_url().to_string()))?;
        match reply.status() {
            StatusCode::NO_CONTENT => self.stays_here.store(true, Ordering::Relaxed),
            status if status.is_success() => {}
            status => return Err(unavailable(format!("the Hub answered {status}"))),
        }
        Ok(())
    }
}

fn bot_url(bot: &BotId) -> Result<Url, url::ParseError> {
    Url::parse(&format!("http://hub/internal/v1/bots/{bot}"))
}

impl BotRegistry for HubBots {
    fn claim<'a>(&'a self, bot: &'a BotId) -> BoxFuture<'a, Result<Box<dyn BotClaim>, ClaimError>> {
        self.ask(bot).boxed()
    }

    fn keep_home(&self) -> BoxFuture<'_, Result<(), ClaimError>> {
        self.store_home().boxed()
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
                tracing::warn!(%error, "failed to report a released bot to the Hub");
            }
        }
        .boxed()
    }
}
