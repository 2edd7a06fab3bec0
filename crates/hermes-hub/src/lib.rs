//! The Hub: many Hermes homes, each a tenant, managed over REST and MCP.
//!
//! One table of operations leads to both, and to the OpenAPI document, the reference page and the command line. State
//! and files lie behind traits; what runs a tenant is a [`tenants::runtime::Runtime`] that the caller supplies, so
//! that nothing here knows the agent.

pub mod api_types;
pub mod auth;
pub mod client_snippets;
mod hub;
pub mod operations;
pub mod settings;
pub mod storage;
pub mod tenants;
pub mod webhooks;

mod console;
mod http;
mod metrics;
mod server;
mod service;

pub use crate::{
    api_types::{
        ids::{ApprovalId, GroupId, JobId, RunId, TenantId, TokenId},
        problem::{Problem, ProblemCode, ProblemDetail, ProblemDocument},
    },
    http::connections::ServeError,
    hub::{Hub, HubOpenError, HubParts, OpenedHub, StartError},
};
pub use metrics::Metrics;
