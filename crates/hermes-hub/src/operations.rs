//! The operation table: everything the Hub can do, each thing once.
//!
//! REST routes, MCP tools, the OpenAPI document, the reference and the command line all come from these rows.

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::LazyLock};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    Problem,
    api_types::Scope,
    service::call::{Call, Reply},
};

pub(crate) mod at_holder;
pub(crate) mod dispatch;
pub mod document;
mod input;
pub mod manifest_members;
mod rights;
mod rows;
#[cfg(test)]
mod tests;

pub use input::{Argument, ArgumentKind, ArgumentLocation, BytesBody, NamingStyle, OperationInput};
pub use rights::MemberRight;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpMethod {
    Get,
    Put,
    Post,
    Patch,
    Delete,
}

impl HttpMethod {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether arguments are in a JSON body rather than in the query.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Put | Self::Post | Self::Patch)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAccess {
    Public,
    AnyToken,
    Scope(Scope),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    Change,
    Destroy,
}

/// Whether a repeated call with the same arguments has a further effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    NotIdempotent,
    Idempotent,
}

/// Which list of tools an operation is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    /// REST only.
    None,
    Standard,
    /// Those offered with `mcp.tools: extended`.
    Extended,
}

/// What is checked before an operation, besides scope and tenant coverage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The route has no tenant.
    None,
    /// The route has no tenant, and tokens limited to some tenants are refused.
    WholeHub,
    Tenant,
    /// The tenant exists or is deleted but restorable.
    AnyTenant,
    /// The tenant exists, or is made by a token without a list of tenants.
    TenantOrNew,
    /// The tenant exists and is not blocked.
    ActiveTenant,
    /// The tenant is a member of the group.
    Member,
    /// The tenant is an active member that may write.
    Writer,
}

/// Which node does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutingNode {
    AnyNode,
    /// The one with the home and the agent of its tenant.
    LeaseHolder,
}

pub enum Output {
    /// 204 over REST, `{"ok": true}` over MCP.
    Empty,
    /// JSON with this schema.
    Json(Map<String, Value>),
    Events,
    /// Other media types.
    Bytes(&'static [&'static str]),
}

type OperationFuture = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;
type OperationHandler = Box<dyn Fn(Call, Map<String, Value>) -> OperationFuture + Send + Sync>;

/// One row of the table.
pub struct Operation {
    /// In snake case; also the name of the tool.
    pub name: &'static str,
    pub title: &'static str,
    /// For people and models.
    pub description: &'static str,
    /// Usually one.
    pub methods: &'static [HttpMethod],
    /// The route, with `{name}` for path arguments.
    pub path: &'static str,
    pub access: RequiredAccess,
    pub gate: Gate,
    pub effect: Effect,
    pub idempotency: Idempotency,
    /// Whether it acts beyond the Hub.
    pub is_open_world: bool,
    pub toolset: Toolset,
    /// The command line's verb for it.
    pub command: Option<&'static str>,
    pub success: &'static [u16],
    /// Error statuses besides the common ones.
    pub errors: &'static [u16],
    pub input: OperationInput,
    pub output: Output,
    /// Another media type it can be requested in.
    pub other_media: Option<&'static str>,
    /// Whether its JSON contains data from tenants' files.
    pub is_untrusted: bool,
    /// Whether its reply has an `ETag`.
    pub is_versioned: bool,
    pub place: ExecutingNode,
    /// Rights that members of its input need beyond its own.
    rights: &'static [(&'static str, MemberRight)],
    handler: OperationHandler,
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("name", &self.name)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Error statuses that any operation can have.
pub const COMMON_ERRORS: [u16; 8] = [400, 401, 403, 404, 413, 429, 500, 503];

impl Operation {
    fn new<I, F>(
        name: &'static str,
        verb: &'static [HttpMethod],
        path: &'static str,
        handler: fn(Call, I) -> F,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = Result<Reply, Problem>> + Send + 'static,
    {
        Self {
            name,
            title: "",
            description: "",
            methods: verb,
            path,
            access: RequiredAccess::AnyToken,
            gate: if path.contains("{group_id}") && path.contains("{tenant_id}") {
                Gate::Member
            } else if path.contains("{tenant_id}") {
                Gate::Tenant
            } else {
                Gate::None
            },
            effect: Effect::Change,
            idempotency: Idempotency::NotIdempotent,
            is_open_world: false,
            toolset: Toolset::None,
            command: None,
            success: &[200],
            errors: &[],
            input: OperationInput::for_type::<I>(path, verb[0]),
            output: Output::Empty,
            other_media: None,
            is_untrusted: false,
            is_versioned: false,
            place: at_holder::find_place(name, path),
            rights: rights::member_rights(name),
            handler: Box::new(move |call, arguments| {
                let input = input::deserialize_arguments::<I>(arguments);
                Box::pin(async move { handler(call, input?).await })
            }),
        }
    }

    /// The arguments in its route, in order.
    pub(crate) fn path_argument_names(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.path.split('/');
        parts.filter_map(|part| {
            Some(
                part.strip_prefix('{')?
                    .strip_suffix('}')?
                    .trim_start_matches('*'),
            )
        })
    }

    fn docs(mut self, title: &'static str, description: &'static str) -> Self {
        self.title = title;
        self.description = description;
        self
    }

    fn scope(mut self, scope: Scope) -> Self {
        self.access = RequiredAccess::Scope(scope);
        self
    }

    fn public(mut self) -> Self {
        self.access = RequiredAccess::Public;
        self
    }

    fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    fn read_only(mut self) -> Self {
        self.effect = Effect::Read;
        self.idempotency = Idempotency::Idempotent;
        self
    }

    fn destructive(mut self) -> Self {
        self.effect = Effect::Destroy;
        self
    }

    fn idempotent(mut self) -> Self {
        self.idempotency = Idempotency::Idempotent;
        self
    }

    fn open_world(mut self) -> Self {
        self.is_open_world = true;
        self
    }

    fn tool(mut self) -> Self {
        self.toolset = Toolset::Standard;
        self
    }

    fn extended_tool(mut self) -> Self {
        self.toolset = Toolset::Extended;
        self
    }

    fn command(mut self, command: &'static str) -> Self {
        self.command = Some(command);
        self
    }

    fn returns<T: JsonSchema>(mut self) -> Self {
        self.output = Output::Json(crate::api_types::schema::output_schema::<T>());
        self
    }

    fn returns_nothing(mut self) -> Self {
        self.output = Output::Empty;
        self.success = &[204];
        self
    }

    fn returns_events(mut self) -> Self {
        self.output = Output::Events;
        self
    }

    fn returns_bytes(mut self, media_types: &'static [&'static str]) -> Self {
        self.output = Output::Bytes(media_types);
        self
    }

    fn also_returns(mut self, media_type: &'static str) -> Self {
        self.other_media = Some(media_type);
        self
    }

    fn versioned(mut self) -> Self {
        self.is_versioned = true;
        self
    }

    fn untrusted(mut self) -> Self {
        self.is_untrusted = true;
        self
    }

    fn success(mut self, statuses: &'static [u16]) -> Self {
        self.success = statuses;
        self
    }

    fn errors(mut self, statuses: &'static [u16]) -> Self {
        self.errors = statuses;
        self
    }

    /// The REST body is this argument, or an object with only this member.
    fn whole_body(mut self, member: &'static str) -> Self {
        self.input.whole_body = Some(member);
        self
    }

    /// The whole REST body can be YAML, too.
    fn takes_yaml(mut self) -> Self {
        self.input.takes_yaml = true;
        self
    }

    /// A REST body of these media types is this argument.
    fn takes_bytes(mut self, member: &'static str, media_types: &'static [&'static str]) -> Self {
        self.input.bytes_body = Some(BytesBody {
            member,
            media_types,
        });
        self
    }

    /// Arguments that are in the query although there is a body.
    fn in_query(mut self, members: &[&str]) -> Self {
        self.input.move_to_query(members);
        self
    }

    /// Arguments that tools do not have.
    fn rest_only(mut self, members: &[&str]) -> Self {
        self.input.hide_from_tools(members);
        self
    }

    /// Runs it. Everything but the input itself has been checked.
    pub(crate) fn run(&self, call: Call, arguments: Map<String, Value>) -> OperationFuture {
        (self.handler)(call, arguments)
    }

    /// The first method, which the documents show.
    pub fn method(&self) -> HttpMethod {
        self.methods[0]
    }

    pub fn required_scope(&self) -> Option<Scope> {
        match self.access {
            RequiredAccess::Scope(scope) => Some(scope),
            RequiredAccess::Public | RequiredAccess::AnyToken => None,
        }
    }
}

pub struct OperationTable {
    operations: Vec<Operation>,
    by_name: HashMap<&'static str, usize>,
}

static TABLE: LazyLock<OperationTable> = LazyLock::new(|| {
    let operations = rows::all_operations();
    let by_name = operations
        .iter()
        .enumerate()
        .map(|(at, operation)| (operation.name, at))
        .collect();
    OperationTable {
        operations,
        by_name,
    }
});

pub fn table() -> &'static OperationTable {
    &TABLE
}

impl OperationTable {
    pub fn rows(&'static self) -> std::slice::Iter<'static, Operation> {
        self.operations.iter()
    }

    pub fn find(&self, name: &str) -> Option<&Operation> {
        self.by_name.get(name).map(|at| &self.operations[*at])
    }
}

impl fmt::Debug for OperationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.operations).finish()
    }
}
