//! What a chat may be sent, shared by messages, edits and typing signs.
//!
//! A platform that says "not for 60 s" means the whole chat. Messages wait for all of that time, edits are joined to later
//! ones, typing signs are dropped. A message that waits goes before edits and typing signs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hermes_config::sync::Mutex;

use crate::platform::Account;

/// Budgets that are kept before unused ones are forgotten; each is some hundred bytes.
const KEPT_BUDGETS: usize = 1024;

/// The budgets of all chats.
#[derive(Debug, Default)]
pub(super) struct ChatBudgets {
    chats: Mutex<HashMap<(Account, String), Arc<ChatBudget>>>,
}

impl ChatBudgets {
    pub(super) fn get(&self, account: &Account, chat: &str, now: Duration) -> Arc<ChatBudget> {
        let key = (account.clone(), chat.to_owned());
        let mut chats = self.chats.lock();
        if chats.len() >= KEPT_BUDGETS && !chats.contains_key(&key) {
            chats.retain(|_, budget| {
                Arc::strong_count(budget) > 1 || budget.remaining_block(now).is_some()
            });
        }
        Arc::clone(chats.entry(key).or_default())
    }
}

/// What one chat may be sent. Times are those of the clock that never jumps.
#[derive(Debug, Default)]
pub(super) struct ChatBudget {
    state: Mutex<BudgetState>,
}

#[derive(Debug, Default)]
struct BudgetState {
    blocked_until: Option<Duration>,
    /// When a message or an edit was sent last.
    last_sent: Option<Duration>,
    /// Messages that are to be sent.
    waiting_messages: usize,
}

impl ChatBudget {
    /// The platform accepts nothing for so long.
    pub(super) fn block(&self, now: Duration, wait: Duration) {
        let until = now.saturating_add(wait);
        let mut state = self.state.lock();
        state.blocked_until = Some(state.blocked_until.map_or(until, |other| other.max(until)));
    }

    /// How long the platform accepts nothing.
    pub(super) fn remaining_block(&self, now: Duration) -> Option<Duration> {
        let until = self.state.lock().blocked_until?;
        until.checked_sub(now).filter(|left| !left.is_zero())
    }

    pub(super) fn record_sent(&self, now: Duration) {
        self.state.lock().last_sent = Some(now);
    }

    /// How long an edit has to wait now; zero if it may be sent.
    pub(super) fn edit_delay(&self, now: Duration, interval: Duration) -> Duration {
        if let Some(left) = self.remaining_block(now) {
            return left;
        }
        let state = self.state.lock();
        if state.waiting_messages > 0 {
            return interval;
        }
        state
            .last_sent
            .map_or(Duration::ZERO, |last| (last + interval).saturating_sub(now))
    }

    /// Whether a typing sign may be sent. Where something was sent just now, it would say nothing.
    pub(super) fn allows_typing(&self, now: Duration, quiet: Duration) -> bool {
        self.edit_delay(now, quiet).is_zero()
    }

    /// While this is held, a message goes before edits and typing signs.
    pub(super) fn begin_message(self: &Arc<Self>) -> WaitingMessage {
        self.state.lock().waiting_messages += 1;
        WaitingMessage {
            budget: Arc::clone(self),
        }
    }
}

pub(super) struct WaitingMessage {
    budget: Arc<ChatBudget>,
}

impl Drop for WaitingMessage {
    fn drop(&mut self) {
        self.budget.state.lock().waiting_messages -= 1;
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::Platform;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn edits_and_typing_wait_for_messages_and_blocks() {
        let budget = Arc::new(ChatBudget::default());
        assert_eq!(budget.edit_delay(SECOND, SECOND), Duration::ZERO);
        budget.record_sent(SECOND);
        assert_eq!(budget.edit_delay(SECOND, 3 * SECOND), 3 * SECOND);
        assert!(!budget.allows_typing(2 * SECOND, 3 * SECOND));
        assert!(budget.allows_typing(4 * SECOND, 3 * SECOND));
        let message = budget.begin_message();
        assert_eq!(budget.edit_delay(9 * SECOND, SECOND), SECOND);
        assert!(!budget.allows_typing(9 * SECOND, SECOND));
        drop(message);
        budget.block(9 * SECOND, 60 * SECOND);
        budget.block(10 * SECOND, SECOND);
        assert_eq!(budget.edit_delay(10 * SECOND, SECOND), 59 * SECOND);
        assert_eq!(budget.remaining_block(69 * SECOND), None);
    }

    #[test]
    fn budgets_of_quiet_chats_are_forgotten() {
        let budgets = ChatBudgets::default();
        let account = Account::first(Platform::Telegram);
        let held = budgets.get(&account, "held", SECOND);
        budgets
            .get(&account, "blocked", SECOND)
            .block(SECOND, 60 * SECOND);
        for chat in 0..3000 {
            budgets.get(&account, &chat.to_string(), SECOND);
        }
        let chats = budgets.chats.lock();
        assert!(chats.len() <= KEPT_BUDGETS, "{}", chats.len());
        assert!(chats.contains_key(&(account.clone(), "held".into())));
        assert!(chats.contains_key(&(account, "blocked".into())));
        drop(held);
    }
}
