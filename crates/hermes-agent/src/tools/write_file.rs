//! `write_file`: creates or replaces a whole file.

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{
    Problem,
    arguments::Arguments,
    blocking, definition, finish, path_company,
    place::{self, Purpose},
    store_file::{NewFile, store},
};
use crate::{
    model::ToolDefinition,
    tool::{Company, Tool, ToolContext, ToolOutput},
};

#[derive(Debug, Clone, Copy, Default)]
pub struct WriteFile;

impl Tool for WriteFile {
    fn definition(&self) -> ToolDefinition {
        definition(
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

    fn company(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Company {
        path_company(arguments, context)
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { finish(write(&Arguments::new(arguments), context).await) })
    }
}

async fn write(arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, Problem> {
    let path = arguments.required_text("path")?;
    let text = arguments
        .text("content")?
        .ok_or_else(|| Problem::new("`content` is required"))?;
    let map = place::Map::of(context);
    let real = place::enter("write_file", &path, Purpose::Write, &map, context).await?;
    blocking(move || {
        let is_new = !real.exists();
        store(&real, text.as_bytes(), NewFile::Ordinary)
            .map_err(|error| Problem::new(format!("{path} cannot be written: {error}")))?;
        Ok(ToolOutput::json(&json!({
            "path": real.display().to_string(),
            "bytes_written": text.len(),
            "lines": text.lines().count(),
            "created": is_new,
        })))
    })
    .await
}
