//! `write_file`: creates or replaces a whole file.

use futures::future::BoxFuture;
use hermes_config::private_file::NewFileMode;
use serde_json::{Map, Value, json};

use super::store_file::store_file;
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
