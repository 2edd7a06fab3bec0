//! Who keeps count of the bots that are in use: files of this user, or the Hub of a tenant.

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::bot_lock::{BotId, BotLock, BotLockError};

/// Gives bots to accounts, each to one at a time.
pub trait BotRegistry: Send + Sync + 'static {
    fn claim<'a>(&'a self, bot: &'a BotId) -> BoxFuture<'a, Result<Box<dyn BotClaim>, ClaimError>>;

    /// Returns when whoever gives the bot to another machine gives the home with it, as it is now. Nothing is to be done
    /// for a home that stays where it is.
    fn keep_home(&self) -> BoxFuture<'_, Result<(), ClaimError>> {
        async { Ok(()) }.boxed()
    }
}

/// A bot that is ours.
pub trait BotClaim: Send + Sync {
    fn release(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Why a bot is not ours.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another one uses it.
    #[error("{reason}")]
    InUse { reason: String },
    /// Nobody keeps count.
    #[error("{reason}")]
    Unavailable { reason: String },
}

/// Keeps count by lock files, for all gateways of this user.
pub struct MachineBots;

impl BotRegistry for MachineBots {
    fn claim<'a>(&'a self, bot: &'a BotId) -> BoxFuture<'a, Result<Box<dyn BotClaim>, ClaimError>> {
        let claimed = match BotLock::acquire(bot) {
            Ok(lock) => Ok(Box::new(lock) as Box<dyn BotClaim>),
            Err(error @ BotLockError::InUse) => Err(ClaimError::InUse {
                reason: error.to_string(),
            }),
            Err(error @ BotLockError::Io { .. }) => Err(ClaimError::Unavailable {
                reason: error.to_string(),
            }),
        };
        async move { claimed }.boxed()
    }
}

impl BotClaim for BotLock {
    fn release(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move { drop(self) }.boxed()
    }
}
