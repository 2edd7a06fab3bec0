//! `write_file`: creates or replaces a whole file; and how all tools write files.

use std::{fs, io, path::Path};

use futures::future::BoxFuture;
use hermes_config::private_file::{ExistingFile, NewFileMode, WriteOptions, write_file};
use serde_json::{Map, Value, json};

use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        files::path_access::{self, AccessPurpose},
        into_output, path_concurrency, run_blocking,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

#[derive(Debug, Clone, Copy, Default)]
pub struct WriteFileTool;

impl Tool for WriteFileTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "write_file",
            "Writes a file, replacing all that was in it. Missing directories are made. To change a part of a file use \
             patch.",
            json!({
                "path": {"type": "string", "description": "The file: absolute, relative to the working directory, or beginning with ~/"},
                "content": {"type": "string", "description": "The whole new content"},
            }),
            &["path", "content"],
        )
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn concurrency(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Concurrency {
        path_concurrency(arguments, context)
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(write_whole_file(&ToolArguments::new(arguments), context).await)
        })
    }
}

async fn write_whole_file(
    arguments: &ToolArguments,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let path = arguments.required_text("path")?;
    let text = arguments
        .text("content")?
        .ok_or_else(|| ToolError::new("`content` is required"))?;
    let map = path_access::PathRules::from_context(context);
    let real =
        path_access::authorize_path("write_file", &path, AccessPurpose::Write, &map, context)
            .await?;
    run_blocking(move || {
        let is_new = !real.exists();
        store_file(&real, text.as_bytes(), NewFileMode::Ordinary)
            .map_err(|error| ToolError::new(format!("{path} cannot be written: {error}")))?;
        Ok(ToolOutput::json(&json!({
            "path": real.display().to_string(),
            "bytes_written": text.len(),
            "lines": text.lines().count(),
            "created": is_new,
        })))
    })
    .await
}

/// Writes a file. An existing one keeps its mode and, if possible, its owner; parent directories are created. The path
/// must be resolved: a link would be replaced, not followed.
pub(crate) fn store_file(path: &Path, content: &[u8], new_file: NewFileMode) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let options = WriteOptions {
        existing: ExistingFile::ReplaceKeepingMode,
        new_file,
        ..WriteOptions::default()
    };
    write_file(path, content, options)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn modes_are_kept_and_new_private_files_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/file");
        store_file(&path, b"one", NewFileMode::Private).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        store_file(&path, b"two", NewFileMode::Private).unwrap();
        assert_eq!(
            (mode(&path), fs::read(&path).unwrap()),
            (0o751, b"two".to_vec())
        );
        let ordinary = directory.path().join("ordinary");
        store_file(&ordinary, b"", NewFileMode::Ordinary).unwrap();
        assert_ne!(mode(&ordinary) & 0o044, 0);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        assert!(store_file(directory.path(), b"x", NewFileMode::Ordinary).is_err());
    }
}
