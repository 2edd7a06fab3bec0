//! Changes to several files, applied atomically.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use hermes_config::private_file::NewFileMode;
use similar::TextDiff;

use crate::tools::{
    ToolError,
    files::{path_access::PathRules, write_file::store_file},
};

/// Larger files cannot be changed.
const MAX_FILE_BYTES: u64 = 20_000_000;
const MAX_DIFF_CHARS: usize = 20_000;

pub(super) struct FileChanges {
    rules: PathRules,
    files: BTreeMap<PathBuf, FileChange>,
}

struct FileChange {
    /// The path as the model wrote it.
    shown: String,
    before: Option<FileContent>,
    after: Option<FileContent>,
}

#[derive(Clone)]
struct FileContent {
    text: String,
    permissions: Option<fs::Permissions>,
}

impl FileChanges {
    pub(super) fn new(map: PathRules) -> Self {
        Self {
            rules: map,
            files: BTreeMap::new(),
        }
    }

    /// Whether a file exists after the changes so far.
    pub(super) fn exists(&self, path: &Path) -> bool {
        self.files.get(path).map_or_else(
            || path.symlink_metadata().is_ok(),
            |change| change.after.is_some(),
        )
    }

    /// The text of a file after the changes so far.
    pub(super) fn read(&mut self, path: &Path, shown: &str) -> Result<String, ToolError> {
        if !self.files.contains_key(path) {
            let content = self.load(path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ToolError::new(format!("{shown} does not exist")),
                _ => ToolError::new(format!("{shown} cannot be read: {error}")),
            })?;
            let change = FileChange {
                shown: shown.to_owned(),
                before: Some(content.clone()),
                after: Some(content),
            };
            self.files.insert(path.to_path_buf(), change);
        }
        let content = self
            .files
            .get(path)
            .and_then(|change| change.after.as_ref());
        content
            .map(|content| content.text.clone())
            .ok_or_else(|| ToolError::new(format!("{shown} does not exist")))
    }

    fn load(&self, path: &Path) -> io::Result<FileContent> {
        let file = self.rules.open(path)?;
        let metadata = file.metadata()?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(io::Error::other("it is larger than 20 MB"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        let text =
            String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))?;
        Ok(FileContent {
            text,
            permissions: Some(metadata.permissions()),
        })
    }

    pub(super) fn write(&mut self, path: PathBuf, shown: &str, text: String) {
        let permissions = self.permissions(&path);
        self.set(path, shown, Some(FileContent { text, permissions }));
    }

    pub(super) fn delete(&mut self, path: PathBuf, shown: &str) {
        self.set(path, shown, None);
    }

    pub(super) fn rename(
        &mut self,
        from: PathBuf,
        from_shown: &str,
        to: PathBuf,
        to_shown: &str,
        text: String,
    ) {
        let permissions = self.permissions(&from);
        self.set(from, from_shown, None);
        self.set(to, to_shown, Some(FileContent { text, permissions }));
    }

    fn permissions(&self, path: &Path) -> Option<fs::Permissions> {
        self.files.get(path)?.after.as_ref()?.permissions.clone()
    }

    fn set(&mut self, path: PathBuf, shown: &str, after: Option<FileContent>) {
        let new = || FileChange {
            shown: shown.to_owned(),
            before: None,
            after: None,
        };
        self.files.entry(path).or_insert_with(new).after = after;
    }

    /// One line per changed file.
    pub(super) fn summary(&self) -> String {
        let lines = self.files.values().filter_map(|change| {
            let verb = match (&change.before, &change.after) {
                (None, Some(_)) => "Added",
                (Some(_), None) => "Deleted",
                (Some(_), Some(_)) => "Updated",
                (None, None) => return None,
            };
            Some(format!("{verb} {}", change.shown))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Applies the changes. If one fails, the earlier ones are rolled back.
    pub(super) fn commit(self) -> Result<String, ToolError> {
        let mut done: Vec<(&PathBuf, &FileChange)> = Vec::new();
        for (path, change) in &self.files {
            if let Err(error) = write_content(path, change.after.as_ref()) {
                let mut lost = Vec::new();
                for (path, change) in done.iter().rev() {
                    if let Err(error) = write_content(path, change.before.as_ref()) {
                        lost.push(format!("{}: {error}", change.shown));
                    }
                }
                let state = if lost.is_empty() {
                    "nothing was changed".to_owned()
                } else {
                    format!("these could not be put back: {}", lost.join("; "))
                };
                return Err(ToolError::new(format!(
                    "{} cannot be written: {error}; {state}",
                    change.shown
                )));
            }
            done.push((path, change));
        }
        Ok(self.diff())
    }

    fn diff(&self) -> String {
        let mut diff = String::new();
        for change in self.files.values() {
            let text = |content: &Option<FileContent>| {
                content
                    .as_ref()
                    .map_or("", |content| &*content.text)
                    .to_owned()
            };
            let name = |content: &Option<FileContent>, side| match content {
                Some(_) => format!("{side}/{}", change.shown.trim_start_matches('/')),
                None => "/dev/null".to_owned(),
            };
            let (before, after) = (text(&change.before), text(&change.after));
            let lines = TextDiff::from_lines(&before, &after);
            let (old, new) = (name(&change.before, 'a'), name(&change.after, 'b'));
            diff.push_str(
                &lines
                    .unified_diff()
                    .context_radius(3)
                    .header(&old, &new)
                    .to_string(),
            );
        }
        match diff.char_indices().nth(MAX_DIFF_CHARS) {
            Some((end, _)) => format!("{}\n[diff cut]", &diff[..end]),
            None => diff,
        }
    }
}

/// Writes this content to a file, or removes it.
fn write_content(path: &Path, content: Option<&FileContent>) -> io::Result<()> {
    let Some(content) = content else {
        return match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
    };
    store_file(path, content.text.as_bytes(), NewFileMode::Ordinary)?;
    match &content.permissions {
        Some(permissions) => fs::set_permissions(path, permissions.clone()),
        None => Ok(()),
    }
}
