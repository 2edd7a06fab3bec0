//! The implementation of operations: one function for each, one file per family.

use serde::{Deserialize, Deserializer};

use crate::{
    Problem,
    storage::{
        files::run_blocking,
        state::{FileChange, FileOutcome, NewFileOperation, Page, StorageUsage, UsageOwner},
    },
};

pub(crate) mod access;
pub(crate) mod agent;
pub(crate) mod agent_card;
pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod character;
pub(crate) mod console_sessions;
pub(crate) mod cron;
pub(crate) mod documents;
pub(crate) mod env;
pub(crate) mod files;
pub(crate) mod groups;
mod home_config;
pub(crate) mod hub;
pub(crate) mod hub_events;
pub(crate) mod limits;
pub(crate) mod manifest;
pub(crate) mod mcp_servers;
pub(crate) mod model;
pub(crate) mod nodes;
pub(crate) mod overview;
pub(crate) mod pairing;
pub(crate) mod platforms;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod share_bytes;
pub(crate) mod shares;
pub(crate) mod skills;
pub(crate) mod sync;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod usage;
pub(crate) mod webhooks;
pub(crate) mod workspace;

/// Tools get whole lists, which are read in pages of this size.
const ALL_PAGE_SIZE: u32 = 500;

fn page_request(limit: Option<u32>, cursor: Option<String>) -> Result<Page, Problem> {
    let limit = limit.unwrap_or(100);
    if !(1..=500).contains(&limit) {
        return Err(
            Problem::invalid("`limit` must be 1 to 500").with_detail("limit", "out of range")
        );
    }
    Ok(Page { limit, cursor })
}

/// Distinguishes a member that is `null` from a missing one.
#[expect(
    clippy::option_option,
    reason = "absent, `null` and a value are three things"
)]
fn deserialize_nullable<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// Input that takes nothing.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoInput {}

/// Input that names a tenant.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: crate::TenantId,
}

/// Does something that no transaction covers: its intent is logged before, and its outcome after.
async fn run_recorded<T>(
    call: &crate::service::call::Call,
    change: FileChange,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    recorded_with(call, change, work, async { None }).await
}

/// The same, for work that changes how much space somebody takes, which is measured after it.
///
/// Three times this waits for the disk, and each wait is needed. The intent must be there before the work begins, or a
/// change could outlive a power failure without a word in the log. The work itself waits for its files. And a change that
/// was answered must be in the log as done: what the next start finds without an end counts as interrupted.
async fn recorded_with<T>(
    call: &crate::service::call::Call,
    change: FileChange,
    work: impl Future<Output = Result<T, Problem>>,
    measure: impl Future<Output = Option<(UsageOwner, StorageUsage)>>,
) -> Result<T, Problem> {
    let state = call.hub.state();
    let intent = state
        .begin_file_operation(NewFileOperation {
            entry: call.entry.clone(),
            change,
            reserve: None,
        })
        .await?;
    call.is_logged
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let result = work.await;
    let used = measure.await;
    let mut entry = call.entry.clone();
    if let Err(problem) = &result {
        entry.status = problem.code.status();
    }
    let settle = move |hub: crate::Hub| {
        let (intent, entry, used) = (intent.clone(), entry.clone(), used.clone());
        async move {
            let effect = FileOutcome { entry, used };
            hub.state().finish_file_operation(intent, effect).await
        }
    };
    call.hub
        .retry_until_stored("recording the end of a file operation", settle)
        .await;
    result
}

/// The reason of a problem with a directory that a home does not have yet.
pub(crate) const NO_DIRECTORY: &str = "no_directory";

fn directory_problem(error: &std::io::Error, name: &str) -> Problem {
    let link = rustix::io::Errno::LOOP.raw_os_error();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            Problem::not_found(format!("the tenant has no directory `{name}` yet"))
                .with_reason(NO_DIRECTORY)
        }
        kind if kind == std::io::ErrorKind::NotADirectory || error.raw_os_error() == Some(link) => {
            Problem::precondition(format!(
                "the tenant's `{name}` is not a directory, and the Hub does not follow links there; put a directory in its place"
            ))
            .with_reason("wrong_type")
        }
        _ => Problem::internal(error),
    }
}
