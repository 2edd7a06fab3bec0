//! The specialization: a text before every tenant's own instructions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store_document as put_document;
use crate::{
    Problem, ProblemCode,
    api_types::Time,
    service::{
        NoInput,
        call::{Call, Reply, etag},
        tenants,
    },
    storage::state::{AppliedCounts, Document, DocumentKind},
};

const MAX_BYTES: usize = 64 * 1024;

/// How many tenants have applied the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SpecializationStatus {
    /// There is no text.
    Unset,
    /// No tenant has applied it yet.
    Pending,
    /// All tenants have applied it.
    Applied,
    /// Some tenants have applied it.
    Partial,
}

/// The text, and how many tenants have applied it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Specialization {
    content: String,
    status: SpecializationStatus,
    revision: u64,
    applied_tenants: u64,
    pending_tenants: u64,
    updated_at: Option<Time>,
}

/// A text to set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutSpecialization {
    /// Text up to 64 KiB; empty removes it.
    content: String,
    /// Whether to check it only: nothing is changed.
    dry_run: Option<bool>,
}

pub(crate) async fn get(call: Call, _: NoInput) -> Result<Reply, Problem> {
    show(&call).await
}

async fn show(call: &Call) -> Result<Reply, Problem> {
    let document = call
        .hub
        .state()
        .document(DocumentKind::Specialization)
        .await?;
    let revision = document.as_ref().map_or(0, |document| document.revision);
    specialization_reply(document, &count_applied(call, revision).await?)
}

pub(crate) async fn put(call: Call, input: PutSpecialization) -> Result<Reply, Problem> {
    if input.content.len() > MAX_BYTES {
        return Err(Problem::new(
            ProblemCode::PayloadTooLarge,
            "the text is larger than 64 KiB; shorten it",
        )
        .with_detail("content", "too long"));
    }
    if input.dry_run == Some(true) {
        return show(&call).await;
    }
    // Prepared before the write: the reply reports what was written, even if later steps fail.
    let pending = tenants::count_tenants(&call.hub).await?;
    let content = Value::String(input.content);
    let document = put_document(&call, DocumentKind::Specialization, content).await?;
    let reached = count_applied(&call, document.revision).await;
    let reached = reached.unwrap_or(AppliedCounts {
        applied: 0,
        pending,
    });
    specialization_reply(Some(document), &reached)
}

async fn count_applied(call: &Call, revision: u64) -> Result<AppliedCounts, Problem> {
    let state = call.hub.state();
    Ok(state
        .applied(DocumentKind::Specialization, revision)
        .await?)
}

fn specialization_reply(
    document: Option<Document>,
    reached: &AppliedCounts,
) -> Result<Reply, Problem> {
    let revision = document.as_ref().map_or(0, |document| document.revision);
    let content = document
        .as_ref()
        .and_then(|document| document.content.as_str())
        .unwrap_or_default()
        .to_owned();
    let status = match (content.is_empty(), reached.applied, reached.pending) {
        (true, ..) => SpecializationStatus::Unset,
        (false, _, 0) => SpecializationStatus::Applied,
        (false, 0, _) => SpecializationStatus::Pending,
        (false, ..) => SpecializationStatus::Partial,
    };
    let specialization = Specialization {
        content,
        status,
        revision,
        applied_tenants: reached.applied,
        pending_tenants: reached.pending,
        updated_at: document.map(|document| document.updated_at),
    };
    Ok(Reply::json(&specialization)?.etag(etag(revision)))
}
