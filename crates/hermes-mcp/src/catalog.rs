//! What one server offers, by original names: its tools, resources and prompts.

use std::sync::{Arc, OnceLock};

use rmcp::model::{Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    names::ToolName,
    schema::{self, OutputCheck},
};

mod listing;

pub(crate) use listing::{
    ListError, Listed, list_prompts, list_resources, list_templates, list_tools,
};

/// What a server offered when it was last asked.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// In the server's order.
    pub tools: Vec<Arc<NativeTool>>,
    /// Known resources.
    pub resources: Vec<Resource>,
    /// Known resource templates.
    pub templates: Vec<ResourceTemplate>,
    /// Known prompts.
    pub prompts: Vec<Prompt>,
    /// What the server declared.
    pub capabilities: ServerCapabilities,
    /// Whether resources and prompts have been listed as well (tools come first).
    pub is_complete: bool,
    /// What was odd about the lists.
    pub warnings: Vec<String>,
}

impl Catalog {
    /// What is odd about the lists and about the schemas in them.
    pub fn all_warnings(&self) -> Vec<String> {
        let schemas = self.tools.iter().filter_map(|tool| {
            let problem = schema::check(tool.input_schema()).err()?;
            Some(format!("tool `{}`: {problem}", tool.name))
        });
        self.warnings.iter().cloned().chain(schemas).collect()
    }
}

/// A tool as its server listed it.
#[derive(Debug)]
pub struct NativeTool {
    /// The original name.
    pub name: ToolName,
    /// The definition as received.
    pub definition: Tool,
    schema: OnceLock<Value>,
    parameters: OnceLock<Value>,
    output: OnceLock<Option<OutputCheck>>,
}

impl NativeTool {
    /// Wraps a definition.
    pub fn new(definition: Tool) -> Self {
        Self {
            name: ToolName::new(definition.name.clone()),
            definition,
            schema: OnceLock::new(),
            parameters: OnceLock::new(),
            output: OnceLock::new(),
        }
    }

    /// The schema as received.
    pub fn input_schema(&self) -> &Value {
        self.schema
            .get_or_init(|| Value::Object((*self.definition.input_schema).clone()))
    }

    /// The schema in the form every model understands; worked out once.
    pub fn parameters(&self) -> &Value {
        self.parameters
            .get_or_init(|| schema::normalise(self.input_schema()))
    }

    /// The check for structured results, if the tool declares their shape.
    pub fn output_check(&self) -> Option<&OutputCheck> {
        self.output
            .get_or_init(|| {
                let schema = self.definition.output_schema.as_ref()?;
                Some(OutputCheck::new(Value::Object((**schema).clone())))
            })
            .as_ref()
    }

    /// Whether calling it twice does no harm, by the server's own word.
    pub fn is_repeatable(&self) -> bool {
        self.definition.annotations.as_ref().is_some_and(|hints| {
            hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true)
        })
    }
}

/// The differences between two listings, by name.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChanges {
    /// New names.
    pub added: Vec<String>,
    /// Names that are gone.
    pub removed: Vec<String>,
    /// Same name, another definition.
    pub changed: Vec<String>,
}

impl ToolChanges {
    /// Compares two lists of tools.
    pub fn between(old: &[Arc<NativeTool>], new: &[Arc<NativeTool>]) -> Self {
        let find = |list: &[Arc<NativeTool>], name: &ToolName| {
            list.iter().find(|tool| tool.name == *name).cloned()
        };
        let mut changes = Self::default();
        for tool in new {
            match find(old, &tool.name) {
                None => changes.added.push(tool.name.to_string()),
                Some(before) if before.definition != tool.definition => {
                    changes.changed.push(tool.name.to_string());
                }
                Some(_) => {}
            }
        }
        let gone = old.iter().filter(|tool| find(new, &tool.name).is_none());
        changes
            .removed
            .extend(gone.map(|tool| tool.name.to_string()));
        changes
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
