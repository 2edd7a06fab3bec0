//! Changes files of groups. Each write names the version that was read, so that no concurrent change is lost; if one
//! is refused, the earlier ones are rolled back.

use std::collections::BTreeMap;

use similar::TextDiff;

use super::{GroupPath, Teams, ToolError};
use crate::tools::{
    arguments::ToolArguments,
    files::{patch, patch::PatchOperation},
    tool::ToolOutput,
};

#[derive(Default)]
struct ShareChange {
    before: Option<(String, String)>,
    after: Option<String>,
}

struct ShareDraft<'a> {
    teams: &'a Teams,
    files: BTreeMap<GroupPath, ShareChange>,
}

/// Whether a patch names a file of a group.
pub(super) fn patch_names_share(teams: &Teams, text: &str) -> bool {
    let operations = patch::parse_patch(text).unwrap_or_default();
    let mut paths = operations.iter().flat_map(PatchOperation::paths);
    paths.any(|path| teams.is_share_path(path))
}

pub(super) async fn patch_shares(
    teams: &Teams,
    arguments: &ToolArguments,
) -> Result<ToolOutput, ToolError> {
    let mut draft = ShareDraft {
        teams,
        files: BTreeMap::new(),
    };
    if arguments.required_choice("mode", &["replace", "patch"])? == "replace" {
        draft.replace(arguments).await?;
    } else {
        let text = arguments.required_text("patch")?;
        for operation in patch::parse_patch(&text).map_err(ToolError::new)? {
            draft.apply(operation).await?;
        }
    }
    draft.commit().await
}

impl ShareDraft<'_> {
    async fn replace(&mut self, arguments: &ToolArguments) -> Result<(), ToolError> {
        let path = arguments.required_text("path")?;
        let old = arguments.required_text("old_string")?;
        let new = arguments
            .text("new_string")?
            .ok_or_else(|| ToolError::new("`new_string` is required"))?;
        let every = arguments.flag("replace_all")?;
        let group_path = self.teams.share_file(&path)?;
        let text = self.text(&group_path).await?;
        let replaced = patch::replace_text(&text, &old, &new, every)
            .map_err(|problem| ToolError::new(format!("{path}: {problem}")))?;
        self.set(group_path, Some(replaced.content));
        Ok(())
    }

    async fn apply(&mut self, operation: PatchOperation) -> Result<(), ToolError> {
        match operation {
            PatchOperation::Add { path, content } => {
                let group_path = self.teams.share_file(&path)?;
                self.check_free(&group_path).await?;
                self.set(group_path, Some(content));
            }
            PatchOperation::Delete { path } => {
                let group_path = self.teams.share_file(&path)?;
                self.text(&group_path).await?;
                self.set(group_path, None);
            }
            PatchOperation::Update {
                path,
                move_to,
                hunks,
            } => {
                let group_path = self.teams.share_file(&path)?;
                let text = self.text(&group_path).await?;
                let text = patch::apply_hunks(&text, &hunks)
                    .map_err(|problem| ToolError::new(format!("{path}: {problem}")))?;
                match move_to
                    .map(|target| self.teams.share_file(&target))
                    .transpose()?
                {
                    Some(target) if target != group_path => {
                        self.check_free(&target).await?;
                        self.set(group_path, None);
                        self.set(target, Some(text));
                    }
                    _ => self.set(group_path, Some(text)),
                }
            }
        }
        Ok(())
    }

    async fn check_free(&self, path: &GroupPath) -> Result<(), ToolError> {
        let is_there = match self.files.get(path) {
            Some(change) => change.after.is_some(),
            None => self.teams.shares.exists(path).await?,
        };
        if is_there {
            return Err(ToolError::new(format!("{path} exists already")));
        }
        Ok(())
    }

    /// The text of a file after the changes so far.
    async fn text(&mut self, path: &GroupPath) -> Result<String, ToolError> {
        if !self.files.contains_key(path) {
            let text = self.teams.shares.read(path, 0, 0).await?;
            if text.next.is_some() {
                return Err(ToolError::new(format!("{path} is too large to be changed")));
            }
            let change = ShareChange {
                before: Some((text.content.clone(), text.version)),
                after: Some(text.content),
            };
            self.files.insert(path.clone(), change);
        }
        let after = self.files.get(path).and_then(|change| change.after.clone());
        after.ok_or_else(|| ToolError::new(format!("{path} does not exist")))
    }

    fn set(&mut self, path: GroupPath, after: Option<String>) {
        self.files.entry(path).or_default().after = after;
    }

    async fn commit(self) -> Result<ToolOutput, ToolError> {
        let mut done: Vec<(&GroupPath, &ShareChange)> = Vec::new();
        for (path, change) in &self.files {
            if let Err(problem) = self.write_change(path, change).await {
                let mut lost = Vec::new();
                for (path, change) in done.into_iter().rev() {
                    if self.revert_change(path, change).await.is_err() {
                        lost.push(path.to_string());
                    }
                }
                let state = if lost.is_empty() {
                    "nothing was changed".to_owned()
                } else {
                    format!("these could not be put back: {}", lost.join(", "))
                };
                return Err(ToolError::new(format!("{problem}; {state}")));
            }
            done.push((path, change));
        }
        Ok(ToolOutput::text(self.diff()))
    }

    async fn write_change(&self, path: &GroupPath, change: &ShareChange) -> Result<(), ToolError> {
        let shares = &self.teams.shares;
        match (&change.before, &change.after) {
            (before, Some(after)) => {
                let version = before.as_ref().map(|(_, version)| version.as_str());
                shares.write(path, after.clone(), version).await?;
            }
            (Some((_, version)), None) => shares.remove(path, version).await?,
            (None, None) => {}
        }
        Ok(())
    }

    async fn revert_change(&self, path: &GroupPath, change: &ShareChange) -> Result<(), ToolError> {
        let shares = &self.teams.shares;
        if let Some((text, _)) = &change.before {
            shares.write(path, text.clone(), None).await?;
            return Ok(());
        }
        let version = shares.read(path, 0, 1).await?.version;
        shares.remove(path, &version).await?;
        Ok(())
    }

    fn diff(&self) -> String {
        let mut diff = String::new();
        for (path, change) in &self.files {
            let before = change.before.as_ref().map_or("", |(text, _)| text.as_str());
            let after = change.after.as_deref().unwrap_or_default();
            let name = |is_there: bool, side: char| {
                if is_there {
                    format!("{side}/{path}")
                } else {
                    "/dev/null".to_owned()
                }
            };
            let lines = TextDiff::from_lines(before, after);
            let header = (
                name(change.before.is_some(), 'a'),
                name(change.after.is_some(), 'b'),
            );
            let shown = lines
                .unified_diff()
                .context_radius(3)
                .header(&header.0, &header.1)
                .to_string();
            diff.push_str(&shown);
        }
        diff
    }
}
