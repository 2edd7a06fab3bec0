//! The tests of the state once more, on PostgreSQL, and what is true of that alone.
//!
//! `HERMES_TEST_HUB_DATABASE=postgres` runs every other test of the Hub on it, too.

mod all_filters;
#[path = "state/approvals.rs"]
mod approvals;
#[path = "state/audit.rs"]
mod audit;
mod compatibility;
#[path = "state/console_sessions.rs"]
mod console_sessions;
#[path = "state/cron.rs"]
mod cron;
#[path = "state/documents.rs"]
mod documents;
mod faults;
mod few_connections;
#[path = "state/files.rs"]
mod files;
mod grouped_writes;
#[path = "state/groups.rs"]
mod groups;
mod growth;
#[path = "state/hub_events.rs"]
mod hub_events;
#[path = "state/idempotency.rs"]
mod idempotency;
mod lost_machine;
#[path = "state/mcp_sessions.rs"]
mod mcp_sessions;
mod moved_events;
#[path = "state/overview.rs"]
mod overview;
mod poolers;
mod recorded_statements;
#[path = "state/runs.rs"]
mod runs;
mod schema;
#[path = "state/secrets.rs"]
mod secrets;
#[path = "state/skill_library.rs"]
mod skill_library;
#[path = "state/tenant_updates.rs"]
mod tenant_updates;
#[path = "state/tenants.rs"]
mod tenants;
#[path = "state/tokens.rs"]
mod tokens;
#[path = "state/usage.rs"]
mod usage;
#[path = "state/webhooks.rs"]
mod webhooks;

use super::state::{
    StateFixture, entry, job_id, new_run, new_token, next_millisecond, open_postgres,
    open_postgres_with, or_lease_lost, tenant_id,
};
