//! Results of the four utility tools: `list_resources`, `read_resource`, `list_prompts` and `get_prompt`.

use rmcp::model::{GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate};
use serde_json::{Map, Value, json};

use super::Outcome;
use crate::{call::content::MediaStore, tools::names::RegisteredName};

impl Outcome {
    /// What `list_resources` found.
    pub fn from_resources(resources: &[Resource], templates: &[ResourceTemplate]) -> Self {
        let resources: Vec<Value> = resources
            .iter()
            .map(|resource| {
                let entry = json!({"uri": resource.uri, "name": resource.name});
                with_description(
                    entry,
                    resource.description.as_ref(),
                    resource.mime_type.as_ref(),
                )
            })
            .collect();
        let mut object = json!({"resources": resources});
        if !templates.is_empty() {
            object["resourceTemplates"] = templates
                .iter()
                .map(|template| {
                    let entry =
                        json!({"uriTemplate": template.uri_template, "name": template.name});
                    with_description(
                        entry,
                        template.description.as_ref(),
                        template.mime_type.as_ref(),
                    )
                })
                .collect();
        }
        Self::Utility(object)
    }

    /// What `read_resource` read.
    pub async fn from_resource(result: ReadResourceResult, media: &MediaStore) -> Self {
        let text = media.render_resource(result.contents).await;
        Self::Utility(Map::from_iter([("result".into(), Value::String(text))]).into())
    }

    /// What `list_prompts` found.
    pub fn from_prompts(prompts: &[Prompt]) -> Self {
        let prompts: Vec<Value> = prompts.iter().map(prompt_entry).collect();
        Self::Utility(json!({"prompts": prompts}))
    }

    /// The messages `get_prompt` got.
    pub async fn from_prompt(
        result: GetPromptResult,
        media: &MediaStore,
        link_tool: Option<&RegisteredName>,
    ) -> Self {
        let mut messages = Vec::with_capacity(result.messages.len());
        for message in result.messages {
            let content = media.render(&[message.content], link_tool).await;
            messages.push(json!({"role": message.role, "content": content}));
        }
        let mut object = json!({"messages": messages});
        if let Some(description) = result.description {
            object["description"] = description.into();
        }
        Self::Utility(object)
    }
}

fn prompt_entry(prompt: &Prompt) -> Value {
    let mut entry = with_description(
        json!({"name": prompt.name}),
        prompt.description.as_ref(),
        None,
    );
    if let Some(arguments) = &prompt.arguments {
        entry["arguments"] = arguments
            .iter()
            .map(|argument| {
                let name = json!({"name": argument.name});
                let mut entry = with_description(name, argument.description.as_ref(), None);
                entry["required"] = argument.required.unwrap_or(false).into();
                entry
            })
            .collect();
    }
    entry
}

fn with_description(
    mut entry: Value,
    description: Option<&String>,
    mime_type: Option<&String>,
) -> Value {
    if let Some(description) = description {
        entry["description"] = description.as_str().into();
    }
    if let Some(mime_type) = mime_type {
        entry["mimeType"] = mime_type.as_str().into();
    }
    entry
}
