//! What one server offers, by original names: its tools, resources and prompts; and how much of a list is taken,
//! however much it offers.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, OnceLock},
};

use rmcp::model::{Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tools::{
    description_scan,
    names::ToolName,
    schema::{self, OutputValidator},
};

mod listing;

pub(crate) use listing::{
    ListError, ListedItems, list_prompts, list_resources, list_templates, list_tools,
};

/// The most items of one list.
pub(crate) const MAX_ITEMS: usize = 10_000;
/// The most that the items of one list may take as JSON, in bytes.
pub(crate) const MAX_LIST_BYTES: usize = 32 * 1024 * 1024;
/// The most warnings about one list.
const MAX_WARNINGS: usize = 50;

/// What a server offered when it was last asked.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// In the server's order.
    pub tools: Vec<Arc<NativeTool>>,
    pub resources: Vec<Resource>,
    pub templates: Vec<ResourceTemplate>,
    pub prompts: Vec<Prompt>,
    /// What the server declared.
    pub capabilities: ServerCapabilities,
    /// Whether resources and prompts have been listed as well (tools come first).
    pub is_complete: bool,
    /// What was odd about the lists.
    pub warnings: Vec<String>,
    /// Tools that are not offered under `pin_tools: block`, as they are not what was accepted.
    pub withheld: Vec<ToolName>,
}

impl Catalog {
    /// What is odd about the lists, about the schemas in them, and about what tools say of themselves.
    pub fn all_warnings(&self) -> Vec<String> {
        let schemas = self.tools.iter().filter_map(|tool| {
            let problem = schema::check(tool.input_schema()).err()?;
            Some(format!("tool `{}`: {problem}", tool.name))
        });
        let warnings = self.warnings.iter().cloned();
        warnings
            .chain(schemas)
            .chain(self.suspicious_descriptions())
            .collect()
    }

    /// Tools whose description speaks to the model as an attacker would.
    pub fn suspicious_descriptions(&self) -> impl Iterator<Item = String> + '_ {
        self.tools.iter().filter_map(|tool| {
            let findings = tool.description_findings();
            (!findings.is_empty()).then(|| {
                format!(
                    "tool `{}`: its description looks like an attempt to instruct the model ({}); read it before you trust it",
                    tool.name,
                    findings.join(", ")
                )
            })
        })
    }
}

/// A tool as its server listed it.
#[derive(Debug)]
pub struct NativeTool {
    pub name: ToolName,
    /// The definition as received.
    pub definition: Tool,
    schema: OnceLock<Value>,
    parameters: OnceLock<Value>,
    findings: OnceLock<Vec<&'static str>>,
    output: OnceLock<Option<OutputValidator>>,
}

impl NativeTool {
    pub fn new(definition: Tool) -> Self {
        Self {
            name: ToolName::new(definition.name.clone()),
            definition,
            schema: OnceLock::new(),
            parameters: OnceLock::new(),
            findings: OnceLock::new(),
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

    /// What is suspicious about its description; looked for once.
    pub fn description_findings(&self) -> &[&'static str] {
        self.findings.get_or_init(|| {
            let text = self.definition.description.as_deref();
            description_scan::scan(text.unwrap_or_default())
        })
    }

    /// The check for structured results, if the tool declares their shape.
    pub fn output_validator(&self) -> Option<&OutputValidator> {
        self.output
            .get_or_init(|| {
                let schema = self.definition.output_schema.as_ref()?;
                Some(OutputValidator::new(Value::Object((**schema).clone())))
            })
            .as_ref()
    }

    /// Whether calling it twice does no harm, by the server's own word.
    pub fn is_safe_to_retry(&self) -> bool {
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
        let by_name = |list: &'_ [Arc<NativeTool>]| -> HashMap<ToolName, Arc<NativeTool>> {
            let tools = list.iter();
            tools
                .map(|tool| (tool.name.clone(), tool.clone()))
                .collect()
        };
        let (before, now) = (by_name(old), by_name(new));
        let mut changes = Self::default();
        for tool in new {
            match before.get(&tool.name) {
                None => changes.added.push(tool.name.to_string()),
                Some(before) if before.definition != tool.definition => {
                    changes.changed.push(tool.name.to_string());
                }
                Some(_) => {}
            }
        }
        let gone = old.iter().filter(|tool| !now.contains_key(&tool.name));
        changes
            .removed
            .extend(gone.map(|tool| tool.name.to_string()));
        changes
    }

    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// What was taken of a list so far.
#[derive(Debug, Default)]
struct ListBudget {
    items: usize,
    bytes: usize,
}

/// Which bound the next item would break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExceededLimit {
    Items,
    Bytes,
}

impl ExceededLimit {
    /// What is told about a list that was cut.
    fn describe(self, what: &str) -> String {
        match self {
            Self::Items => format!(
                "the server has more than {MAX_ITEMS} {what}, which is the maximum; the rest is left out"
            ),
            Self::Bytes => format!(
                "the {what} of the server take more than {} MiB, which is the maximum; the rest is left out",
                MAX_LIST_BYTES >> 20
            ),
        }
    }
}

impl ListBudget {
    /// Counts an item, if it fits.
    fn count_item(&mut self, item: &impl Serialize) -> Result<(), ExceededLimit> {
        if self.items == MAX_ITEMS {
            return Err(ExceededLimit::Items);
        }
        let mut size = ByteCounter(0);
        // An item that cannot be serialised is not stored either, so it counts for nothing.
        let _ = serde_json::to_writer(&mut size, item);
        if self.bytes + size.0 > MAX_LIST_BYTES {
            return Err(ExceededLimit::Bytes);
        }
        self.items += 1;
        self.bytes += size.0;
        Ok(())
    }
}

/// Counts bytes and keeps none.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Leaves the first warnings of many, and says how many there were.
fn trim_warnings(warnings: &mut Vec<String>) {
    if warnings.len() > MAX_WARNINGS {
        let more = warnings.len() - MAX_WARNINGS;
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("{more} more warnings about this list are left out"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_taken_up_to_their_number_and_the_warning_names_it() {
        let mut bounds = ListBudget::default();
        for number in 0..MAX_ITEMS {
            assert_eq!(bounds.count_item(&number), Ok(()));
        }
        assert_eq!(bounds.count_item(&0), Err(ExceededLimit::Items));
        let warning = ExceededLimit::Items.describe("tools");
        assert!(warning.contains("more than 10000 tools"), "{warning}");
    }

    #[test]
    fn items_are_taken_up_to_their_size_and_the_warning_names_it() {
        let mut bounds = ListBudget::default();
        let large = "x".repeat(MAX_LIST_BYTES / 4);
        for _ in 0..3 {
            assert_eq!(bounds.count_item(&large), Ok(()));
        }
        assert_eq!(bounds.count_item(&large), Err(ExceededLimit::Bytes));
        assert_eq!(bounds.count_item(&"small"), Ok(()));
        let warning = ExceededLimit::Bytes.describe("tools");
        assert!(warning.contains("more than 32 MiB"), "{warning}");
    }

    #[test]
    fn of_many_warnings_the_first_are_kept() {
        let mut warnings: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        trim_warnings(&mut warnings);
        assert_eq!(warnings.len(), 51);
        assert_eq!(
            warnings[50],
            "10 more warnings about this list are left out"
        );
    }
}
