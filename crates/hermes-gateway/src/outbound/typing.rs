//! The typing sign of a chat. It lasts as long as its owner.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Outbox, OutboxInner};
use crate::platform::{Account, ChatAddress, PostError};

const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a sign that is under way may take when it ends: one that came after the answer would stay for seconds.
const END_GRACE: Duration = Duration::from_millis(500);

/// Shows the typing sign until it is dropped.
pub struct TypingSign {
    guard: DropGuard,
    task: JoinHandle<()>,
}

impl TypingSign {
    /// Ends the sign, and waits for one that is being sent.
    pub(super) async fn end(self) {
        drop(self.guard);
        // A panic in it concerns nobody else.
        let _ = tokio::time::timeout(END_GRACE, self.task).await;
    }
}

impl Outbox {
    /// Shows the typing sign in a chat, again and again, until the sign is dropped.
    pub fn show_typing(&self, account: &Account, chat: &ChatAddress) -> TypingSign {
        let stop = CancellationToken::new();
        let repeat = repeat_typing(
            Arc::clone(&self.inner),
            account.clone(),
            chat.clone(),
            stop.clone(),
        );
        TypingSign {
            guard: stop.drop_guard(),
            task: self.inner.tasks.spawn(repeat),
        }
    }
}

async fn repeat_typing(
    outbox: Arc<OutboxInner>,
    account: Account,
    chat: ChatAddress,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let limits = outbox.limits(&account);
        let quiet = if chat.is_direct() {
            limits.edit_interval.0
        } else {
            limits.edit_interval.1
        };
        let now = outbox.clock.monotonic();
        let budget = outbox.budgets.get(&account, &chat.id, now);
        let mut pause = limits.typing_interval;
        if !budget.allows_typing(now, quiet) {
            // Dropped, and looked at again soon.
            pause = pause.min(quiet);
        } else if let Some(client) = outbox.clients.get(&account) {
            let shown = tokio::time::timeout(TIMEOUT, client.show_typing(&chat)).await;
            if let Ok(Err(error)) = shown {
                if let PostError::RateLimited { wait } = error {
                    budget.block(outbox.clock.monotonic(), wait);
                }
                tracing::debug!(%account, %error, "typing sign was not shown");
            }
        }
        tokio::select! {
            () = outbox.clock.sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}
