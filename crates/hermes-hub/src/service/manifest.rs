//! A tenant as one document: what it has is shown, and what a document says is made so. Each part goes through the
//! operation that changes it alone, with its checks. What a document does not name stays as it is.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

mod check;
mod home_parts;
mod jobs;
mod named_parts;
mod record;
mod show;

use super::{
    call::{Call, Reply, ReplyBody},
    skills::package::NewSkillFile,
};
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{PartOutcome, problem::strip_values},
    hub::CachedTenant,
};
pub(crate) use show::{ManifestView, get};

/// A tenant as it is to be. What is absent stays as it is.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The tenant's id: that of the route, if it is given.
    id: Option<TenantId>,
    /// Its display name, 1 to 200 characters.
    name: Option<String>,
    /// The preset of defaults; needs a token without a list of tenants.
    flavor: Option<String>,
    /// Labels to set; `null` removes one.
    labels: Option<BTreeMap<String, Option<String>>>,
    /// Groups it is a member of, each with `read` or `write`; `null` ends a membership. Needs `groups:write` and a token
    /// without a list of tenants.
    groups: Option<BTreeMap<String, Option<String>>>,
    /// Variables to set; `null` removes one. Needs `env:write`.
    env: Option<BTreeMap<String, Option<String>>>,
    /// Its model, as `PATCH …/model` takes it.
    model: Option<Map<String, Value>>,
    /// MCP servers by name, as `PUT …/mcp-servers/{name}` takes them; `null` removes one. Needs `mcp:write`.
    mcp_servers: Option<BTreeMap<String, Option<Map<String, Value>>>>,
    /// Skills it has. Needs `skills:write`.
    skills: Option<Vec<ManifestSkill>>,
    /// Who its agent is: its `SOUL.md`.
    soul: Option<String>,
    /// What its agent knows.
    memory: Option<ManifestMemory>,
    /// Files of its workspace. Needs `files:write`.
    files: Option<Vec<ManifestFile>>,
    /// Messaging platforms by name, as `PUT …/platforms/{name}` takes them; `null` removes one.
    platforms: Option<BTreeMap<String, Option<Map<String, Value>>>>,
    /// Cron jobs, which are told apart by their names. Needs `cron:write`.
    cron: Option<Vec<Map<String, Value>>>,
    /// What it may use a day; needs a token without a list of tenants.
    limits: Option<Map<String, Value>>,
    /// Its disk space; needs a token without a list of tenants.
    storage: Option<ManifestStorage>,
}

/// A skill. With its name alone, it must be there already.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ManifestSkill {
    /// Its name.
    name: String,
    /// Whether it is taken from the Hub's library.
    library: Option<bool>,
    /// Its files, among them `SKILL.md`.
    files: Option<Vec<NewSkillFile>>,
    /// Its directory as a `tar` or `tar.zst` in base64.
    archive: Option<String>,
    /// The category it is filed under.
    category: Option<String>,
}

/// Memories of an agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManifestMemory {
    /// What it noted about its work.
    memory: Option<String>,
    /// What it knows about its users.
    user: Option<String>,
}

/// A file of the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ManifestFile {
    /// Relative to the workspace.
    path: String,
    /// Its text.
    content: Option<String>,
    /// Its bytes in base64, instead of a text.
    content_base64: Option<String>,
}

/// Limits of disk space.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ManifestStorage {
    /// How many bytes its home may have.
    quota_bytes: Option<u64>,
    /// How many files its home may have.
    files_quota: Option<u64>,
}

/// A document for a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutManifest {
    /// The tenant's id.
    tenant_id: TenantId,
    /// The tenant as it is to be.
    manifest: Manifest,
    /// Whether to say only what would be changed.
    dry_run: Option<bool>,
}

/// A part of a document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ManifestPart {
    /// Such as `env.API_KEY` or `skills.review`.
    part: String,
    outcome: PartOutcome,
    /// What was there; never a secret.
    #[serde(skip_serializing_if = "Value::is_null")]
    before: Value,
    /// What is there now; never a secret.
    #[serde(skip_serializing_if = "Value::is_null")]
    after: Value,
}

impl ManifestPart {
    fn new(part: impl Into<String>, outcome: PartOutcome) -> Self {
        Self {
            part: part.into(),
            outcome,
            before: Value::Null,
            after: Value::Null,
        }
    }

    /// A part whose values may be shown.
    fn compared(part: impl Into<String>, before: Value, after: Value) -> Self {
        let outcome = match (&before, &after) {
            (before, after) if before == after => PartOutcome::Unchanged,
            (Value::Null, _) => PartOutcome::Created,
            (_, Value::Null) => PartOutcome::Removed,
            _ => PartOutcome::Changed,
        };
        let is_same = outcome == PartOutcome::Unchanged;
        Self {
            part: part.into(),
            outcome,
            before: if is_same { Value::Null } else { before },
            after: if is_same { Value::Null } else { after },
        }
    }
}

/// What became of a document.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManifestReport {
    id: TenantId,
    /// Whether nothing was changed, only compared.
    dry_run: bool,
    /// In the order in which they were made.
    parts: Vec<ManifestPart>,
}

/// One document being applied.
struct ManifestRun {
    call: Call,
    /// Absent if it is to be created, and only in a dry run.
    tenant: Option<Arc<CachedTenant>>,
    is_dry: bool,
    parts: Vec<ManifestPart>,
}

pub(crate) async fn put(call: Call, input: PutManifest) -> Result<Reply, Problem> {
    let PutManifest {
        tenant_id: id,
        manifest,
        dry_run,
    } = input;
    if manifest.id.as_ref().is_some_and(|other| *other != id) {
        return Err(Problem::new(
            ProblemCode::Unprocessable,
            format!("`id` is not `{id}`, which the address names; use one of them"),
        )
        .with_detail("/id", "another tenant"));
    }
    let mut run = ManifestRun {
        tenant: call.tenant.clone(),
        call,
        is_dry: dry_run == Some(true),
        parts: Vec::new(),
    };
    let packages = run.check(&manifest).await?;
    let is_new = run.tenant.is_none();
    let applied = Box::pin(run.apply(&id, manifest, packages)).await;
    applied.map_err(|problem| run.describe_failure(problem))?;
    if is_new && !run.is_dry {
        // Of a tenant that was there before, the dispatcher does this.
        run.call.hub.leases().save_home(&id).await?;
    }
    let report = ManifestReport {
        id,
        dry_run: run.is_dry,
        parts: run.parts,
    };
    let status = if is_new && !report.dry_run { 201 } else { 200 };
    Ok(Reply::json(&report)?.status(status))
}

impl ManifestRun {
    async fn apply(
        &mut self,
        id: &TenantId,
        manifest: Manifest,
        packages: Vec<home_parts::WantedSkill>,
    ) -> Result<(), Problem> {
        self.apply_record(id, &manifest).await?;
        if let Some(model) = manifest.model {
            self.apply_model(&model).await?;
        }
        self.apply_servers(manifest.mcp_servers.unwrap_or_default())
            .await?;
        self.apply_texts(manifest.soul, manifest.memory).await?;
        self.apply_skills(packages).await?;
        self.apply_files(manifest.files.unwrap_or_default()).await?;
        self.apply_platforms(manifest.platforms.unwrap_or_default())
            .await?;
        self.apply_jobs(manifest.cron.unwrap_or_default()).await?;
        match manifest.limits {
            Some(limits) => self.apply_limits(&limits).await,
            None => Ok(()),
        }
    }

    /// The call of an operation on the tenant, for one part.
    fn part_call(&self, part: &str) -> Call {
        let mut call = self.call.clone();
        call.tenant.clone_from(&self.tenant);
        call.if_match = None;
        call.entry = call.entry.with_target(part);
        call
    }

    /// The same, with its input. `None` in a dry run for a tenant that is not there yet.
    fn part_input<T: DeserializeOwned>(
        &self,
        part: &str,
        members: Map<String, Value>,
    ) -> Result<Option<(Call, T)>, Problem> {
        let Some(tenant) = &self.tenant else {
            return Ok(None);
        };
        let mut members = members;
        members.insert("tenant_id".into(), tenant.id.as_str().into());
        let input = read_input(part, members)?;
        Ok(Some((self.part_call(part), input)))
    }

    /// Names the parts that were made before one failed.
    fn describe_failure(&self, mut problem: Problem) -> Problem {
        if self.is_dry {
            return problem;
        }
        let made = self
            .parts
            .iter()
            .filter(|part| part.outcome != PartOutcome::Unchanged);
        for part in made {
            problem = problem.with_detail(&part.part, part.outcome.as_str());
        }
        if !problem.details.is_empty() {
            problem.message = format!(
                "{}; what `details` names as created, changed or removed was done before",
                problem.message
            );
        }
        problem
    }
}

/// Reads the input of an operation.
fn read_input<T: DeserializeOwned>(part: &str, members: Map<String, Value>) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(members)).map_err(|error| {
        let reason = strip_values(&error.to_string());
        Problem::new(ProblemCode::Unprocessable, format!("`{part}`: {reason}"))
            .with_detail(part, reason)
    })
}

/// A problem of a part, with the part's name.
fn in_part(part: &str) -> impl FnOnce(Problem) -> Problem + '_ {
    move |mut problem| {
        problem.message = format!("`{part}`: {}", problem.message);
        problem
    }
}

/// A place in a document, as RFC 6901 has it.
fn pointer(path: &[impl AsRef<str>]) -> String {
    let steps = path.iter().map(|step| {
        let step = step.as_ref().replace('~', "~0").replace('/', "~1");
        format!("/{step}")
    });
    steps.collect()
}

/// A problem of a part, with the part's name and its place in the document: that is the first of its details.
fn in_place<S: AsRef<str>>(part: &str, path: &[S]) -> impl FnOnce(Problem) -> Problem {
    let (part, place) = (part.to_owned(), pointer(path));
    move |problem| {
        let mut problem = in_part(&part)(problem);
        let reason = problem.message.clone();
        match problem.details.first_mut() {
            // An operation names the member that is wrong.
            Some(first) => {
                first.field = format!("{place}/{}", first.field.trim_start_matches('/'));
            }
            None => problem = problem.with_detail(place, reason),
        }
        problem
    }
}

/// What an operation replied.
fn reply_value(reply: &Reply) -> Result<Value, Problem> {
    match &reply.body {
        ReplyBody::Json(document) => {
            serde_json::from_str(document.get()).map_err(|error| Problem::internal(&error))
        }
        ReplyBody::Empty | ReplyBody::Events(_) | ReplyBody::Bytes(..) => Ok(Value::Null),
    }
}

/// `baseUrl` as `base_url`.
fn to_snake_case(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_lowercase());
    }
    spelled
}
