//! A skill as it is handed in: its files, checked against the rules of the Agent Skills format, and as one archive.

use std::collections::BTreeMap;

use hermes_store::skills::{Skill, SkillFault};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Problem, ProblemCode,
    service::workspace::file_content,
    storage::{
        files::{ArchiveEntry, ArchiveLimits, SharePath, TreeUsage, read_archive},
        state::NewLibrarySkill,
    },
};

const HEAD_FILE: &str = "SKILL.md";
const MAX_HEAD_BYTES: usize = 256 << 10;
const LIMITS: ArchiveLimits = ArchiveLimits::OF_SKILL;
const COMPRESSION_LEVEL: i32 = 9;

/// A file of a skill that is handed in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSkillFile {
    /// Relative to the skill's directory.
    path: String,
    /// Its text.
    content: Option<String>,
    /// Its bytes in base64, instead of a text.
    content_base64: Option<String>,
}

/// A skill that keeps the rules.
pub(crate) struct SkillPackage {
    pub(crate) name: String,
    description: String,
    version: Option<String>,
    files: BTreeMap<SharePath, Vec<u8>>,
}

impl SkillPackage {
    pub(crate) fn from_files(name: &str, files: Vec<NewSkillFile>) -> Result<Self, Problem> {
        let mut unpacked = BTreeMap::new();
        for file in files {
            let path = SharePath::parse(&file.path)?;
            let content = file_content(file.content, file.content_base64.as_deref())?;
            if path.is_root() {
                return Err(Problem::invalid("a file needs a name").with_detail("path", "empty"));
            }
            if unpacked.insert(path, content.to_vec()).is_some() {
                return Err(
                    Problem::invalid(format!("the file `{}` is there twice", file.path))
                        .with_detail("path", "twice"),
                );
            }
        }
        Self::check(name, unpacked)
    }

    /// Of an archive with the skill's files, or with one directory that has them.
    pub(crate) fn from_archive(name: &str, archive: &[u8]) -> Result<Self, Problem> {
        let mut files = BTreeMap::new();
        read_archive(archive, LIMITS, |entry| {
            if let ArchiveEntry::File(path, _, content) = entry {
                let mut bytes = Vec::new();
                content.read_to_end(&mut bytes).map_err(|error| {
                    Problem::invalid(format!("the archive is damaged: {error}"))
                        .with_reason("archive_damaged")
                })?;
                files.insert(path, bytes);
            }
            Ok(())
        })?;
        Self::check(name, strip_directory(files)?)
    }

    fn check(name: &str, files: BTreeMap<SharePath, Vec<u8>>) -> Result<Self, Problem> {
        hermes_store::skills::check_name(name).map_err(|fault| rule_problem(&fault))?;
        let bytes: u64 = files.values().map(|content| content.len() as u64).sum();
        if files.len() > LIMITS.entries || bytes > LIMITS.bytes {
            return Err(Problem::new(
                ProblemCode::PayloadTooLarge,
                format!(
                    "a skill has at most {} files with {} bytes in all, and this has {} with {bytes}",
                    LIMITS.entries,
                    LIMITS.bytes,
                    files.len()
                ),
            )
            .with_reason("skill_too_large"));
        }
        let paths: Vec<&SharePath> = files.keys().collect();
        for pair in paths.windows(2) {
            if pair[1].is_within(pair[0]) {
                return Err(
                    Problem::invalid(format!("`{}` is a file and a directory", pair[0]))
                        .with_detail("path", "file and directory"),
                );
            }
        }
        let head = files.get(&SharePath::parse(HEAD_FILE)?);
        let head = head.ok_or_else(|| broken_rule("it has no `SKILL.md`"))?;
        if head.len() > MAX_HEAD_BYTES {
            return Err(broken_rule("its `SKILL.md` is larger than 256 KiB"));
        }
        let text = std::str::from_utf8(head)
            .map_err(|_| broken_rule("its `SKILL.md` is not UTF-8 text"))?;
        let skill = Skill::parse_checked(name, text).map_err(|fault| rule_problem(&fault))?;
        let version = skill
            .frontmatter
            .get("version")
            .map(|version| match version {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
        Ok(Self {
            name: skill.name,
            description: skill.description,
            version,
            files,
        })
    }

    pub(crate) fn usage(&self) -> TreeUsage {
        TreeUsage {
            bytes: self
                .files
                .values()
                .map(|content| content.len() as u64)
                .sum(),
            files: self.files.len() as u64 + 1,
        }
    }

    pub(crate) fn files(&self) -> &BTreeMap<SharePath, Vec<u8>> {
        &self.files
    }

    pub(crate) fn into_files(self) -> Vec<(SharePath, Vec<u8>)> {
        self.files.into_iter().collect()
    }

    pub(crate) fn into_library_skill(self) -> Result<NewLibrarySkill, Problem> {
        let archive = self.pack().map_err(|error| Problem::internal(&error))?;
        Ok(NewLibrarySkill {
            files: self.files.len() as u64,
            bytes: self.usage().bytes,
            name: self.name,
            description: self.description,
            version: self.version,
            archive,
        })
    }

    fn pack(&self) -> std::io::Result<Vec<u8>> {
        let encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL)?;
        let mut builder = tar::Builder::new(encoder);
        for (path, content) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path.as_str(), &**content)?;
        }
        builder.into_inner()?.finish()
    }
}

/// Without the one directory that all files are in.
fn strip_directory(
    files: BTreeMap<SharePath, Vec<u8>>,
) -> Result<BTreeMap<SharePath, Vec<u8>>, Problem> {
    let head = SharePath::parse(HEAD_FILE)?;
    let Some(first) = files.keys().next() else {
        return Ok(files);
    };
    let top = first.segments().next().unwrap_or_default().to_owned();
    let above = SharePath::parse(&top)?;
    let is_below = |path: &SharePath| path.is_within(&above) && *path != above;
    if files.contains_key(&head) || !files.keys().all(is_below) {
        return Ok(files);
    }
    files
        .into_iter()
        .map(|(path, content)| Ok((SharePath::parse(&path.as_str()[top.len() + 1..])?, content)))
        .collect()
}

fn rule_problem(fault: &SkillFault) -> Problem {
    broken_rule(&fault.to_string())
}

fn broken_rule(reason: &str) -> Problem {
    Problem::new(
        ProblemCode::Unprocessable,
        format!("the skill is refused: {reason}"),
    )
    .with_reason("skill_rules")
    .with_detail("skill", reason)
}
