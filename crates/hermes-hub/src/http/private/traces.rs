//! Spans of tenants' agents, on their way to the collector of the Hub.

use axum::{
    Extension,
    body::Body,
    response::{IntoResponse as _, Response},
};
use hermes_config::trace_context::{self, RelayError};
use http::StatusCode;

use crate::{
    Problem, ProblemCode, TenantId,
    http::rest::{RequestId, problem_response},
};

/// Agents send at most 512 spans at once, which are a fraction of this.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Takes a batch, or says that it is lost. An agent never waits for the collector.
pub(super) async fn relay_spans(
    Extension(tenant): Extension<TenantId>,
    Extension(id): Extension<RequestId>,
    body: Body,
) -> Response {
    match relay(&tenant, body).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(problem) => problem_response(&problem, &id),
    }
}

async fn relay(tenant: &TenantId, body: Body) -> Result<(), Problem> {
    let Some(export) = trace_context::export() else {
        return Err(Problem::not_found("this Hub exports no traces"));
    };
    let batch = axum::body::to_bytes(body, MAX_BATCH_BYTES)
        .await
        .map_err(|_| Problem::invalid("the batch is not complete, or larger than 4 MiB"))?;
    export
        .relay(tenant.as_str(), &batch)
        .map_err(|error| match error {
            RelayError::Malformed => Problem::invalid(error.to_string()),
            RelayError::Full => Problem::new(ProblemCode::Unavailable, error.to_string()),
        })
}
