//! A page's view of its request: who asks, in which language, for what; and reading by operations.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{FromRequestParts, RawPathParams};
use http::{HeaderMap, request::Parts};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{
    language::texts_for,
    session_cookie::{CsrfToken, SenderAddress},
    texts::Texts,
};
use crate::{
    Hub, Problem, ProblemCode,
    api_types::Via,
    auth::{Principal, console_sessions::SignedIn},
    http::middleware::RequestId,
    operations::{
        Gate, NamingStyle, Operation, RequiredAccess,
        dispatch::{OperationRequest, RequestArguments, dispatch},
        table,
    },
    service::call::{Reply, ReplyBody},
};

/// A page that somebody who is signed in asks for. Clones share it.
#[derive(Clone)]
pub(crate) struct PageRequest(Arc<PageRequestParts>);

pub(crate) struct PageRequestParts {
    pub(super) hub: Hub,
    pub(super) signed_in: SignedIn,
    pub(super) csrf: CsrfToken,
    pub(super) texts: &'static Texts,
    pub(super) id: RequestId,
    pub(super) path: String,
    /// `path` as the page has it, with `{name}` in it.
    pub(super) pattern: String,
    path_values: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    pub(super) headers: HeaderMap,
    only_tenant: Option<String>,
}

impl std::ops::Deref for PageRequest {
    type Target = PageRequestParts;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl FromRequestParts<Hub> for PageRequest {
    type Rejection = axum::response::Response;

    async fn from_request_parts(parts: &mut Parts, hub: &Hub) -> Result<Self, Self::Rejection> {
        let path_values = RawPathParams::from_request_parts(parts, hub).await;
        let path_values = path_values.map(|values| {
            let values = values.iter();
            values
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        });
        let pattern = parts.extensions.get::<axum::extract::MatchedPath>();
        let pattern = pattern.map_or_else(String::new, |pattern| pattern.as_str().to_owned());
        let extensions = &parts.extensions;
        let (Some(signed_in), Some(csrf)) = (extensions.get(), extensions.get()) else {
            let problem = Problem::new(ProblemCode::Unauthenticated, "sign in first")
                .with_reason("sign_in_first");
            let id = find_request_id(extensions);
            return Err(super::pages::bare_problem_page(
                &parts.headers,
                &problem,
                &id,
            ));
        };
        let mut request = PageRequestParts {
            only_tenant: None,
            hub: hub.clone(),
            signed_in: SignedIn::clone(signed_in),
            csrf: CsrfToken::clone(csrf),
            texts: texts_for(&parts.headers),
            id: find_request_id(extensions),
            path: parts.uri.path().to_owned(),
            pattern,
            path_values: path_values.unwrap_or_default(),
            query: parse_query(parts.uri.query().unwrap_or_default()),
            headers: parts.headers.clone(),
        };
        if request.pattern != super::LIVE_PATH {
            request.only_tenant = request.find_only_tenant().await;
            if request.only_tenant.is_some() {
                request.texts = request.texts.for_one_person();
            }
        }
        Ok(Self(Arc::new(request)))
    }
}

/// The id that the middleware has assigned.
pub(super) fn find_request_id(extensions: &http::Extensions) -> RequestId {
    extensions.get().cloned().unwrap_or_else(RequestId::random)
}

/// The address of somebody who may not be signed in.
pub(super) fn sender_address(extensions: &http::Extensions) -> std::net::IpAddr {
    extensions
        .get::<SenderAddress>()
        .map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |sender| sender.0)
}

pub(super) fn parse_query(query: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

impl PageRequestParts {
    pub(super) fn principal(&self) -> &Principal {
        &self.signed_in.caller.principal
    }

    /// The tenant of somebody who uses the Hub alone: their own home, and no other tenant.
    pub(super) fn only_tenant(&self) -> Option<&str> {
        self.only_tenant.as_deref()
    }

    async fn find_only_tenant(&self) -> Option<String> {
        if self.principal().tenants.is_some() || !self.may("list_tenants") {
            return None;
        }
        let two: Value = self.read("list_tenants", json!({"limit": 2})).await.ok()?;
        match two["tenants"].as_array()?.as_slice() {
            [only] if only["storage"]["linked"] == true => only["id"].as_str().map(str::to_owned),
            _ => None,
        }
    }

    /// A value of the address, as `{name}` in the page's path.
    pub(super) fn path_value(&self, name: &str) -> &str {
        self.path_values.get(name).map_or("", String::as_str)
    }

    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// The present address with another value in its query; without it, for an empty one.
    pub(super) fn address_with(&self, name: &str, value: &str) -> String {
        let mut query = self.query.clone();
        query.remove("done");
        if value.is_empty() {
            query.remove(name);
        } else {
            query.insert(name.to_owned(), value.to_owned());
        }
        let text = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&query)
            .finish();
        if text.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{text}", self.path)
        }
    }

    /// Whether an operation is there for whoever is signed in. What is not there is not shown.
    pub(super) fn may(&self, operation: &str) -> bool {
        table()
            .find(operation)
            .is_some_and(|operation| is_allowed(self.principal(), operation))
    }

    /// Reads by an operation. `arguments` is an object with the names that tools have.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        operation: &str,
        arguments: Value,
    ) -> Result<T, Problem> {
        let reply = self
            .call(operation, arguments, CallOptions::default())
            .await?;
        let document = match reply.body {
            ReplyBody::Json(document) => document,
            ReplyBody::Empty | ReplyBody::Events(_) | ReplyBody::Bytes(..) => {
                let error = format!("`{operation}` does not reply with JSON");
                return Err(Problem::internal(&error));
            }
        };
        serde_json::from_str(document.get()).map_err(|error| Problem::internal(&error))
    }

    /// The same with the version of what was read.
    pub(super) async fn read_versioned<T: DeserializeOwned>(
        &self,
        operation: &str,
        arguments: Value,
    ) -> Result<(T, Option<String>), Problem> {
        let reply = self
            .call(operation, arguments, CallOptions::default())
            .await?;
        let etag = reply.etag.clone();
        match reply.body {
            ReplyBody::Json(document) => {
                let read = serde_json::from_str(document.get());
                Ok((read.map_err(|error| Problem::internal(&error))?, etag))
            }
            _ => Err(Problem::internal(&"the reply is not JSON")),
        }
    }

    /// Calls an operation in the name of whoever is signed in.
    pub(super) async fn call(
        &self,
        operation: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<Reply, Problem> {
        let operation = table()
            .find(operation)
            .ok_or_else(|| Problem::not_found("there is no such operation"))?;
        let available = match arguments {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let request = OperationRequest {
            operation,
            caller: self.signed_in.caller.clone(),
            via: Via::Console,
            id: self.id.0.clone(),
            arguments: RequestArguments {
                available,
                pending: None,
                naming: NamingStyle::Rest,
            },
            if_match: options.if_match,
            last_event_id: options.last_event_id,
            range: options.range,
            idempotency_key: options.idempotency_key,
        };
        Ok(dispatch(&self.hub, request).await?.reply)
    }
}

#[derive(Default)]
pub(super) struct CallOptions {
    pub(super) if_match: Option<String>,
    pub(super) last_event_id: Option<u64>,
    pub(super) idempotency_key: Option<String>,
    /// As the header has it.
    pub(super) range: Option<String>,
}

fn is_allowed(principal: &Principal, operation: &Operation) -> bool {
    let has_scope = match operation.access {
        RequiredAccess::Public | RequiredAccess::AnyToken => true,
        RequiredAccess::Scope(scope) => principal.scopes.contains(scope),
    };
    has_scope && (operation.gate != Gate::WholeHub || principal.tenants.is_none())
}
