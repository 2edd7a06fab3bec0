//! Who was let in to a tenant's bots by a code, and who waits for that.

use std::{fs, io, sync::Arc, time::Duration};

use hermes_config::Home;
use hermes_store::{
    epoch_seconds,
    pairing::{PairingDirectory, PairingError, PairingLocation, PairingStore},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TenantRef;
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::Time,
    service::call::{Call, Reply},
    storage::{
        files::{HomeDirectory, run_blocking},
        state::FileChange,
    },
};

const LOCK: &str = ".lock";
/// How long the agent may hold the files.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Somebody who got a code and waits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingUser {
    /// The bot: `telegram`, or `telegram@work`.
    account: String,
    /// Their id on the platform.
    user_id: String,
    /// Their name there.
    user_name: String,
    /// When they asked.
    created_at: Time,
    /// Until when their code is valid.
    expires_at: Time,
}

/// Somebody who was let in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovedUser {
    /// The bot: `telegram`, or `telegram@work`.
    account: String,
    /// Their id on the platform.
    user_id: String,
    /// Their name there.
    user_name: String,
    /// When they were let in.
    approved_at: Option<Time>,
}

/// Those who wait and those who were let in.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PairingList {
    pending: Vec<WaitingUser>,
    approved: Vec<ApprovedUser>,
}

/// A code to approve.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovePairing {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The bot: `telegram`, `discord`, `slack`, or `telegram@work` for a further account.
    account: String,
    /// The code that the stranger was sent.
    code: String,
}

/// Somebody to shut out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokePairing {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The bot.
    account: String,
    /// Their id on the platform.
    user_id: String,
}

pub(crate) async fn list(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let home = call.hub.home(call.tenant()?);
    let list = run_blocking(move || {
        let store = open_store(&home);
        let pending = store.list_pending().into_iter().map(|waiting| WaitingUser {
            account: waiting.account,
            user_id: waiting.user_id,
            user_name: waiting.user_name,
            created_at: from_seconds(waiting.created_at),
            expires_at: from_seconds(epoch_seconds() + waiting.expires_in),
        });
        let approved = store.list_approved().into_iter().map(approved_user);
        Ok(PairingList {
            pending: pending.collect(),
            approved: approved.collect(),
        })
    });
    Reply::json(&list.await?)
}

pub(crate) async fn approve(call: Call, input: ApprovePairing) -> Result<Reply, Problem> {
    check_account(&input.account)?;
    let user = change(&call, move |store| {
        store
            .approve(&input.account, &input.code)
            .map_err(|error| pairing_problem(&error))
    });
    Reply::json(&approved_user(user.await?))
}

pub(crate) async fn revoke(call: Call, input: RevokePairing) -> Result<Reply, Problem> {
    check_account(&input.account)?;
    let (account, user_id) = (input.account, input.user_id);
    let was_there = change(&call, move |store| {
        store
            .revoke(&account, &user_id)
            .map_err(|error| pairing_problem(&error))
    });
    if was_there.await? {
        return Ok(Reply::empty());
    }
    Err(Problem::not_found("nobody with this id was let in there"))
}

/// Changes the files. The agent asks them for every message, so that holds at once.
async fn change<T: Send + 'static>(
    call: &Call,
    work: impl FnOnce(&PairingStore) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let record = call.tenant()?;
    let home = call.hub.home(record);
    let turn = call.hub.begin_home_change(record).await?;
    let changed = FileChange::Home {
        tenant: record.id.clone(),
    };
    let work = run_blocking(move || work(&open_store(&home)));
    let outcome = super::run_recorded(call, changed, work).await;
    drop(turn);
    outcome
}

/// `telegram`, or `telegram@work`: a name that leads nowhere else.
fn check_account(account: &str) -> Result<(), Problem> {
    let (platform, name) = account.split_once('@').unwrap_or((account, "first"));
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        (1..=32).contains(&name.len()) && name.chars().all(is_plain)
    };
    if hermes_config::Platform::from_name(platform).is_some() && is_name(name) {
        return Ok(());
    }
    Err(Problem::invalid(
        "`account` is `telegram`, `discord` or `slack`, with `@` and a name for a further bot",
    )
    .with_detail("account", "invalid"))
}

fn approved_user(user: hermes_store::pairing::PairedUser) -> ApprovedUser {
    ApprovedUser {
        account: user.account,
        user_id: user.user_id,
        user_name: user.user_name,
        approved_at: user.approved_at.map(from_seconds),
    }
}

fn pairing_problem(error: &PairingError) -> Problem {
    match error {
        PairingError::UnknownCode => Problem::not_found(error.to_string()),
        PairingError::LockedOut { minutes } => {
            Problem::new(ProblemCode::ResourceExhausted, error.to_string())
                .with_reason("locked_out")
                .with_retry_after(minutes.saturating_mul(60_000))
        }
        PairingError::Storage { source, .. } => {
            tracing::warn!(%source, "failed to use the pairing files of a tenant");
            Problem::precondition(
                "the pairing files of the tenant cannot be used: a link or another kind of file is in their place, or \
                 its agent holds them",
            )
            .with_reason("wrong_type")
        }
        PairingError::Random(error) => Problem::internal(&error),
    }
}

fn from_seconds(seconds: f64) -> Time {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a time of the files; too large ones are clamped"
    )]
    Time::from_millis((seconds * 1000.0) as i64)
}

fn open_store(home: &Home) -> PairingStore {
    let files = TenantPairingFiles { home: home.clone() };
    PairingStore::over(Arc::new(files), Arc::new(epoch_seconds))
}

/// The files of a tenant, which may have put links in their place.
struct TenantPairingFiles {
    home: Home,
}

impl TenantPairingFiles {
    fn open(&self, place: PairingLocation) -> io::Result<HomeDirectory> {
        Ok(HomeDirectory::open(self.home.path(), place.path())?)
    }
}

impl PairingDirectory for TenantPairingFiles {
    fn read(&self, place: PairingLocation, name: &str) -> io::Result<Option<String>> {
        match self.open(place) {
            Ok(directory) => directory.read_settings(name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, place: PairingLocation, name: &str, content: &[u8]) -> io::Result<()> {
        self.open(place)?.replace(name, content)
    }

    fn names(&self, place: PairingLocation) -> Vec<String> {
        let names = self.open(place).and_then(|directory| directory.names());
        names.unwrap_or_default()
    }

    fn lock(&self, place: PairingLocation) -> io::Result<fs::File> {
        let directory = match place {
            PairingLocation::Usual => {
                HomeDirectory::open_or_create(self.home.path(), place.path())?
            }
            PairingLocation::Other => self.open(place)?,
        };
        directory.lock(LOCK, LOCK_TIMEOUT)
    }
}
