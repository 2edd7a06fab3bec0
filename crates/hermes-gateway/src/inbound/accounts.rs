//! The bot accounts of a home: one task each, started, restarted and stopped with the configuration.
//!
//! An account that fails, panics or hangs holds up no other one.

pub mod bot_claim;
pub(super) mod clients;
pub(super) mod gap_fetch;
mod gap_marks;
pub(super) mod intake;
pub(super) mod restart;

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use hermes_agent::policy::Egress;
use hermes_config::{Platform, PlatformSettings, Settings, bot_lock::BotId, sync::Mutex};
use hermes_protocol::Feature;
use hermes_store::runtime::InboxRow;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::{
    bot_claim::{BotClaim, ClaimError},
    intake::{StoredIntake, StoredUpdate},
    restart::restart_after_panics,
};
use super::{InboundCore, routing::chat::LiveAccount};
use crate::{
    access::mentions::MentionRules,
    chat_commands,
    instance::{PlatformReport, PlatformStatus},
    platform::{
        Account, ConnectionState, FatalError, PlatformHealth, PostError, ReconnectBackoff,
        SharedClient,
    },
};

/// Updates that wait to be decoded. A platform is not asked for more while these wait.
const UPDATE_QUEUE: usize = 256;
/// How often a poll returns or a heartbeat is acknowledged, where the platform says nothing else.
const HEALTH_PERIOD: Duration = Duration::from_mins(1);
/// A platform that has not answered after so long is told as such, and tried further.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a client that panicked, and before a token that another process uses is tried again.
const RESTART_PAUSE: Duration = Duration::from_secs(10);
/// How long updates that were stored last may take to be handed over when an account stops.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before slash commands are registered again. It is doubled up to the longest.
const REGISTER_PAUSE: Duration = Duration::from_secs(2);
const MAX_REGISTER_PAUSE: Duration = Duration::from_mins(10);
/// After so many failures people are told.
const TOLD_FAILURES: u32 = 3;
/// The code of that warning.
const NOT_REGISTERED: &str = "commands_not_registered";
/// How long an account may take to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The accounts that run.
#[derive(Default)]
pub(super) struct LiveAccounts {
    running: Mutex<BTreeMap<Account, RunningAccount>>,
    /// Labels of accounts that the operator's policy forbids.
    forbidden: Mutex<BTreeSet<String>>,
}

struct RunningAccount {
    settings: PlatformSettings,
    /// What its client may reach.
    egress: Egress,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl LiveAccounts {
    /// Starts, restarts and stops accounts, so that those of the settings run.
    pub(super) async fn apply(&self, core: &Arc<InboundCore>, settings: &Settings) {
        let AccountPlan { wanted, forbidden } = plan_accounts(core, settings);
        let policy = core.gateway.agent().policy();
        let ended: Vec<(Account, RunningAccount)> = {
            let mut running = self.running.lock();
            running
                .extract_if(.., |account, running| {
                    wanted.get(account) != Some(&running.settings)
                        || running.egress != *policy.egress()
                })
                .collect()
        };
        for (account, running) in ended {
            stop_account(&account, running).await;
            core.clients.remove(&account);
            if !wanted.contains_key(&account) {
                core.gateway.instance().remove_platform(&account.label());
            }
        }
        self.report_forbidden(core, forbidden);
        for (account, settings) in wanted {
            if self.running.lock().contains_key(&account) {
                continue;
            }
            let running = start_account(core, account.clone(), settings);
            self.running.lock().insert(account, running);
        }
    }

    /// Says why accounts do not run that have a token.
    fn report_forbidden(&self, core: &InboundCore, forbidden: BTreeMap<Account, AccountRefusal>) {
        let instance = core.gateway.instance();
        let mut known = self.forbidden.lock();
        let forbidden: BTreeMap<String, AccountRefusal> = forbidden
            .into_iter()
            .map(|(account, refusal)| (account.label(), refusal))
            .collect();
        for label in known.extract_if(.., |label| !forbidden.contains_key(label)) {
            instance.remove_platform(&label);
        }
        for (label, AccountRefusal { code, message }) in forbidden {
            if known.insert(label.clone()) {
                tracing::warn!(platform = label, code, "platform not started: {message}");
            }
            let state = PlatformStatus::Stopped.as_str();
            instance.set_platform(&label, state, Some((code, &message)));
        }
    }

    /// Receives no more. Messages can still be sent.
    pub(super) async fn stop_all(&self) {
        let all = std::mem::take(&mut *self.running.lock());
        let ending = all
            .into_iter()
            .map(|(account, running)| async move { stop_account(&account, running).await });
        futures::future::join_all(ending).await;
    }
}

/// The accounts with a token.
#[derive(Default)]
struct AccountPlan {
    wanted: BTreeMap<Account, PlatformSettings>,
    /// Those that the operator's policy does not allow.
    forbidden: BTreeMap<Account, AccountRefusal>,
}

/// Why an account does not run.
struct AccountRefusal {
    code: &'static str,
    message: String,
}

fn plan_accounts(core: &InboundCore, settings: &Settings) -> AccountPlan {
    let policy = core.gateway.agent().policy();
    let check = |settings: &PlatformSettings| {
        if !policy.has_feature(Feature::Messaging) {
            return Err(AccountRefusal {
                code: "messaging_off",
                message: "the operator's policy turns messaging off (`features.enabled`)".into(),
            });
        }
        let reached = policy.egress().check_url(&settings.base_url);
        reached.map_err(|reason| AccountRefusal {
            code: "egress_denied",
            message: reason.to_string(),
        })
    };
    let mut plan = AccountPlan::default();
    for platform in Platform::ALL {
        for (name, settings) in settings.gateway.accounts(platform) {
            let account = Account {
                platform,
                name: name.to_owned(),
            };
            match check(settings) {
                Ok(()) => drop(plan.wanted.insert(account, settings.clone())),
                Err(refusal) => drop(plan.forbidden.insert(account, refusal)),
            }
        }
    }
    plan
}

fn start_account(
    core: &Arc<InboundCore>,
    account: Account,
    settings: PlatformSettings,
) -> RunningAccount {
    let stop = core.stop.child_token();
    let work = AccountTask {
        core: core.clone(),
        health: Arc::new(PlatformHealth::new(HEALTH_PERIOD)),
        account,
        settings: settings.clone(),
        stop: stop.clone(),
    };
    RunningAccount {
        settings,
        egress: core.gateway.agent().policy().egress().clone(),
        stop,
        task: core.tasks.spawn(work.run()),
    }
}

async fn stop_account(account: &Account, running: RunningAccount) {
    running.stop.cancel();
    let mut task = running.task;
    if tokio::time::timeout(STOP_GRACE, &mut task).await.is_err() {
        tracing::warn!(platform = %account, "platform did not stop in time");
        task.abort();
    }
}

enum TokenClaim {
    /// Until it is released, where somebody keeps count.
    Ours(Option<Box<dyn BotClaim>>),
    /// The account is to stop.
    Stopped,
}

/// The task of one account.
struct AccountTask {
    core: Arc<InboundCore>,
    account: Account,
    settings: PlatformSettings,
    health: Arc<PlatformHealth>,
    stop: CancellationToken,
}

impl AccountTask {
    async fn run(self) {
        let label = self.account.label();
        let instance = self.core.gateway.instance();
        let receiving = async {
            let ended = self.receive().await;
            if let Err(error) = ended {
                tracing::error!(
                    platform = label,
                    code = error.code,
                    "platform failed: {error}"
                );
                self.health.record_fatal(&error);
                // Only other settings help.
                self.stop.cancelled().await;
            }
            self.health.record_stopped();
        };
        tokio::select! {
            () = receiving => {}
            () = instance.follow_health(&label, &self.health) => {}
        }
        let report = PlatformReport::from_health(&self.health, SystemTime::now());
        instance.set_platform_health(&label, &report);
        tracing::info!(platform = label, "platform stopped");
    }

    async fn receive(&self) -> Result<(), FatalError> {
        let policy = self.core.gateway.agent().policy_handle();
        let client = clients::build_client(&self.account, &self.settings, policy)?;
        let TokenClaim::Ours(claim) = self.claim_bot().await else {
            return Ok(());
        };
        let ended = self.receive_as_owner(client).await;
        if let Some(claim) = claim {
            claim.release().await;
        }
        ended
    }

    /// Receives while the bot is ours.
    async fn receive_as_owner(&self, client: SharedClient) -> Result<(), FatalError> {
        let live = Arc::new(LiveAccount {
            account: self.account.clone(),
            client: client.clone(),
            settings: self.settings.clone(),
            mentions: MentionRules::new(self.account.platform, &self.settings),
        });
        self.core.clients.insert(client.clone());
        // Before anything new comes, so that no update is in both.
        let left_over = self.find_left_over().await;
        let (sender, updates) = mpsc::channel(UPDATE_QUEUE);
        let intake = StoredIntake::new(
            self.core.gateway.store().clone(),
            self.account.clone(),
            Arc::clone(&self.core.bots),
            sender,
        );
        let mut dispatching = pin!(self.dispatch_updates(&live, left_over, updates));
        let ended = {
            let receiving = self.receive_updates(&client, &intake);
            let registering = self.keep_up("commands", || self.register_commands(&client));
            let fetching = self.keep_up("missed messages", || {
                self.core
                    .fetch_gaps(&self.account, &*client, &*intake, &self.health)
            });
            tokio::select! {
                // A loss is noted before what comes after it is taken.
                biased;
                never = fetching => match never {},
                ended = receiving => ended,
                () = &mut dispatching => Ok(()),
                never = registering => match never {},
            }
        };
        // What was stored is still handed over.
        drop(intake);
        let _ = tokio::time::timeout(HAND_OVER_TIMEOUT, dispatching).await;
        ended
    }

    /// Updates that are not done and that this process does not work on: an earlier one left them, or they came when the
    /// account was stopped.
    async fn find_left_over(&self) -> Vec<StoredUpdate> {
        let pending = loop {
            match self.core.gateway.store().pending_updates().await {
                Ok(pending) => break pending,
                Err(error) => {
                    tracing::error!(platform = %self.account, %error, "failed to read the inbox");
                }
            }
            let pause = tokio::time::sleep(RESTART_PAUSE);
            if self.stop.run_until_cancelled(pause).await.is_none() {
                return Vec::new();
            }
        };
        let is_ours = |row: &InboxRow| {
            row.platform == self.account.platform.name()
                && row.account == self.account.name
                && !self.core.is_taken(&row.key())
        };
        pending
            .into_iter()
            .filter(is_ours)
            .map(Into::into)
            .collect()
    }

    async fn dispatch_updates(
        &self,
        live: &Arc<LiveAccount>,
        left_over: Vec<StoredUpdate>,
        mut updates: mpsc::Receiver<StoredUpdate>,
    ) {
        // Before the platform has told who the bot is, nobody knows whether it is meant.
        let mut states = self.health.watch_state();
        let _ = states.wait_for(is_connected).await;
        for update in left_over {
            self.core.dispatch(live, update).await;
        }
        while let Some(update) = updates.recv().await {
            self.core.dispatch(live, update).await;
        }
    }

    /// Waits until no other process uses the token.
    async fn claim_bot(&self) -> TokenClaim {
        let Some(token) = &self.settings.token else {
            return TokenClaim::Stopped;
        };
        let bot = BotId::new(&self.settings.base_url, token);
        loop {
            let claiming = self.core.bots.claim(&bot);
            match self.stop.run_until_cancelled(claiming).await {
                None => return TokenClaim::Stopped,
                Some(Ok(claim)) => return TokenClaim::Ours(Some(claim)),
                Some(Err(ClaimError::InUse { reason })) => {
                    self.health.record_lost("token_in_use", reason);
                }
                Some(Err(ClaimError::Unavailable { reason })) => {
                    // Where nobody keeps count, the platform itself tells about a second reader.
                    tracing::warn!(platform = %self.account, reason, "failed to lock the bot token");
                    return TokenClaim::Ours(None);
                }
            }
            let pause = tokio::time::sleep(RESTART_PAUSE);
            if self.stop.run_until_cancelled(pause).await.is_none() {
                return TokenClaim::Stopped;
            }
        }
    }

    /// Receives until it is stopped. A client that panics is started again.
    async fn receive_updates(
        &self,
        client: &SharedClient,
        intake: &StoredIntake,
    ) -> Result<(), FatalError> {
        let receive = || async {
            let connecting = async {
                tokio::time::sleep(CONNECT_TIMEOUT).await;
                if self.health.last_ok_at().is_none()
                    && self.health.state() == ConnectionState::Connecting
                {
                    let message = "the platform has not answered for 30 s; it is tried further";
                    self.health.record_lost("connect_timeout", message);
                }
                std::future::pending::<Infallible>().await
            };
            tokio::select! {
                ended = client.receive(intake, &self.health, self.stop.clone()) => ended,
                never = connecting => match never {},
            }
        };
        let report = || {
            tracing::error!(platform = %self.account, "platform client panicked");
            let message =
                "this is a bug in hermes: the client ended unexpectedly; it is started again";
            self.health.record_lost("internal", message);
        };
        let ended = restart_after_panics(&self.stop, RESTART_PAUSE, receive, report).await;
        ended.unwrap_or(Ok(()))
    }

    /// Does something beside receiving, for as long as the account runs.
    async fn keep_up<W: Future<Output = Infallible>>(
        &self,
        what: &'static str,
        begin: impl FnMut() -> W,
    ) -> Infallible {
        let report = || tracing::error!(platform = %self.account, what, "platform task panicked");
        match restart_after_panics(&self.stop, RESTART_PAUSE, begin, report).await {
            Some(never) => never,
            None => std::future::pending().await,
        }
    }

    /// Lists the channels and registers the slash commands once the platform answers. Registering is tried until it
    /// works: without it people do not see the commands.
    async fn register_commands(&self, client: &SharedClient) -> Infallible {
        let mut states = self.health.watch_state();
        let mut backoff = ReconnectBackoff::new(REGISTER_PAUSE, MAX_REGISTER_PAUSE);
        let mut failures = 0;
        if states.wait_for(is_connected).await.is_ok() {
            self.core.directory.note_connected(client);
            let commands = chat_commands::command_specs(self.account.platform);
            while let Err(error) = client.register_commands(&commands).await {
                failures += 1;
                let pause = match error {
                    PostError::RateLimited { wait } => wait.max(backoff.next_pause()),
                    _ => backoff.next_pause(),
                };
                tracing::warn!(platform = %self.account, %error, ?pause, "failed to register the slash commands, retrying");
                if failures >= TOLD_FAILURES {
                    let message = format!("the slash commands could not be registered: {error}");
                    self.health.record_warning(NOT_REGISTERED, &message);
                }
                tokio::time::sleep(pause).await;
            }
            self.health.clear_warning(NOT_REGISTERED);
        }
        std::future::pending().await
    }
}

fn is_connected(state: &ConnectionState) -> bool {
    *state == ConnectionState::Connected
}
