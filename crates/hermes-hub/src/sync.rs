//! Copying what a tenant's home says about itself (its soul, context, memories, skills) to a directory outside, where
//! other programs read it. A dry run makes the same plan and stops there.

mod destination;
mod manifest;
mod plan;
mod secrets;

use std::{collections::BTreeSet, path::PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Problem, TenantId,
    files::{SharePath, Tree, blocking, clear_below, problem},
};
use destination::Destination;
use plan::{Action, Plan};

/// Most paths in a list of a report.
const LONGEST_LIST: usize = 1000;

/// What the operator allows.
#[derive(Debug, Clone)]
pub struct SyncRules {
    /// The Hub's own directory. Its `sync` directory is always a root; nothing else in it is.
    pub data_dir: PathBuf,
    /// Further roots, from `sync.allowed_roots`.
    pub allowed_roots: Vec<PathBuf>,
    /// What is copied, relative to a home.
    pub sources: Vec<String>,
    /// Homes and shares: nothing is copied over, into or around them.
    pub protected: Vec<PathBuf>,
    /// This machine's name in reports.
    pub node: String,
}

/// What is copied unless the operator says otherwise.
pub const DEFAULT_SOURCES: [&str; 5] = ["SOUL.md", "AGENTS.md", "context", "memories", "skills"];

/// Whether anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncRun {
    /// Only the plan.
    Dry,
    /// All of it.
    Real,
}

/// What becomes of files at the destination that the home does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extras {
    /// They stay.
    Keep,
    /// Those that we put there go, unless somebody changed them.
    Delete,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// Whose context.
    pub tenant: TenantId,
    /// The tenant's home.
    pub home: PathBuf,
    /// Absolute beneath a root, or relative to the built-in one.
    pub destination: String,
    /// Whether anything is done.
    pub run: SyncRun,
    /// What becomes of the rest.
    pub extras: Extras,
}

/// Something that was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Skipped {
    /// What.
    pub path: String,
    /// Why, in a word: `secret`, `symlink`, `unreadable`, `occupied`.
    pub reason: &'static str,
}

/// Whole numbers, where lists are cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SyncCounts {
    /// New at the destination.
    pub copied: u64,
    /// Changed at the destination.
    pub updated: u64,
    /// Gone from the destination.
    pub deleted: u64,
}

/// What was done, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncReport {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// On which machine.
    pub node: String,
    /// New files.
    pub copied: Vec<String>,
    /// Changed files.
    pub updated: Vec<String>,
    /// Removed files.
    pub deleted: Vec<String>,
    /// Files that the home does not have and that stay.
    pub kept: Vec<String>,
    /// How many files were right already.
    pub unchanged: u64,
    /// What was not copied.
    pub skipped: Vec<Skipped>,
    /// How many of each.
    pub counts: SyncCounts,
    /// Bytes copied.
    pub bytes: u64,
}

/// Copies a tenant's context. Once begun, it is completed.
pub async fn sync_context(rules: SyncRules, request: SyncRequest) -> Result<SyncReport, Problem> {
    blocking(move || run(&rules, &request)).await
}

fn run(rules: &SyncRules, request: &SyncRequest) -> Result<SyncReport, Problem> {
    let destination = Destination::resolve(rules, request)?;
    let root = SharePath::root();
    let home = Tree::open(&request.home).map_err(|error| problem(error, &root))?;
    let target = destination.open(request.run)?;
    let known = match &target {
        Some(target) => manifest::read(target, &request.tenant)?,
        None => manifest::Manifest::new(&request.tenant),
    };
    let mut plan = Plan::make(&home, &rules.sources, target.as_ref(), &known)?;
    if request.extras == Extras::Keep {
        plan.keep_all();
    }
    if let (SyncRun::Real, Some(target)) = (request.run, &target) {
        // Whoever was killed while copying has left some; nobody else copies here now.
        let cleared = target.try_clone().map(clear_below);
        if let Ok(Err(error)) = cleared {
            tracing::warn!("what an interrupted copy left is not cleared: {error}");
        }
        plan.copy(&home, target)?;
        plan.delete(target)?;
        manifest::write(target, &plan.manifest(&known))?;
    }
    Ok(report(&plan, rules, request))
}

fn report(plan: &Plan, rules: &SyncRules, request: &SyncRequest) -> SyncReport {
    let with = |action: Action| plan.files.iter().filter(move |file| file.action == action);
    let paths = |action: Action| {
        with(action)
            .map(|file| file.path.as_str().to_owned())
            .take(LONGEST_LIST)
            .collect()
    };
    let first = |paths: &BTreeSet<String>| paths.iter().take(LONGEST_LIST).cloned().collect();
    SyncReport {
        dry_run: request.run == SyncRun::Dry,
        node: rules.node.clone(),
        copied: paths(Action::Copy),
        updated: paths(Action::Update),
        deleted: first(&plan.deleted),
        kept: first(&plan.kept),
        unchanged: with(Action::Leave).count() as u64,
        skipped: plan.skipped.iter().take(LONGEST_LIST).cloned().collect(),
        counts: SyncCounts {
            copied: with(Action::Copy).count() as u64,
            updated: with(Action::Update).count() as u64,
            deleted: plan.deleted.len() as u64,
        },
        bytes: with(Action::Copy)
            .chain(with(Action::Update))
            .map(|file| file.size)
            .sum(),
    }
}
