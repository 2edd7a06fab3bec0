//! `skills_list` and `skill_view`: the home's instructions for certain kinds of work.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::BoxFuture;
use hermes_store::skills;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        into_output, run_blocking,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkillSummary {
    pub name: String,
    pub description: String,
    pub category: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillText {
    pub text: String,
    /// Files that belong to it, by relative path.
    pub files: Vec<String>,
}

/// The store of skills. All methods may read files.
pub trait Skills: Send + Sync {
    fn list(&self) -> Vec<SkillSummary>;

    /// The description of a category, if there is one.
    fn category_description(&self, category: &str) -> Option<String>;

    fn view(&self, name: &str) -> Result<SkillText, String>;

    fn view_file(&self, name: &str, path: &str) -> Result<String, String>;
}

pub struct SkillsListTool {
    skills: Arc<dyn Skills>,
}

impl SkillsListTool {
    pub fn new(skills: Arc<dyn Skills>) -> Self {
        Self { skills }
    }
}

impl Tool for SkillsListTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "skills_list",
            "Lists the skills: instructions for certain kinds of work. Read one with skill_view before you do such work.",
            json!({"category": {"type": "string", "description": "Only skills filed under this"}}),
            &[],
        )
    }

    fn toolset(&self) -> &'static str {
        "skills"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(list_skills(self.skills.clone(), &ToolArguments::new(arguments)).await)
        })
    }
}

async fn list_skills(
    skills: Arc<dyn Skills>,
    arguments: &ToolArguments,
) -> Result<ToolOutput, ToolError> {
    let category = arguments
        .text("category")?
        .filter(|category| !category.is_empty());
    run_blocking(move || {
        let mut list = skills.list();
        list.retain(|skill| category.is_none() || skill.category == category);
        let names: BTreeSet<&String> = list.iter().filter_map(|it| it.category.as_ref()).collect();
        let categories: Map<String, Value> = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), skills.category_description(name)?.into())))
            .collect();
        let mut answer = json!({"count": list.len(), "skills": list});
        if !categories.is_empty() {
            answer["categories"] = categories.into();
        }
        Ok(ToolOutput::json(&answer))
    })
    .await
}

pub struct SkillViewTool {
    skills: Arc<dyn Skills>,
}

impl SkillViewTool {
    pub fn new(skills: Arc<dyn Skills>) -> Self {
        Self { skills }
    }
}

impl Tool for SkillViewTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "skill_view",
            "Returns the instructions of a skill and the names of its files, or one of those files.",
            json!({
                "name": {"type": "string", "description": "The skill"},
                "file_path": {"type": "string", "description": "A file of the skill, for example references/api.md"},
            }),
            &["name"],
        )
    }

    fn toolset(&self) -> &'static str {
        "skills"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(view_skill(self.skills.clone(), &ToolArguments::new(arguments)).await)
        })
    }
}

async fn view_skill(
    skills: Arc<dyn Skills>,
    arguments: &ToolArguments,
) -> Result<ToolOutput, ToolError> {
    let name = arguments.required_text("name")?;
    let path = arguments.text("file_path")?.filter(|path| !path.is_empty());
    run_blocking(move || {
        if let Some(path) = path {
            let text = skills.view_file(&name, &path).map_err(ToolError::new)?;
            return Ok(ToolOutput::text(text));
        }
        let SkillText { mut text, files } = skills.view(&name).map_err(ToolError::new)?;
        if !files.is_empty() {
            text.push_str("\n\n[files of this skill, to be read with file_path: ");
            text.push_str(&files.join(", "));
            text.push(']');
        }
        Ok(ToolOutput::text(text))
    })
    .await
}

impl Skills for skills::Skills {
    fn list(&self) -> Vec<SkillSummary> {
        let skills = skills::Skills::list(self).into_iter();
        skills
            .map(|skill| SkillSummary {
                name: skill.name,
                description: skill.description,
                category: skill.category,
            })
            .collect()
    }

    fn category_description(&self, category: &str) -> Option<String> {
        skills::Skills::category_description(self, category)
    }

    fn view(&self, name: &str) -> Result<SkillText, String> {
        let view = skills::Skills::view(self, name).map_err(|error| error.to_string())?;
        Ok(SkillText {
            text: view.body,
            files: view.files,
        })
    }

    fn view_file(&self, name: &str, path: &str) -> Result<String, String> {
        skills::Skills::view_file(self, name, path).map_err(|error| error.to_string())
    }
}
