//! Copies a tenant's context (its soul, context, memories, skills) to a directory for other programs, without the files
//! of a home that are never copied. A dry run stops after the plan.

mod destination;
mod plan;

use std::{collections::BTreeSet, path::PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Problem, TenantId,
    storage::files::{SharePath, Tree, problem_from_errno, remove_temp_files_below, run_blocking},
};
use destination::SyncDestination;
use plan::{FileAction, SyncPlan};

const MAX_LISTED_PATHS: usize = 1000;
/// Names of credential files and directories.
const SECRET_NAMES: [&str; 18] = [
    ".env",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".ssh",
    ".gnupg",
    ".anthropic_oauth.json",
    "auth",
    "auth.json",
    "auth.lock",
    "credentials",
    "credentials.json",
    "mcp-tokens",
    "pairing",
    "secrets",
    "secrets.json",
    "webhook_subscriptions.json",
];
/// Prefixes and suffixes of key files and token stores.
const SECRET_PREFIXES: [&str; 4] = [".env.", "id_rsa", "id_ed25519", "id_ecdsa"];
const SECRET_SUFFIXES: [&str; 9] = [
    ".env",
    ".key",
    ".pem",
    ".p12",
    ".pfx",
    ".keystore",
    ".token",
    "_token.json",
    "tokens.json",
];

#[derive(Debug, Clone)]
pub struct SyncRules {
    /// The Hub's data directory. Its `sync` directory is always a root, nothing else in it is.
    pub data_dir: PathBuf,
    /// From `sync.allowed_roots`.
    pub allowed_roots: Vec<PathBuf>,
    /// Paths that are copied, relative to a home.
    pub sources: Vec<String>,
    /// Homes and shares: a destination must not overlap with them.
    pub protected: Vec<PathBuf>,
    pub node: String,
}

pub const DEFAULT_SOURCES: [&str; 5] = ["SOUL.md", "AGENTS.md", "context", "memories", "skills"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    Dry,
    Real,
}

/// How files at the destination are treated that the home does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraFiles {
    Keep,
    /// Deletes those that an earlier sync created, unless somebody changed them.
    Delete,
}

#[derive(Debug, Clone)]
pub struct SyncRequest {
    pub tenant: TenantId,
    pub home: PathBuf,
    /// Absolute below a root, or relative to the built-in one.
    pub destination: String,
    pub mode: SyncMode,
    pub extras: ExtraFiles,
}

/// Something that was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkippedFile {
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
    pub skipped: Vec<SkippedFile>,
    /// How many of each.
    pub counts: SyncCounts,
    /// Bytes copied.
    pub bytes: u64,
}

/// Copies a tenant's context. Once started, it is completed.
pub async fn sync_context(rules: SyncRules, request: SyncRequest) -> Result<SyncReport, Problem> {
    run_blocking(move || run_sync(&rules, &request)).await
}

fn run_sync(rules: &SyncRules, request: &SyncRequest) -> Result<SyncReport, Problem> {
    let destination = SyncDestination::resolve(rules, request)?;
    let root = SharePath::root();
    let home = Tree::open(&request.home).map_err(|error| problem_from_errno(error, &root))?;
    let target = destination.open(request.mode)?;
    let known = match &target {
        Some(target) => destination::read_manifest(target, &request.tenant)?,
        None => destination::SyncManifest::new(&request.tenant),
    };
    let mut plan = SyncPlan::build(&home, &rules.sources, target.as_ref(), &known)?;
    if request.extras == ExtraFiles::Keep {
        plan.keep_all();
    }
    if let (SyncMode::Real, Some(target)) = (request.mode, &target) {
        // A killed process may have left some; the lock excludes other writers.
        let cleared = target.try_clone().map(remove_temp_files_below);
        if let Ok(Err(error)) = cleared {
            tracing::warn!(%error, "failed to remove temporary files of an interrupted sync");
        }
        plan.copy(&home, target)?;
        plan.delete(target)?;
        destination::write_manifest(target, &plan.manifest(&known))?;
    }
    Ok(build_report(&plan, rules, request))
}

fn build_report(plan: &SyncPlan, rules: &SyncRules, request: &SyncRequest) -> SyncReport {
    let with = |action: FileAction| plan.files.iter().filter(move |file| file.action == action);
    let paths = |action: FileAction| {
        with(action)
            .map(|file| file.path.as_str().to_owned())
            .take(MAX_LISTED_PATHS)
            .collect()
    };
    let first = |paths: &BTreeSet<String>| paths.iter().take(MAX_LISTED_PATHS).cloned().collect();
    SyncReport {
        dry_run: request.mode == SyncMode::Dry,
        node: rules.node.clone(),
        copied: paths(FileAction::Copy),
        updated: paths(FileAction::Update),
        deleted: first(&plan.deleted),
        kept: first(&plan.kept),
        unchanged: with(FileAction::Keep).count() as u64,
        skipped: plan
            .skipped
            .iter()
            .take(MAX_LISTED_PATHS)
            .cloned()
            .collect(),
        counts: SyncCounts {
            copied: with(FileAction::Copy).count() as u64,
            updated: with(FileAction::Update).count() as u64,
            deleted: plan.deleted.len() as u64,
        },
        bytes: with(FileAction::Copy)
            .chain(with(FileAction::Update))
            .map(|file| file.size)
            .sum(),
    }
}

/// Whether a path or one of its directories is secret.
fn is_secret(path: &str) -> bool {
    path.split('/').any(|name| {
        let name = name.to_ascii_lowercase();
        SECRET_NAMES.contains(&name.as_str())
            || SECRET_PREFIXES.iter().any(|start| name.starts_with(start))
            || SECRET_SUFFIXES.iter().any(|end| name.ends_with(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_secret_wherever_they_lie() {
        for path in [
            ".env",
            "skills/x/.env",
            ".env.local",
            "prod.env",
            "auth.json",
            "AUTH.JSON",
            "context/server.key",
            "context/ca.PEM",
            "mcp-tokens/github.json",
            "secrets.json",
            "secrets.key",
            "skills/x/tokens.json",
            "skills/x/oauth_token.json",
            "context/id_rsa",
        ] {
            assert!(is_secret(path), "{path}");
        }
    }

    #[test]
    fn words_about_secrets_are_none() {
        for path in [
            "SOUL.md",
            "context/environment.md",
            "skills/keys/SKILL.md",
            "memories/tokens.md",
            "context/author.json",
        ] {
            assert!(!is_secret(path), "{path}");
        }
    }
}
