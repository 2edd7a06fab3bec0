//! One call of an operation, over REST or MCP, and its reply.

use std::sync::{Arc, atomic::AtomicBool};

use bytes::Bytes;
use futures::stream::BoxStream;
use http::HeaderMap;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    Hub, Problem, TenantId,
    api_types::Via,
    auth::{Caller, Principal},
    hub::CachedTenant,
    storage::audit::NewAuditEntry,
};

/// The caller of an operation, and what was resolved before it runs.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) hub: Hub,
    pub(crate) caller: Caller,
    pub(crate) via: Via,
    /// `If-Match`, if the caller sent it.
    pub(crate) if_match: Option<String>,
    /// `Last-Event-ID`, if the caller sent it.
    pub(crate) last_event_id: Option<u64>,
    pub(crate) range: Option<String>,
    pub(crate) tenant: Option<Arc<CachedTenant>>,
    /// The audit entry. A change commits it with its effect.
    pub(crate) entry: NewAuditEntry,
    /// Whether the audit log already has this call.
    pub(crate) is_logged: Arc<AtomicBool>,
}

impl Call {
    pub(crate) fn principal(&self) -> &Principal {
        &self.caller.principal
    }

    /// The tenant of the route, which the gate has looked up.
    pub(crate) fn tenant(&self) -> Result<&Arc<CachedTenant>, Problem> {
        self.tenant
            .as_ref()
            .ok_or_else(|| Problem::internal(&"operation on a tenant without a tenant"))
    }

    pub(crate) fn tenant_id(&self) -> Result<&TenantId, Problem> {
        Ok(&self.tenant()?.id)
    }

    /// Writes the audit entry of an action that changes no record, before it is done.
    pub(crate) async fn record_audit(&self) -> Result<(), Problem> {
        self.hub
            .state()
            .append_audit(vec![self.entry.clone()])
            .await?;
        self.is_logged
            .store(true, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Refuses a write that would replace a version the caller does not know.
    pub(crate) fn check_version(&self, etag: &str) -> Result<(), Problem> {
        match &self.if_match {
            Some(wanted) if !etag_matches(wanted, etag) => Err(version_conflict()),
            _ => Ok(()),
        }
    }
}

pub(crate) fn version_conflict() -> Problem {
    Problem::new(
        crate::ProblemCode::PreconditionFailed,
        "it was changed by another request; read it again and repeat the change on that version",
    )
}

/// Whether a header such as `If-Match` names this version.
pub(crate) fn etag_matches(header: &str, etag: &str) -> bool {
    header.trim() == "*" || header.split(',').any(|one| one.trim() == etag)
}

/// A strong `ETag` from a version number.
pub(crate) fn etag(version: impl std::fmt::Display) -> String {
    format!("\"{version}\"")
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) etag: Option<String>,
    pub(crate) body: ReplyBody,
}

pub(crate) enum ReplyBody {
    Empty,
    Json(Arc<RawValue>),
    Events(BoxStream<'static, Bytes>),
    Bytes(HeaderMap, axum::body::Body),
}

impl Reply {
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, Problem> {
        let document = serde_json::value::to_raw_value(value);
        let document = document.map_err(|error| Problem::internal(&error))?;
        Ok(Self::document(document.into()))
    }

    pub(crate) fn document(document: Arc<RawValue>) -> Self {
        Self {
            status: 200,
            etag: None,
            body: ReplyBody::Json(document),
        }
    }

    /// A document with a secret, which is added when the reply is built and shown only once.
    pub(crate) fn json_with_secret(
        value: &impl Serialize,
        name: &str,
        secret: &str,
    ) -> Result<Self, Problem> {
        let mut value = serde_json::to_value(value).map_err(|error| Problem::internal(&error))?;
        if let Value::Object(members) = &mut value {
            members.insert(name.to_owned(), secret.into());
        }
        Self::json(&value)
    }

    pub(crate) fn empty() -> Self {
        Self {
            status: 204,
            etag: None,
            body: ReplyBody::Empty,
        }
    }

    #[must_use]
    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    #[must_use]
    pub(crate) fn etag(mut self, etag: impl Into<String>) -> Self {
        self.etag = Some(etag.into());
        self
    }
}
