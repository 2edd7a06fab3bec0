//! A tenant's skills: listing them, reading their files, and enabling them.

use std::{collections::BTreeMap, path::Path};

use hermes_config::{ConfigFile, ConfigFileError, Home, Settings, SettingsError, Variables};
use hermes_store::skills::Skill;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::{TenantRef, directory_problem, run_blocking};
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    service::call::{Call, Reply},
    storage::{
        files::{
            EntryType, FileEntry, FileLimits, HomeDirectory, LineRange, SharePath, Workspace,
            problem_from_io,
        },
        state::{FileChange, TenantRecord},
    },
};

pub(crate) mod install;
pub(crate) mod library;
pub(crate) mod package;

const NO_CATEGORY: &str = "-";
const MAX_FILES: usize = 2000;
const MAX_FILE_DEPTH: usize = 8;
/// Deeper than any sensible collection of skills.
const MAX_SKILL_DEPTH: usize = 6;
const CONFIG_FILE: &str = "config.yaml";
/// More than a file of a skill that was installed through the Hub has.
const MAX_COMPARED_BYTES: u64 = 9 << 20;

/// A skill.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillSummary {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) enabled: bool,
    pinned: bool,
    version: Option<String>,
    file_count: usize,
}

/// Skills of one category.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillCategory {
    name: String,
    skills: Vec<SkillSummary>,
}

/// All skills of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillList {
    categories: Vec<SkillCategory>,
}

/// A skill of a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The skill's category; `-` for one that has none.
    category: String,
    /// The skill's name.
    skill: String,
}

/// A file of a skill.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillFile {
    path: String,
    size: u64,
    modified_at: String,
}

/// Files of a skill.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillFiles {
    files: Vec<SkillFile>,
}

/// A file of a tenant's skills.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillFileRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// A path that `list_tenant_skill_files` lists.
    path: String,
}

/// A file's text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillFileText {
    path: String,
    content: String,
    encoding: &'static str,
    size: u64,
    etag: String,
}

/// A change of a skill.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetSkillState {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The skill's name.
    skill: String,
    /// Whether it is offered.
    enabled: bool,
    /// Whether the agent may not change it.
    pinned: Option<bool>,
}

/// A skill with its category and its directory below `skills`.
pub(crate) struct FoundSkill {
    pub(super) summary: SkillSummary,
    pub(super) category: String,
    directory: String,
}

pub(crate) async fn list(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let mut categories: BTreeMap<String, Vec<SkillSummary>> = BTreeMap::new();
    for skill in scan_skills(&call.hub, call.tenant()?).await? {
        categories
            .entry(skill.category)
            .or_default()
            .push(skill.summary);
    }
    let categories = categories
        .into_iter()
        .map(|(name, skills)| SkillCategory { name, skills })
        .collect();
    Reply::json(&SkillList { categories })
}

pub(crate) async fn files(call: Call, input: SkillRef) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let skills = scan_skills(&call.hub, record).await?;
    let skill = skills
        .into_iter()
        .find(|skill| skill.category == input.category && skill.summary.name == input.skill);
    let skill = skill.ok_or_else(|| skill_not_found(&input.skill))?;
    let tree = open_skills(&call.hub, record).await?;
    let files = walk_files(&tree, &skill.directory).await?;
    let files = files
        .into_iter()
        .map(|entry| SkillFile {
            path: entry.path,
            size: entry.size,
            modified_at: entry.modified_at,
        })
        .collect();
    Reply::json(&SkillFiles { files })
}

pub(crate) async fn read_file(call: Call, input: SkillFileRef) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let tree = open_skills(&call.hub, call.tenant()?).await?;
    let text = tree.read(&path, LineRange::default()).await?;
    if text.truncated {
        return Err(Problem::new(
            ProblemCode::PayloadTooLarge,
            "the file is larger than may be read at once (`limits.read_bytes`)",
        ));
    }
    let etag = text.etag.clone();
    let shown = SkillFileText {
        path: text.path,
        content: text.content,
        encoding: "utf-8",
        size: text.size,
        etag: text.etag,
    };
    Ok(Reply::json(&shown)?.etag(etag))
}

pub(crate) async fn set_state(call: Call, input: SetSkillState) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let skills = scan_skills(&call.hub, record).await?;
    let mut skill = skills
        .into_iter()
        .find(|skill| skill.summary.name == input.skill)
        .ok_or_else(|| skill_not_found(&input.skill))?;
    let home = call.hub.home(record);
    let (name, enabled, pinned) = (input.skill, input.enabled, input.pinned);
    let change = FileChange::Home {
        tenant: record.id.clone(),
    };
    super::run_recorded(
        &call,
        change,
        run_blocking(move || write_skill_lists(&home, &name, enabled, pinned)),
    )
    .await?;
    skill.summary.enabled = enabled;
    skill.summary.pinned = pinned.unwrap_or(skill.summary.pinned);
    // Before the reply, so that a run started after it uses the new settings.
    call.hub.push_settings_now(&record.id).await;
    Reply::json(&skill.summary)
}

/// The names of all skills, disabled ones too.
pub(crate) async fn skill_names(
    call: &Call,
    record: &TenantRecord,
) -> Result<Vec<String>, Problem> {
    let skills = scan_skills(&call.hub, record).await?;
    Ok(skills.into_iter().map(|skill| skill.summary.name).collect())
}

/// The files of an installed skill, by their paths in it; `None` if there is none of that name.
pub(crate) async fn installed_files(
    call: &Call,
    record: &TenantRecord,
    name: &str,
) -> Result<Option<BTreeMap<SharePath, Vec<u8>>>, Problem> {
    let skills = scan_skills(&call.hub, record).await?;
    let Some(skill) = skills.into_iter().find(|skill| skill.summary.name == name) else {
        return Ok(None);
    };
    let tree = open_skills(&call.hub, record).await?;
    let mut files = BTreeMap::new();
    for entry in walk_files(&tree, &skill.directory).await? {
        let mut download = tree.download(&SharePath::parse(&entry.path)?, None).await?;
        let mut content = Vec::new();
        let most = download.length.min(MAX_COMPARED_BYTES);
        (&mut download.file)
            .take(most)
            .read_to_end(&mut content)
            .await
            .map_err(|error| Problem::internal(&error))?;
        let below = entry.path[skill.directory.len()..].trim_start_matches('/');
        files.insert(SharePath::parse(below)?, content);
    }
    Ok(Some(files))
}

fn skill_not_found(name: &str) -> Problem {
    Problem::not_found(format!(
        "there is no skill `{}`",
        name.chars().take(80).collect::<String>()
    ))
}

fn write_skill_lists(
    home: &Home,
    name: &str,
    enabled: bool,
    pinned: Option<bool>,
) -> Result<(), Problem> {
    let directory =
        HomeDirectory::open_home(home.path()).map_err(|error| Problem::internal(&error))?;
    let text = directory.read_settings(CONFIG_FILE).map_err(|error| {
        if error.kind() == std::io::ErrorKind::FileTooLarge {
            return Problem::precondition(format!(
                "the tenant's `config.yaml` is damaged: {}; fix the file first",
                hermes_config::config_too_long()
            ))
            .with_reason("config_damaged");
        }
        tracing::warn!(%error, "failed to read a tenant's configuration");
        Problem::precondition(
            "the tenant's `config.yaml` is a link or not text, and the Hub does not follow links there; put a file in its place",
        )
        .with_reason("symlink")
    })?;
    let file = ConfigFile::with_text(home.config_file(), text.unwrap_or_default());
    let mut file = file.map_err(|error| config_problem(&error))?;
    let lists = [("disabled", Some(!enabled)), ("pinned", pinned)];
    for (key, wanted) in lists {
        let Some(wanted) = wanted else { continue };
        let before = string_list(file.get(&["skills", key]));
        let mut names: Vec<String> = before
            .iter()
            .filter(|known| *known != name)
            .cloned()
            .collect();
        if wanted {
            names.push(name.to_owned());
        }
        if names != before {
            file.change(&["skills", key], &json!(names));
        }
    }
    let text = file
        .checked_text()
        .map_err(|error| config_problem(&error))?;
    let path = SharePath::parse(CONFIG_FILE)?;
    directory
        .replace(CONFIG_FILE, text.as_bytes())
        .map_err(|error| problem_from_io(&error, &path))
}

fn config_problem(error: &ConfigFileError) -> Problem {
    match error {
        ConfigFileError::Malformed(SettingsError::Malformed {
            line,
            column,
            reason,
            ..
        }) => Problem::precondition(format!(
            "the tenant's `config.yaml` is damaged in line {line}, column {column}: {reason}; fix the file first"
        ))
        .with_reason("config_damaged"),
        ConfigFileError::NotEditable { key, .. } => Problem::precondition(format!(
            "`{key}` of the tenant's `config.yaml` cannot be changed from here; edit the file by hand"
        ))
        .with_reason("config_not_editable"),
        ConfigFileError::Io { .. } | ConfigFileError::Malformed(_) => Problem::internal(error),
    }
}

fn string_list(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// The skills in the home itself, disabled ones too, by category and name. Directories from its configuration are
/// ignored: they could be anywhere. Links are not followed.
pub(super) async fn scan_skills(
    hub: &Hub,
    record: &TenantRecord,
) -> Result<Vec<FoundSkill>, Problem> {
    let Ok(tree) = open_skills(hub, record).await else {
        return Ok(Vec::new());
    };
    let home = hub.home(record);
    let (disabled, pinned) = run_blocking(move || Ok(read_skill_lists(&home))).await?;
    let mut skills: Vec<FoundSkill> = Vec::new();
    for (skill, directory) in find_skills(&tree).await? {
        if skills.iter().any(|known| known.summary.name == skill.name) {
            continue;
        }
        let version = skill
            .frontmatter
            .get("version")
            .map(|version| match version {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
        skills.push(FoundSkill {
            summary: SkillSummary {
                enabled: !disabled.contains(&skill.name),
                pinned: pinned.contains(&skill.name),
                file_count: walk_files(&tree, &directory).await?.len(),
                name: skill.name,
                description: skill.description,
                version,
            },
            category: skill.category.unwrap_or_else(|| NO_CATEGORY.into()),
            directory,
        });
    }
    skills.sort_by(|a, b| (&a.category, &a.summary.name).cmp(&(&b.category, &b.summary.name)));
    Ok(skills)
}

/// The disabled and pinned skills of a home's configuration.
fn read_skill_lists(home: &Home) -> (Vec<String>, Vec<String>) {
    let text = HomeDirectory::open_home(home.path())
        .ok()
        .and_then(|directory| directory.read_settings(CONFIG_FILE).ok().flatten());
    let nothing = Variables::from_pairs::<String, String>([]);
    let settings = Settings::parse(&text.unwrap_or_default(), nothing);
    let document = settings.map_or(Value::Null, |settings| settings.document);
    (
        string_list(document.pointer("/skills/disabled")),
        string_list(document.pointer("/skills/pinned")),
    )
}

/// All skills for this platform, with their directories.
async fn find_skills(tree: &Workspace) -> Result<Vec<(Skill, String)>, Problem> {
    let mut skills = Vec::new();
    let mut ahead = vec![(SharePath::root(), 0)];
    while let Some((path, depth)) = ahead.pop() {
        // Entries removed since are left out.
        let Ok(listing) = tree.list(&path).await else {
            continue;
        };
        let is_file = |entry: &&FileEntry| {
            entry.name == "SKILL.md" && entry.entry_type == EntryType::File && depth > 0
        };
        let head = listing.entries.iter().find(is_file);
        if let Some(head) = head
            && let Ok(text) = tree
                .read(&SharePath::parse(&head.path)?, LineRange::default())
                .await
        {
            let directory = path.as_str().to_owned();
            let skill = Skill::parse(&text.content, Path::new(&directory));
            let skill = skill.filter(Skill::is_for_this_system);
            skills.extend(skill.map(|skill| (skill, directory)));
        }
        let inside = listing.entries.iter().rev().filter(|entry| {
            entry.entry_type == EntryType::Dir
                && Skill::may_be_in(&entry.name, head.is_some())
                && depth < MAX_SKILL_DEPTH
        });
        for entry in inside {
            ahead.push((SharePath::parse(&entry.path)?, depth + 1));
        }
    }
    Ok(skills)
}

async fn open_skills(hub: &Hub, record: &TenantRecord) -> Result<Workspace, Problem> {
    let home = hub.home(record);
    let limits = FileLimits {
        list_entries: MAX_FILES,
        ..hub.file_limits()
    };
    let open = move || Workspace::open(home.path(), "skills", limits);
    run_blocking(move || open().map_err(|error| directory_problem(&error, "skills"))).await
}

async fn walk_files(tree: &Workspace, directory: &str) -> Result<Vec<FileEntry>, Problem> {
    let mut files = Vec::new();
    let mut ahead = vec![(SharePath::parse(directory)?, 0)];
    while let Some((path, depth)) = ahead.pop() {
        for entry in tree.list(&path).await?.entries {
            match entry.entry_type {
                EntryType::File if files.len() < MAX_FILES => files.push(entry),
                EntryType::Dir if depth < MAX_FILE_DEPTH => {
                    ahead.push((SharePath::parse(&entry.path)?, depth + 1));
                }
                _ => {}
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
