//! The Hub: many Hermes homes, each a tenant, managed over REST and MCP.
//!
//! One table of operations leads to both, and to the OpenAPI document, the reference page and the command line. State
//! and files lie behind traits; what runs a tenant is a [`runtime::Runtime`] that the caller supplies, so that nothing
//! here knows the agent.

pub mod agents;
pub mod api_types;
pub mod audit;
pub mod auth;
pub mod backup;
pub mod data_dir;
pub mod document;
pub mod encryption;
pub mod files;
pub mod ids;
pub mod operations;
pub mod problem;
mod rate_limit;
mod redact_keys;
pub mod runs;
pub mod runtime;
pub mod scheduler;
pub mod settings;
pub mod state;
pub mod sync;

mod app;
mod call;
mod dispatch;
mod json;
mod mcp;
mod metrics;
mod private;
mod refusals;
mod rest;
mod service;

pub use app::{Hub, HubOpenError, HubParts, OpenedHub, ServeError, StartError};
pub use ids::{ApprovalId, GroupId, JobId, RunId, TenantId, TokenId};
pub use metrics::Metrics;
pub use problem::{Problem, ProblemCode, ProblemDetail};
