//! The Hub: many Hermes homes, each a tenant, managed over REST and MCP.
//!
//! One table of operations leads to both, and to the OpenAPI document, the reference page and the command line. State
//! and files lie behind traits; what runs a tenant is a [`runtime::Runtime`] that the caller supplies, so that nothing
//! here knows the agent.

pub mod agents;
pub mod audit;
pub mod auth;
pub mod backup;
pub mod clock;
pub mod data_dir;
pub mod document;
pub mod files;
pub mod ids;
pub mod operations;
pub mod problem;
pub mod runs;
pub mod runtime;
pub mod seal;
pub mod settings;
pub mod shapes;
pub mod state;
pub mod sync;

mod app;
mod call;
mod dispatch;
mod json;
mod mcp;
mod metrics;
mod private;
mod rate;
mod refusals;
mod rest;
mod scrub;
mod service;

pub use app::{Hub, OpenError, Opened, Parts, ServeError, StartError};
pub use ids::{ApprovalId, GroupId, JobId, RunId, TenantId, TokenId};
pub use metrics::Metrics;
pub use problem::{Code, Detail, Problem};
