//! Showing a skill: its instructions, and its files by relative path.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use hermes_config::beneath::{
    DIRECTORY_FLAGS, READ_FLAGS, SymlinkPolicy, open_beneath, open_directory,
};
use rustix::fs::{AtFlags, Dir, FileType, Mode, statat};

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
        if let Ok(directory) = File::open(&skill.directory).map(OwnedFd::from) {
            for support in SUPPORT_DIRS {
                let links = SymlinkPolicy::Follow;
                let opened =
                    open_beneath(&directory, support, DIRECTORY_FLAGS, Mode::empty(), links);
                if let Ok(inside) = opened {
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
        read_beneath(&skill, path).map_err(|source| SkillError::NoSuchFile {
            name: skill.name,
            path: path.into(),
            source,
        })
    }
}

fn read_beneath(skill: &Skill, path: &str) -> io::Result<String> {
    let directory = File::open(&skill.directory)?;
    let links = SymlinkPolicy::Follow;
    let mut file = File::from(open_beneath(
        directory,
        path,
        READ_FLAGS,
        Mode::empty(),
        links,
    )?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Real files only: what a link leads to may be anywhere.
fn list_files(directory: &OwnedFd, prefix: &str, files: &mut Vec<String>) {
    for entry in Dir::read_from(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        if shown.starts_with('.') || shown == "__pycache__" {
            continue;
        }
        let path = format!("{prefix}/{shown}");
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
            Ok(FileType::RegularFile) => files.push(path),
            Ok(FileType::Directory) => {
                if let Ok(inside) = open_directory(directory, name) {
                    list_files(&inside, &path, files);
                }
            }
            _ => {}
        }
    }
}
