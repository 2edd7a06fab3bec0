//! The bot accounts that `hermes up` shows: of the gateway in this process, or of another one that works for the home.

use std::time::Duration;

use hermes_config::Settings;
use hermes_gateway::{gateway::Gateway, platform::Account};
use tokio::time::{Instant, Interval, interval};

use super::super::gateway::accounts::{AccountLine, account_lines, list_accounts};
use crate::context::Context;

/// How often the states are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the time since something was heard is shown anew.
const SHOW_INTERVAL: Duration = Duration::from_secs(10);

/// Looks at the accounts, and tells when there is something to show.
pub(super) struct AccountWatch<'a> {
    context: &'a Context,
    gateway: Option<Gateway>,
    settings: &'a Settings,
    ticks: Interval,
    shown: Vec<AccountLine>,
    shown_at: Instant,
}

impl<'a> AccountWatch<'a> {
    pub(super) fn new(
        context: &'a Context,
        gateway: Option<Gateway>,
        settings: &'a Settings,
    ) -> Self {
        Self {
            context,
            gateway,
            settings,
            ticks: interval(LOOK_INTERVAL),
            shown: Vec::new(),
            shown_at: Instant::now(),
        }
    }

    /// Waits until a state has changed, or the times are old.
    pub(super) async fn next_change(&mut self) -> Vec<AccountLine> {
        loop {
            self.ticks.tick().await;
            let accounts = self.current_accounts();
            let is_old = !accounts.is_empty() && self.shown_at.elapsed() >= SHOW_INTERVAL;
            if is_old || !has_same_states(&accounts, &self.shown) {
                self.shown.clone_from(&accounts);
                self.shown_at = Instant::now();
                return accounts;
            }
        }
    }

    fn current_accounts(&self) -> Vec<AccountLine> {
        let mut accounts = match &self.gateway {
            Some(gateway) => {
                let settings = gateway.agent().settings();
                account_lines(&settings.gateway, Some(&gateway.instance().state()))
            }
            None => list_accounts(&self.context.home, &self.settings.gateway),
        };
        accounts.retain(|account| Account::from_label(&account.label).is_some());
        accounts
    }
}

/// Whether nothing but the times differs.
fn has_same_states(one: &[AccountLine], other: &[AccountLine]) -> bool {
    let key = |account: &AccountLine| {
        let AccountLine {
            label,
            state,
            problem,
            ..
        } = account.clone();
        (label, state, problem)
    };
    one.iter().map(key).eq(other.iter().map(key))
}
