//! A tenant's skills: what there is, their files, and which are on.

use std::{collections::BTreeMap, path::PathBuf};

use hermes_config::{ConfigFile, Home, Settings, Variables};
use hermes_store::skills::Skills;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{OfTenant, blocking, not_opened};
use crate::{
    Code, Hub, Problem, TenantId,
    call::{Call, Reply},
    files::{EntryType, FileEntry, FileLimits, Lines, SharePath, Workspace},
    state::TenantRecord,
};

/// The category of skills that have none.
const NO_CATEGORY: &str = "-";
/// Files of one skill that are listed.
const MOST_FILES: usize = 2000;
const DEEPEST: usize = 8;

/// A skill.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillShape {
    name: String,
    description: String,
    enabled: bool,
    pinned: bool,
    version: Option<String>,
    file_count: usize,
}

/// Skills of one category.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Category {
    name: String,
    skills: Vec<SkillShape>,
}

/// All skills of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillList {
    categories: Vec<Category>,
}

/// A skill of a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfSkill {
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
pub(crate) struct OfSkillFile {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// A path that `list_tenant_skill_files` gave.
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

/// What to change of a skill.
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
    /// Whether it is kept as it is.
    pinned: Option<bool>,
}

/// What was found of a skill: its shape, its category, its directory beneath `skills`.
struct Found {
    shape: SkillShape,
    category: String,
    directory: String,
}

pub(crate) async fn list(call: Call, _: OfTenant) -> Result<Reply, Problem> {
    let mut categories: BTreeMap<String, Vec<SkillShape>> = BTreeMap::new();
    for found in scan(&call.hub, call.tenant()?).await? {
        categories
            .entry(found.category)
            .or_default()
            .push(found.shape);
    }
    let categories = categories
        .into_iter()
        .map(|(name, skills)| Category { name, skills })
        .collect();
    Reply::json(&SkillList { categories })
}

pub(crate) async fn files(call: Call, input: OfSkill) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let found = scan(&call.hub, record).await?;
    let found = found
        .into_iter()
        .find(|found| found.category == input.category && found.shape.name == input.skill);
    let found = found.ok_or_else(|| no_skill(&input.skill))?;
    let tree = open(&call.hub, record).await?;
    let files = walk(&tree, &found.directory).await?;
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

pub(crate) async fn read_file(call: Call, input: OfSkillFile) -> Result<Reply, Problem> {
    let path = SharePath::parse(&input.path)?;
    let tree = open(&call.hub, call.tenant()?).await?;
    let text = tree.read(&path, Lines::default()).await?;
    if text.truncated {
        return Err(Problem::new(
            Code::PayloadTooLarge,
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
    let found = scan(&call.hub, record).await?;
    let mut found = found
        .into_iter()
        .find(|found| found.shape.name == input.skill)
        .ok_or_else(|| no_skill(&input.skill))?;
    let home = call.hub.home(record);
    let (name, enabled, pinned) = (input.skill, input.enabled, input.pinned);
    super::recorded(&call, blocking(move || set(&home, &name, enabled, pinned))).await?;
    found.shape.enabled = enabled;
    found.shape.pinned = pinned.unwrap_or(found.shape.pinned);
    call.hub.settings_changed(&record.id);
    Reply::json(&found.shape)
}

fn no_skill(name: &str) -> Problem {
    Problem::not_found(format!(
        "there is no skill `{}`",
        name.chars().take(80).collect::<String>()
    ))
}

/// Writes the lists of a home's configuration.
fn set(home: &Home, name: &str, enabled: bool, pinned: Option<bool>) -> Result<(), Problem> {
    if home.config_file().is_symlink() {
        return Err(Problem::precondition(
            "the tenant's `config.yaml` is a link, which the Hub does not follow; put a file in its place",
        )
        .because("symlink"));
    }
    let mut file = ConfigFile::open(home).map_err(|error| Problem::internal(&error))?;
    let lists = [("disabled", Some(!enabled)), ("pinned", pinned)];
    for (key, wanted) in lists {
        let Some(wanted) = wanted else { continue };
        let before = texts(file.get(&["skills", key]));
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
    file.save().map_err(|error| Problem::internal(&error))
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// The skills in the home itself, those that are off too. Directories that its configuration adds are left out: they
/// could lead anywhere, and so are links that lead out.
async fn scan(hub: &Hub, record: &TenantRecord) -> Result<Vec<Found>, Problem> {
    let home = hub.home(record);
    let found = blocking(move || {
        let (variables, warnings) = Variables::of_home(&home, []);
        let settings = Settings::load_with(&home, variables, warnings);
        let document = settings.map_or(Value::Null, |settings| settings.document);
        let (disabled, pinned) = (
            texts(document.pointer("/skills/disabled")),
            texts(document.pointer("/skills/pinned")),
        );
        let plain = Settings::parse("", Variables::from_pairs::<String, String>([]))
            .map_err(|error| Problem::internal(&error))?;
        let root = home.path().join("skills");
        // It could lead to the skills of somebody else.
        if root.is_symlink() {
            return Ok(Vec::new());
        }
        let Ok(root) = root.canonicalize() else {
            return Ok(Vec::new());
        };
        let inside = |directory: PathBuf| {
            let real = directory.canonicalize().ok()?;
            Some(real.strip_prefix(&root).ok()?.to_str()?.to_owned())
        };
        let skills = Skills::new(&home, &plain).list();
        let found = skills.into_iter().filter_map(|skill| {
            let directory = inside(skill.directory)?;
            let version = skill
                .frontmatter
                .get("version")
                .map(|version| match version {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
            let shape = SkillShape {
                enabled: !disabled.contains(&skill.name),
                pinned: pinned.contains(&skill.name),
                name: skill.name,
                description: skill.description,
                version,
                file_count: 0,
            };
            Some(Found {
                shape,
                category: skill.category.unwrap_or_else(|| NO_CATEGORY.into()),
                directory,
            })
        });
        Ok(found.collect::<Vec<_>>())
    });
    let mut found = found.await?;
    if !found.is_empty() {
        let tree = open(hub, record).await?;
        for skill in &mut found {
            skill.shape.file_count = walk(&tree, &skill.directory).await?.len();
        }
    }
    Ok(found)
}

async fn open(hub: &Hub, record: &TenantRecord) -> Result<Workspace, Problem> {
    let home = hub.home(record);
    let limits = FileLimits {
        list_entries: MOST_FILES,
        ..hub.file_limits()
    };
    let open = move || Workspace::open(home.path(), "skills", limits);
    blocking(move || open().map_err(|error| not_opened(&error, "skills"))).await
}

/// All files beneath a directory, by path.
async fn walk(tree: &Workspace, directory: &str) -> Result<Vec<FileEntry>, Problem> {
    let mut files = Vec::new();
    let mut ahead = vec![(SharePath::parse(directory)?, 0)];
    while let Some((path, depth)) = ahead.pop() {
        for entry in tree.list(&path).await?.entries {
            match entry.entry_type {
                EntryType::File if files.len() < MOST_FILES => files.push(entry),
                EntryType::Dir if depth < DEEPEST => {
                    ahead.push((SharePath::parse(&entry.path)?, depth + 1));
                }
                _ => {}
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
