//! The table of operations: what the Hub can do, each thing once.
//!
//! REST routes, MCP tools, the OpenAPI document, the reference and the command line all come from these rows.

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::LazyLock};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    Problem,
    auth::Scope,
    call::{Call, Reply},
};

mod input;
mod rights;
mod rows;
pub(crate) mod schema;
#[cfg(test)]
mod tests;

pub use input::{Input, Kind, Member, Naming, Place};
pub(crate) use input::{unknown_member, without_values};
pub use rights::MemberRight;

/// A verb of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Look.
    Get,
    /// Put something there.
    Put,
    /// Do something.
    Post,
    /// Change something.
    Patch,
    /// Take something away.
    Delete,
}

impl Verb {
    /// In capitals.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether arguments come as a JSON body rather than in the query.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Put | Self::Post | Self::Patch)
    }
}

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without a token.
    Open,
    /// Every token.
    AnyToken,
    /// Tokens with this scope.
    Scope(Scope),
}

/// What an operation does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Adds or changes something.
    Changes,
    /// May replace or remove something.
    Destroys,
}

/// Whether doing it again with the same arguments adds anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// It does.
    Adds,
    /// It does not.
    AddsNothing,
}

/// Among which tools an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    /// None: REST only.
    None,
    /// The standard list.
    Standard,
    /// Those offered with `mcp.tools: extended`.
    Extended,
}

/// What is checked before the operation itself, besides scope and coverage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Nothing: the route names no tenant.
    None,
    /// The same, and tokens limited to some tenants may not.
    WholeHub,
    /// The tenant exists.
    Tenant,
    /// The tenant exists, or did until it was deleted.
    DeletedTenant,
    /// The tenant exists and is not blocked.
    ActiveTenant,
    /// The tenant is a member of the group.
    Member,
    /// The tenant is an active member that may write.
    Writer,
}

/// What an operation answers.
pub enum Output {
    /// Nothing: 204 over REST, `{"ok": true}` over MCP.
    Empty,
    /// JSON that fits this schema.
    Json(Map<String, Value>),
    /// Server-sent events.
    Events,
    /// A file, or another format.
    Bytes(&'static [&'static str]),
}

type Answer = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;
type Handler = Box<dyn Fn(Call, Map<String, Value>) -> Answer + Send + Sync>;

/// One row of the table.
pub struct Operation {
    /// In small letters with underscores; a tool has this name.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What it does, for people and models.
    pub description: &'static str,
    /// The verbs it answers to, usually one.
    pub verbs: &'static [Verb],
    /// The route, with `{name}` for arguments in it.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// What else is checked before.
    pub gate: Gate,
    /// What it does to the world.
    pub effect: Effect,
    /// What doing it again does.
    pub repetition: Repetition,
    /// Whether it reaches beyond the Hub.
    pub is_open_world: bool,
    /// Among which tools it is.
    pub toolset: Toolset,
    /// How the command line calls it.
    pub command: Option<&'static str>,
    /// Statuses of success.
    pub success: &'static [u16],
    /// Statuses of failure besides those that any operation can have.
    pub errors: &'static [u16],
    /// What it takes.
    pub input: Input,
    /// What it gives.
    pub output: Output,
    /// In which other media type it can be asked for.
    pub other_media: Option<&'static str>,
    /// Whether its JSON holds contents of tenants' files.
    pub is_untrusted: bool,
    /// Whether what it shows has a version, as its `ETag`.
    pub is_versioned: bool,
    /// What members of its input take beyond its own right.
    rights: &'static [(&'static str, MemberRight)],
    handler: Handler,
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("name", &self.name)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Statuses any operation can have.
pub const USUAL_ERRORS: [u16; 8] = [400, 401, 403, 404, 413, 429, 500, 503];

impl Operation {
    fn new<I, F>(
        name: &'static str,
        verb: &'static [Verb],
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
            verbs: verb,
            path,
            access: Access::AnyToken,
            gate: if path.contains("{group_id}") && path.contains("{tenant_id}") {
                Gate::Member
            } else if path.contains("{tenant_id}") {
                Gate::Tenant
            } else {
                Gate::None
            },
            effect: Effect::Changes,
            repetition: Repetition::Adds,
            is_open_world: false,
            toolset: Toolset::None,
            command: None,
            success: &[200],
            errors: &[],
            input: Input::of::<I>(path, verb[0]),
            output: Output::Empty,
            other_media: None,
            is_untrusted: false,
            is_versioned: false,
            rights: rights::of(name),
            handler: Box::new(move |call, arguments| {
                let input = input::read::<I>(arguments);
                Box::pin(async move { handler(call, input?).await })
            }),
        }
    }

    /// The arguments in its route, in their order there.
    pub(crate) fn names_in_path(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.path.split('/');
        parts.filter_map(|part| {
            Some(
                part.strip_prefix('{')?
                    .strip_suffix('}')?
                    .trim_start_matches('*'),
            )
        })
    }

    fn says(mut self, title: &'static str, description: &'static str) -> Self {
        self.title = title;
        self.description = description;
        self
    }

    fn scope(mut self, scope: Scope) -> Self {
        self.access = Access::Scope(scope);
        self
    }

    fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    fn reads(mut self) -> Self {
        self.effect = Effect::Reads;
        self.repetition = Repetition::AddsNothing;
        self
    }

    fn destroys(mut self) -> Self {
        self.effect = Effect::Destroys;
        self
    }

    fn idempotent(mut self) -> Self {
        self.repetition = Repetition::AddsNothing;
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

    fn gives<T: JsonSchema>(mut self) -> Self {
        self.output = Output::Json(schema::output::<T>());
        self
    }

    fn gives_nothing(mut self) -> Self {
        self.output = Output::Empty;
        self.success = &[204];
        self
    }

    fn gives_events(mut self) -> Self {
        self.output = Output::Events;
        self
    }

    fn gives_bytes(mut self, media_types: &'static [&'static str]) -> Self {
        self.output = Output::Bytes(media_types);
        self
    }

    fn also_gives(mut self, media_type: &'static str) -> Self {
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

    /// Over REST the body is this argument, or an object with it alone.
    fn whole_body(mut self, member: &'static str) -> Self {
        self.input.whole_body = Some(member);
        self
    }

    /// Arguments that come in the query although there is a body.
    fn in_query(mut self, members: &[&str]) -> Self {
        self.input.move_to_query(members);
        self
    }

    /// Arguments that tools do not have.
    fn rest_only(mut self, members: &[&str]) -> Self {
        self.input.hide_from_tools(members);
        self
    }

    /// Does it. Everything but the input itself has been checked.
    pub(crate) fn run(&self, call: Call, arguments: Map<String, Value>) -> Answer {
        (self.handler)(call, arguments)
    }

    /// The first verb, which the documents name.
    pub fn verb(&self) -> Verb {
        self.verbs[0]
    }

    /// The scope it needs, if any.
    pub fn needed_scope(&self) -> Option<Scope> {
        match self.access {
            Access::Scope(scope) => Some(scope),
            Access::Open | Access::AnyToken => None,
        }
    }
}

/// All operations, in the order of the reference.
pub struct Table {
    operations: Vec<Operation>,
    by_name: HashMap<&'static str, usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let operations = rows::all();
    let by_name = operations
        .iter()
        .enumerate()
        .map(|(at, operation)| (operation.name, at))
        .collect();
    Table {
        operations,
        by_name,
    }
});

/// The table.
pub fn table() -> &'static Table {
    &TABLE
}

impl Table {
    /// Every row.
    pub fn rows(&'static self) -> std::slice::Iter<'static, Operation> {
        self.operations.iter()
    }

    /// The row of that name.
    pub fn find(&self, name: &str) -> Option<&Operation> {
        self.by_name.get(name).map(|at| &self.operations[*at])
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.operations).finish()
    }
}
