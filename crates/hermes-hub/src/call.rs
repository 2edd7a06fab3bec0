//! One call of an operation, whichever way it came, and its reply.

use std::sync::{Arc, atomic::AtomicBool};

use bytes::Bytes;
use futures::stream::BoxStream;
use http::HeaderMap;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    Hub, Problem, TenantId, app::KnownTenant, audit::NewEntry, auth::Principal, dispatch::Visitor,
    shapes::Via,
};

/// Who calls, from where, and what was found out before the operation began.
#[derive(Clone)]
pub(crate) struct Call {
    /// The Hub.
    pub(crate) hub: Hub,
    /// Who calls.
    pub(crate) visitor: Visitor,
    /// Through which door.
    pub(crate) via: Via,
    /// The version a write must find, if the caller named one.
    pub(crate) if_match: Option<String>,
    /// The last event a watcher has seen.
    pub(crate) last_event_id: Option<u64>,
    /// The part of a file that is wanted.
    pub(crate) range: Option<String>,
    /// The tenant of the route.
    pub(crate) tenant: Option<Arc<KnownTenant>>,
    /// What the log says of this call. A change commits it with its effect.
    pub(crate) entry: NewEntry,
    /// Whether the log has this call, whatever becomes of it.
    pub(crate) is_logged: Arc<AtomicBool>,
}

impl Call {
    /// What the caller may do.
    pub(crate) fn principal(&self) -> &Principal {
        &self.visitor.principal
    }

    /// The tenant of the route. The gate has found it.
    pub(crate) fn tenant(&self) -> Result<&Arc<KnownTenant>, Problem> {
        self.tenant
            .as_ref()
            .ok_or_else(|| Problem::internal(&"an operation on a tenant came without one"))
    }

    /// Its id.
    pub(crate) fn tenant_id(&self) -> Result<&TenantId, Problem> {
        Ok(&self.tenant()?.id)
    }

    /// Writes the entry of something that changes no record, before it is done.
    pub(crate) async fn log_now(&self) -> Result<(), Problem> {
        self.hub
            .state()
            .append_audit(vec![self.entry.clone()])
            .await?;
        self.is_logged
            .store(true, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Refuses a write that would replace another version than the caller knows.
    pub(crate) fn check_version(&self, etag: &str) -> Result<(), Problem> {
        match &self.if_match {
            Some(wanted) if !names_version(wanted, etag) => Err(changed_meanwhile()),
            _ => Ok(()),
        }
    }
}

/// That `If-Match` names another version.
pub(crate) fn changed_meanwhile() -> Problem {
    Problem::new(
        crate::Code::PreconditionFailed,
        "it has changed since; read it again and repeat the change on that version",
    )
}

/// Whether a header such as `If-Match` names this version.
pub(crate) fn names_version(header: &str, etag: &str) -> bool {
    header.trim() == "*" || header.split(',').any(|one| one.trim() == etag)
}

/// A strong version of something that counts its changes.
pub(crate) fn etag(version: impl std::fmt::Display) -> String {
    format!("\"{version}\"")
}

/// What an operation answers.
pub(crate) struct Reply {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The version of what is shown.
    pub(crate) etag: Option<String>,
    /// What is sent.
    pub(crate) body: Body,
}

/// What is sent.
pub(crate) enum Body {
    /// Nothing.
    Empty,
    /// A JSON document, as it is sent.
    Json(Arc<RawValue>),
    /// Server-sent events.
    Events(BoxStream<'static, Bytes>),
    /// Anything else, with its own headers.
    Bytes(HeaderMap, axum::body::Body),
}

impl Reply {
    /// A document, with status 200.
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, Problem> {
        let document = serde_json::value::to_raw_value(value);
        let document = document.map_err(|error| Problem::internal(&error))?;
        Ok(Self::document(document.into()))
    }

    /// A document that was made before, with status 200.
    pub(crate) fn document(document: Arc<RawValue>) -> Self {
        Self {
            status: 200,
            etag: None,
            body: Body::Json(document),
        }
    }

    /// A document with a secret that is shown this once.
    pub(crate) fn json_with(
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

    /// Nothing, with status 204.
    pub(crate) fn empty() -> Self {
        Self {
            status: 204,
            etag: None,
            body: Body::Empty,
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
