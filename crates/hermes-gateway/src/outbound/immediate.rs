//! Messages that need not survive a crash: prompts with buttons, and what becomes of them.

use std::time::Duration;

use futures::future::BoxFuture;

use super::{Outbox, budget::ChatBudget};
use crate::platform::{
    Account, ChatAddress, OutboundMessage, PostError, Posted, SharedClient, TextFormat,
};

const ATTEMPTS: u32 = 3;
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Whoever waits longer than this has no use for the message any more.
const MAX_WAIT: Duration = Duration::from_mins(2);
const TIMEOUT: Duration = Duration::from_secs(30);

impl Outbox {
    /// Posts a message now. Waits for the chat's budget, and tries again where that may help.
    pub fn post_now<'a>(
        &'a self,
        account: &'a Account,
        chat: &'a ChatAddress,
        message: OutboundMessage,
    ) -> BoxFuture<'a, Result<Posted, PostError>> {
        let request = ImmediateRequest {
            outbox: self,
            account,
            chat,
            replaced: None,
        };
        Box::pin(request.send(message))
    }

    /// Replaces a message now, such as a prompt that was answered.
    pub fn edit_now<'a>(
        &'a self,
        account: &'a Account,
        chat: &'a ChatAddress,
        message_id: &'a str,
        message: OutboundMessage,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        let request = ImmediateRequest {
            outbox: self,
            account,
            chat,
            replaced: Some(message_id),
        };
        Box::pin(async move { request.send(message).await.map(|_| ()) })
    }
}

struct ImmediateRequest<'a> {
    outbox: &'a Outbox,
    account: &'a Account,
    chat: &'a ChatAddress,
    /// The message that is replaced; without one it is posted.
    replaced: Option<&'a str>,
}

impl ImmediateRequest<'_> {
    async fn send(self, mut message: OutboundMessage) -> Result<Posted, PostError> {
        let inner = &self.outbox.inner;
        let client = inner.clients.get(self.account);
        let client = client.ok_or_else(|| PostError::Temporary {
            reason: format!("{} is not connected", self.account),
        })?;
        let now = inner.clock.monotonic();
        let budget = inner.budgets.get(self.account, &self.chat.id, now);
        let _waiting = budget.begin_message();
        let mut attempt = 1;
        loop {
            self.wait_for_budget(&budget).await?;
            let sending = self.request(&client, &message);
            let sent = match tokio::time::timeout(TIMEOUT, sending).await {
                Ok(sent) => sent,
                Err(_) => Err(PostError::Temporary {
                    reason: format!("no reply within {} s", TIMEOUT.as_secs()),
                }),
            };
            match sent {
                Ok(done) => {
                    budget.record_sent(inner.clock.monotonic());
                    return Ok(done);
                }
                Err(PostError::RateLimited { wait }) if attempt < ATTEMPTS => {
                    budget.block(inner.clock.monotonic(), wait);
                }
                Err(PostError::Temporary { .. }) if attempt < ATTEMPTS => {
                    inner.clock.sleep(FIRST_RETRY * attempt).await;
                }
                Err(PostError::Markup { .. }) if message.format == TextFormat::Markdown => {
                    message.format = TextFormat::Plain;
                }
                Err(error) => {
                    if let PostError::RateLimited { wait } = &error {
                        budget.block(inner.clock.monotonic(), *wait);
                    }
                    return Err(error);
                }
            }
            attempt += 1;
        }
    }

    async fn request(
        &self,
        client: &SharedClient,
        message: &OutboundMessage,
    ) -> Result<Posted, PostError> {
        let Some(replaced) = self.replaced else {
            return client.post(self.chat, message).await;
        };
        client.edit(self.chat, replaced, message).await?;
        Ok(Posted {
            message_id: replaced.to_owned(),
            warning: None,
        })
    }

    async fn wait_for_budget(&self, budget: &ChatBudget) -> Result<(), PostError> {
        let clock = &self.outbox.inner.clock;
        while let Some(left) = budget.remaining_block(clock.monotonic()) {
            if left > MAX_WAIT {
                return Err(PostError::RateLimited { wait: left });
            }
            clock.sleep(left).await;
        }
        Ok(())
    }
}
