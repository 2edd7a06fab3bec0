//! Showing a skill: its instructions, and its files by relative path.

use std::io;

use cap_std::{
    ambient_authority,
    fs::{Dir, DirEntry},
};

use super::{SUPPORT_DIRS, Skill, SkillError, Skills, frontmatter};

/// A skill's instructions and what else there is to read.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillView {
    pub skill: Skill,
    /// What stands below its head.
    pub body: String,
    /// The files in its support directories, as paths to ask for.
    pub files: Vec<String>,
}

impl Skills {
    /// A skill's instructions.
    pub fn view(&self, name: &str) -> Result<SkillView, SkillError> {
        let skill = self.find(name)?;
        let text = self.view_file(name, "SKILL.md")?;
        let (_, body) = frontmatter::split_frontmatter(&text);
        let body = body.trim_start_matches('\n').to_owned();
        let mut files = Vec::new();
        if let Ok(directory) = open_skill_dir(&skill) {
            for support in SUPPORT_DIRS {
                if let Ok(inside) = directory.open_dir(support) {
                    list_files(&inside, support, &mut files);
                }
            }
        }
        files.sort();
        Ok(SkillView { skill, body, files })
    }

    /// A text file of a skill. Nothing outside its directory can be reached.
    pub fn view_file(&self, name: &str, path: &str) -> Result<String, SkillError> {
        let skill = self.find(name)?;
        open_skill_dir(&skill)
            .and_then(|directory| directory.read_to_string(path))
            .map_err(|source| SkillError::NoSuchFile {
                name: skill.name,
                path: path.into(),
                source,
            })
    }
}

fn open_skill_dir(skill: &Skill) -> io::Result<Dir> {
    Dir::open_ambient_dir(&skill.directory, ambient_authority())
}

/// Real files only: what a link leads to may be anywhere.
fn list_files(directory: &Dir, prefix: &str, files: &mut Vec<String>) {
    let entries = directory.entries().into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "__pycache__" {
            continue;
        }
        let path = format!("{prefix}/{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_file() => files.push(path),
            Ok(kind) if kind.is_dir() => {
                if let Ok(inside) = DirEntry::open_dir(&entry) {
                    list_files(&inside, &path, files);
                }
            }
            _ => {}
        }
    }
}
