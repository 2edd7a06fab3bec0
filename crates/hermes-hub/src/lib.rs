//! The Hub: many Hermes homes, each a tenant, managed over REST and MCP.
//!
//! One table of operations leads to both, and to the OpenAPI document, the reference page and the command line. State
//! and files lie behind traits; what runs a tenant is a [`runtime::Runtime`] that the caller supplies, so that nothing
//! here knows the agent.

pub mod audit;
pub mod auth;
pub mod backup;
pub mod data_dir;
pub mod files;
pub mod ids;
pub mod problem;
pub mod runtime;
pub mod seal;
pub mod shapes;
pub mod state;
pub mod sync;

pub use ids::{ApprovalId, GroupId, JobId, RunId, TenantId, TokenId};
pub use problem::{Code, Detail, Problem};
