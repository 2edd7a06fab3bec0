//! Skills: instructions with files beside them, in the home and in directories the user adds.
//!
//! `skills/<skill>/SKILL.md` or `skills/<category>/<skill>/SKILL.md`. Files of a skill are opened through a handle
//! on its directory, so that no path and no link leads out of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use hermes_config::{Home, Settings};
use serde_json::{Map, Value};

mod check;
mod frontmatter;
mod view;

pub use check::{SkillFault, check_name};
pub use view::SkillView;

/// Directories inside a skill that hold its files, not other skills.
const SUPPORT_DIRS: &[&str] = &["references", "templates", "assets", "scripts"];
/// Directories of tools, never looked into.
const IGNORED_DIRS: &[&str] = &["venv", "node_modules", "site-packages", "__pycache__"];
/// Maximum depth of directories.
const MAX_DEPTH: usize = 6;
const MAX_NAME_LENGTH: usize = 64;
const MAX_DESCRIPTION_LENGTH: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// The directory it is filed under.
    pub category: Option<String>,
    pub directory: PathBuf,
    /// Everything its head says: `version`, `license`, `platforms`, `prerequisites`, `metadata`, …
    pub frontmatter: Map<String, Value>,
}

/// Why a skill or one of its files cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// There is none of that name.
    #[error("there is no skill `{name}`")]
    NoSuchSkill {
        /// What was asked for.
        name: String,
    },
    /// `skills.disabled` names it.
    #[error("the skill `{name}` is disabled in config.yaml")]
    Disabled {
        /// What was asked for.
        name: String,
    },
    /// The path leads out of the skill's directory, or nowhere.
    #[error("the skill `{name}` has no file `{path}`: {source}")]
    NoSuchFile {
        /// The skill.
        name: String,
        /// What was asked for.
        path: String,
        source: io::Error,
    },
}

/// A home's skills.
#[derive(Debug, Clone)]
pub struct Skills {
    /// The home's directory first: it wins where names are equal.
    roots: Vec<PathBuf>,
    disabled: Vec<String>,
}

impl Skills {
    /// The skills of a home, with the directories and the exceptions its configuration names.
    pub fn new(home: &Home, settings: &Settings) -> Self {
        let section = settings.document.get("skills");
        let mut roots = vec![home.path().join("skills")];
        for directory in string_list(section.and_then(|skills| skills.get("external_dirs"))) {
            // Relative to the home, unless it is absolute or the user's own directory.
            roots.push(home.path().join(expand_tilde(&directory)));
        }
        Self {
            roots,
            disabled: string_list(section.and_then(|skills| skills.get("disabled"))),
        }
    }

    /// The skills to be offered, by category and name. Those disabled or for other systems are left out.
    pub fn list(&self) -> Vec<Skill> {
        let mut skills: Vec<_> = self
            .scan()
            .into_iter()
            .filter(|skill| !self.is_disabled(skill))
            .collect();
        skills.sort_by(|a, b| (&a.category, &a.name).cmp(&(&b.category, &b.name)));
        skills
    }

    /// What a category is about, if somebody wrote that down.
    pub fn category_description(&self, category: &str) -> Option<String> {
        let name = Path::new(category);
        if name.components().count() != 1 || name.is_absolute() || category == ".." {
            return None;
        }
        self.roots.iter().find_map(|root| {
            let text = fs::read_to_string(root.join(name).join("DESCRIPTION.md")).ok()?;
            let (head, body) = frontmatter::split_frontmatter(&text);
            let described = head.get("description").and_then(Value::as_str);
            let text = described.unwrap_or(body).trim();
            (!text.is_empty()).then(|| text.chars().take(MAX_DESCRIPTION_LENGTH).collect())
        })
    }

    /// What the categories of these skills are about, by name, where somebody wrote that down.
    pub fn categories(&self, skills: &[Skill]) -> BTreeMap<String, String> {
        let names: BTreeSet<_> = skills.iter().filter_map(|it| it.category.clone()).collect();
        names
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.category_description(&name)?)))
            .collect()
    }

    /// The skill of that name, which may be given as `category/name`.
    pub fn find(&self, name: &str) -> Result<Skill, SkillError> {
        let is_it = |skill: &Skill| {
            let filed = skill
                .category
                .as_ref()
                .map(|category| format!("{category}/{}", skill.name));
            skill.name == name
                || filed.as_deref() == Some(name)
                || skill.directory.file_name() == Some(name.as_ref())
        };
        let skill = self
            .scan()
            .into_iter()
            .find(is_it)
            .ok_or_else(|| SkillError::NoSuchSkill { name: name.into() })?;
        if self.is_disabled(&skill) {
            return Err(SkillError::Disabled { name: name.into() });
        }
        Ok(skill)
    }

    fn is_disabled(&self, skill: &Skill) -> bool {
        self.disabled.contains(&skill.name)
    }

    /// Every skill for this system, the first of each name.
    fn scan(&self) -> Vec<Skill> {
        let mut found = Vec::new();
        for root in &self.roots {
            let mut walk = SkillWalk {
                root,
                visited: HashSet::new(),
                found: Vec::new(),
            };
            walk.visit(root, 0);
            found.append(&mut walk.found);
        }
        let mut names = HashSet::new();
        found.retain(|skill| skill.is_for_this_system() && names.insert(skill.name.clone()));
        found
    }
}

struct SkillWalk<'a> {
    root: &'a Path,
    /// Links may lead in a circle.
    visited: HashSet<PathBuf>,
    found: Vec<Skill>,
}

impl SkillWalk<'_> {
    fn visit(&mut self, directory: &Path, depth: usize) {
        let Ok(real) = directory.canonicalize() else {
            return;
        };
        if depth > MAX_DEPTH || !self.visited.insert(real) {
            return;
        }
        let is_skill = directory.join("SKILL.md").is_file() && depth > 0;
        if is_skill && let Some(skill) = self.read(directory) {
            self.found.push(skill);
        }
        let mut inside: Vec<PathBuf> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir())
            .collect();
        inside.sort();
        for path in inside {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if Skill::may_be_in(&name, is_skill) {
                self.visit(&path, depth + 1);
            }
        }
    }

    fn read(&self, directory: &Path) -> Option<Skill> {
        let text = fs::read_to_string(directory.join("SKILL.md"))
            .inspect_err(
                |error| tracing::warn!(directory = %directory.display(), %error, "failed to read a skill"),
            )
            .ok()?;
        let below = directory.strip_prefix(self.root).ok()?;
        let skill = Skill::parse(&text, below)?;
        Some(Skill {
            directory: directory.to_path_buf(),
            ..skill
        })
    }
}

impl Skill {
    /// Reads a skill from the text of its `SKILL.md`, which is in this directory below the root of all skills.
    pub fn parse(text: &str, directory: &Path) -> Option<Self> {
        let (head, _) = frontmatter::split_frontmatter(text);
        let said = |key: &str| head.get(key).and_then(Value::as_str).map(str::trim);
        let folder = directory.file_name()?.to_string_lossy();
        let name = said("name")
            .filter(|name| !name.is_empty())
            .unwrap_or(&folder);
        let mut above = directory.components();
        let category = (directory.components().count() > 1)
            .then(|| above.next())
            .flatten()
            .map(|first| first.as_os_str().to_string_lossy().into_owned());
        Some(Self {
            name: name.chars().take(MAX_NAME_LENGTH).collect(),
            description: said("description")
                .unwrap_or_default()
                .chars()
                .take(MAX_DESCRIPTION_LENGTH)
                .collect(),
            category,
            directory: directory.to_path_buf(),
            frontmatter: head,
        })
    }

    /// Whether a directory may hold skills; one inside a skill may hold its files instead.
    pub fn may_be_in(name: &str, is_in_skill: bool) -> bool {
        !(name.starts_with('.')
            || IGNORED_DIRS.contains(&name)
            || (is_in_skill && SUPPORT_DIRS.contains(&name)))
    }

    /// A skill that names systems is for those only.
    pub fn is_for_this_system(&self) -> bool {
        let systems = string_list(self.frontmatter.get("platforms"));
        systems.is_empty()
            || systems
                .iter()
                .any(|system| system.eq_ignore_ascii_case(std::env::consts::OS))
    }
}

/// A list of texts; a single one counts as a list.
fn string_list(value: Option<&Value>) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(|text| text.trim().to_owned());
    match value {
        Some(Value::Array(items)) => items.iter().filter_map(text).collect(),
        Some(other) => text(other).into_iter().collect(),
        None => Vec::new(),
    }
    .into_iter()
    .filter(|text| !text.is_empty())
    .collect()
}

fn expand_tilde(path: &str) -> PathBuf {
    match (Path::new(path).strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(directory)) => directory.join(rest),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests;
