//! The bots of messaging platforms that agents are connected to: a bot is for one tenant at a time, and for no other
//! gateway of this machine.

use std::collections::HashMap;

use hermes_config::{
    bot_lock::{BotId, BotLock, BotLockError},
    sync::Mutex,
};

use crate::{Problem, ProblemCode, TenantId};

/// Far more than anybody has; each takes an open file of the Hub.
const MAX_PER_TENANT: usize = 64;

/// Bots that are in use, by the tenants that use them.
#[derive(Debug, Default)]
pub struct ConnectedBots(Mutex<HashMap<BotId, ConnectedBot>>);

#[derive(Debug)]
struct ConnectedBot {
    tenant: TenantId,
    /// Keeps other gateways of this machine off, where there is a place for locks.
    _lock: Option<BotLock>,
}

impl ConnectedBots {
    /// Gives a bot to a tenant, unless somebody else uses it.
    pub fn claim(&self, bot: BotId, tenant: &TenantId) -> Result<(), Problem> {
        let mut bots = self.0.lock();
        match bots.get(&bot) {
            Some(connected) if connected.tenant == *tenant => return Ok(()),
            // Which tenant that is concerns only operators.
            Some(connected) => {
                tracing::warn!(%tenant, holder = %connected.tenant, "bot token is in use by another tenant");
                return Err(in_use());
            }
            None => {}
        }
        let count = bots.values().filter(|bot| bot.tenant == *tenant).count();
        if count >= MAX_PER_TENANT {
            let message = format!("an agent can use {MAX_PER_TENANT} bots");
            return Err(Problem::new(ProblemCode::ResourceExhausted, message));
        }
        let lock = match BotLock::acquire(&bot) {
            Ok(lock) => Some(lock),
            Err(BotLockError::InUse) => {
                tracing::warn!(%tenant, "bot token is in use by another gateway of this machine");
                return Err(in_use());
            }
            Err(error @ BotLockError::Io { .. }) => {
                tracing::warn!(%tenant, %error, "failed to lock a bot token for this machine");
                None
            }
        };
        let tenant = tenant.clone();
        bots.insert(
            bot,
            ConnectedBot {
                tenant,
                _lock: lock,
            },
        );
        Ok(())
    }

    /// Takes a bot from a tenant, if it has it.
    pub fn release(&self, bot: &BotId, tenant: &TenantId) {
        let mut bots = self.0.lock();
        if bots
            .get(bot)
            .is_some_and(|connected| connected.tenant == *tenant)
        {
            bots.remove(bot);
        }
    }

    /// Takes all bots from a tenant, whose agent has ended.
    pub fn release_all(&self, tenant: &TenantId) {
        self.0
            .lock()
            .retain(|_, connected| connected.tenant != *tenant);
    }
}

fn in_use() -> Problem {
    Problem::precondition(
        "another agent or gateway of this machine uses this bot token; give this tenant a bot of its own",
    )
    .with_reason("bot_in_use")
}

#[cfg(test)]
mod tests {
    use hermes_config::Secret;

    use super::*;

    #[test]
    fn a_bot_is_for_one_tenant_until_it_is_released() {
        let bots = ConnectedBots::default();
        let [one, other] = ["one", "other"].map(|id| TenantId::parse(id).unwrap());
        let name = format!("http://tests/{}", std::process::id());
        let bot = BotId::new(&name, &Secret::new("1:token".to_owned()));
        bots.claim(bot.clone(), &one).unwrap();
        bots.claim(bot.clone(), &one).unwrap();
        let refused = bots.claim(bot.clone(), &other).unwrap_err();
        assert_eq!(refused.reason, Some("bot_in_use"));
        assert!(!refused.message.contains("one"), "{}", refused.message);
        bots.release(&bot, &other);
        bots.claim(bot.clone(), &other).unwrap_err();
        bots.release(&bot, &one);
        bots.claim(bot.clone(), &other).unwrap();
        bots.release_all(&other);
        // Whoever else of this machine has it keeps it.
        let elsewhere = BotLock::acquire(&bot).unwrap();
        bots.claim(bot.clone(), &one).unwrap_err();
        drop(elsewhere);
        bots.claim(bot, &one).unwrap();
    }
}
