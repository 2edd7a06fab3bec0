//! `patch`: changes to files, by a text to replace or by a patch of many files.

mod changes;
mod envelope;
mod hunks;
mod replacement;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use self::changes::FileChanges;
pub(super) use self::{
    envelope::{PatchOperation, parse_patch},
    hunks::apply_hunks,
    replacement::replace_text,
};
use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        files::{path_access, path_access::AccessPurpose},
        into_output, path_concurrency, run_blocking,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

#[derive(Debug, Clone, Copy, Default)]
pub struct PatchTool;

impl Tool for PatchTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "patch",
            "Changes files and returns a diff. mode=replace: puts new_string in the place of old_string in one file; \
             old_string must occur exactly once, unless replace_all is set, so give enough lines around it. Small \
             differences in white space are tolerated. mode=patch: adds, updates, deletes and moves several files, all \
             or none of them, with a text of this form:\n*** Begin Patch\n*** Update File: path\n@@ optional line above\n \
             context\n-old line\n+new line\n*** Add File: path\n+line\n*** Delete File: path\n*** End Patch\nA line \
             `*** Move to: path` after `*** Update File` renames the file.",
            json!({
                "mode": {"type": "string", "enum": ["replace", "patch"]},
                "path": {"type": "string", "description": "replace: the file"},
                "old_string": {"type": "string", "description": "replace: the text to find"},
                "new_string": {"type": "string", "description": "replace: what takes its place; empty to delete it"},
                "replace_all": {"type": "boolean", "description": "replace: every occurrence", "default": false},
                "patch": {"type": "string", "description": "patch: the whole text, from *** Begin Patch to *** End Patch"},
            }),
            &["mode"],
        )
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn concurrency(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Concurrency {
        // A patch of many files has no single path and runs alone.
        if arguments.contains_key("patch") {
            Concurrency::Exclusive
        } else {
            path_concurrency(arguments, context)
        }
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let arguments = ToolArguments::new(arguments);
            let result = match arguments.required_choice("mode", &["replace", "patch"]) {
                Ok("replace") => replace_in_file(&arguments, context).await,
                Ok(_) => apply_patch(&arguments, context).await,
                Err(problem) => Err(problem),
            };
            into_output(result)
        })
    }
}

async fn replace_in_file(
    arguments: &ToolArguments,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let path = arguments.required_text("path")?;
    let old = arguments.required_text("old_string")?;
    let new = arguments
        .text("new_string")?
        .ok_or_else(|| ToolError::new("`new_string` is required"))?;
    let every = arguments.flag("replace_all")?;
    let map = path_access::PathRules::from_context(context);
    let real =
        path_access::authorize_path("patch", &path, AccessPurpose::Write, &map, context).await?;
    run_blocking(move || {
        let mut changes = FileChanges::new(map);
        let text = changes.read(&real, &path)?;
        let replaced = replace_text(&text, &old, &new, every)
            .map_err(|problem| ToolError::new(format!("{path}: {problem}")))?;
        changes.write(real, &path, replaced.content);
        let diff = changes.commit()?;
        let noun = if replaced.count == 1 {
            "place"
        } else {
            "places"
        };
        let note = if replaced.is_exact {
            ""
        } else {
            " (white space differed)"
        };
        Ok(ToolOutput::text(format!(
            "Replaced {} {noun} in {path}{note}.\n\n{diff}",
            replaced.count
        )))
    })
    .await
}

async fn apply_patch(
    arguments: &ToolArguments,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let operations = parse_patch(&arguments.required_text("patch")?).map_err(ToolError::new)?;
    let map = path_access::PathRules::from_context(context);
    let mut located = Vec::new();
    for operation in operations {
        let mut real_paths = Vec::new();
        for path in operation.paths() {
            real_paths.push(
                path_access::authorize_path("patch", path, AccessPurpose::Write, &map, context)
                    .await?,
            );
        }
        located.push((operation, real_paths));
    }
    run_blocking(move || {
        let mut changes = FileChanges::new(map);
        for (operation, real_paths) in located {
            apply_operation(&mut changes, operation, real_paths)?;
        }
        let summary = changes.summary();
        let diff = changes.commit()?;
        Ok(ToolOutput::text(format!("{summary}\n\n{diff}")))
    })
    .await
}

fn apply_operation(
    changes: &mut FileChanges,
    operation: PatchOperation,
    real_paths: Vec<std::path::PathBuf>,
) -> Result<(), ToolError> {
    let mut real_paths = real_paths.into_iter();
    let real = real_paths
        .next()
        .ok_or_else(|| ToolError::new("an operation without a path"))?;
    match operation {
        PatchOperation::Add { path, content } => {
            if changes.exists(&real) {
                return Err(ToolError::new(format!(
                    "{path} exists already; use *** Update File"
                )));
            }
            changes.write(real, &path, content);
        }
        PatchOperation::Delete { path } => {
            changes.read(&real, &path)?;
            changes.delete(real, &path);
        }
        PatchOperation::Update {
            path,
            move_to,
            hunks,
        } => {
            let content = changes.read(&real, &path)?;
            let content = apply_hunks(&content, &hunks)
                .map_err(|problem| ToolError::new(format!("{path}: {problem}")))?;
            match (move_to, real_paths.next()) {
                (Some(target), Some(new_real)) if new_real != real => {
                    if changes.exists(&new_real) {
                        return Err(ToolError::new(format!("{target} exists already")));
                    }
                    changes.rename(real, &path, new_real, &target, content);
                }
                _ => changes.write(real, &path, content),
            }
        }
    }
    Ok(())
}
