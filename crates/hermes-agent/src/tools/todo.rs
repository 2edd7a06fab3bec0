//! `todo`: the task list of a session.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::sync::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ToolError, arguments::ToolArguments, into_output, tool_definition};
use crate::{
    message::Message,
    model::ToolDefinition,
    tools::tool::{Tool, ToolContext, ToolOutput},
};

const NAME: &str = "todo";
const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "cancelled"];
const MAX_ITEMS: usize = 200;

/// The tool's result, as far as it is parsed again.
#[derive(Deserialize)]
struct TodoToolResult {
    todos: Vec<TodoItem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    pub id: String,
    pub content: String,
    pub status: TodoStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

impl TodoStatus {
    fn from_word(word: &str) -> Self {
        match word {
            "in_progress" => Self::InProgress,
            "completed" => Self::Completed,
            "cancelled" => Self::Cancelled,
            _ => Self::Pending,
        }
    }
}

/// The list of a session, shared between the tool and the display.
#[derive(Debug, Default)]
pub struct TodoList(Mutex<Vec<TodoItem>>);

impl TodoList {
    pub fn items(&self) -> Vec<TodoItem> {
        self.lock().clone()
    }

    /// Replaces all items.
    pub fn replace(&self, items: Vec<TodoItem>) {
        *self.lock() = items;
    }

    /// Restores the list from the latest result of the tool in a conversation, if there is one.
    pub(crate) fn restore_from(&self, messages: &[Message]) {
        let latest = messages.iter().rev().find_map(|message| match message {
            Message::Tool(result) if result.name.as_deref() == Some(NAME) => {
                let list: TodoToolResult = serde_json::from_str(&result.content.text()).ok()?;
                Some(list.todos)
            }
            _ => None,
        });
        if let Some(items) = latest {
            self.replace(items);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TodoItem>> {
        self.0.lock()
    }
}

pub struct TodoTool {
    list: Arc<TodoList>,
}

impl TodoTool {
    pub fn new(list: Arc<TodoList>) -> Self {
        Self { list }
    }
}

impl Tool for TodoTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            NAME,
            "The list of things to do in this session. Use it for work of three steps or more. Without todos it returns \
             the list. Keep one item in_progress, and mark items completed as soon as they are.",
            json!({
                "todos": {
                    "type": "array",
                    "description": "The items, the most important first",
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string"},
                            "content": {"type": "string"},
                            "status": {"type": "string", "enum": STATUSES},
                        },
                        "required": ["id", "content", "status"],
                    },
                },
                "merge": {"type": "boolean", "description": "true: change items with these ids and add new ones; false: replace the whole list", "default": false},
            }),
            &[],
        )
    }

    fn toolset(&self) -> &'static str {
        "todo"
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(std::future::ready(into_output(
            self.update(&ToolArguments::new(arguments)),
        )))
    }
}

impl TodoTool {
    fn update(&self, arguments: &ToolArguments) -> Result<ToolOutput, ToolError> {
        let merge = arguments.flag("merge")?;
        if let Some(objects) = arguments.objects("todos")? {
            let mut items = if merge { self.list.items() } else { Vec::new() };
            for object in &objects {
                upsert_item(&mut items, object)?;
            }
            if items.len() > MAX_ITEMS {
                return Err(ToolError::new(format!(
                    "the list holds {MAX_ITEMS} items at most"
                )));
            }
            self.list.replace(items);
        }
        let items = self.list.items();
        let count = |status| items.iter().filter(|item| item.status == status).count();
        Ok(ToolOutput::json(&json!({
            "todos": items,
            "summary": {
                "total": items.len(),
                "pending": count(TodoStatus::Pending),
                "in_progress": count(TodoStatus::InProgress),
                "completed": count(TodoStatus::Completed),
                "cancelled": count(TodoStatus::Cancelled),
            },
        })))
    }
}

/// Changes the item with the same id, or adds one.
fn upsert_item(items: &mut Vec<TodoItem>, object: &ToolArguments) -> Result<(), ToolError> {
    let id = object.required_text("id")?;
    let content = object
        .text("content")?
        .filter(|content| !content.trim().is_empty());
    let status = if object.has("status") {
        Some(TodoStatus::from_word(object.choice("status", &STATUSES)?))
    } else {
        None
    };
    if let Some(item) = items.iter_mut().find(|item| item.id == id) {
        item.content = content.unwrap_or_else(|| item.content.clone());
        item.status = status.unwrap_or(item.status);
        return Ok(());
    }
    let content =
        content.ok_or_else(|| ToolError::new(format!("the item `{id}` needs a content")))?;
    items.push(TodoItem {
        id,
        content,
        status: status.unwrap_or(TodoStatus::Pending),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(todo: &TodoTool, arguments: &Value) -> Result<Value, String> {
        let arguments = ToolArguments::new(arguments.as_object().unwrap().clone());
        let output = todo
            .update(&arguments)
            .map_err(|problem| problem.to_string())?;
        Ok(serde_json::from_str(&output.text).unwrap())
    }

    #[test]
    fn a_new_list_replaces_the_old_one_and_merging_changes_it() {
        let todo = TodoTool::new(Arc::default());
        call(
            &todo,
            &json!({"todos": [{"id": "0", "content": "old", "status": "pending"}]}),
        )
        .unwrap();
        let list = json!({"todos": [
            {"id": "1", "content": "a", "status": "in_progress"},
            {"id": "2", "content": "b", "status": "pending"},
        ]});
        assert_eq!(call(&todo, &list).unwrap()["summary"]["total"], 2);
        let merged = json!({"merge": true, "todos": [
            {"id": "1", "status": "completed"},
            {"id": "3", "content": "c", "status": "cancelled"},
        ]});
        let result = call(&todo, &merged).unwrap();
        assert_eq!(
            result["todos"][0],
            json!({"id": "1", "content": "a", "status": "completed"})
        );
        assert_eq!(
            result["summary"],
            json!({"total": 3, "pending": 1, "in_progress": 0, "completed": 1, "cancelled": 1})
        );
        assert_eq!(call(&todo, &json!({})).unwrap(), result);
    }

    #[test]
    fn a_wrong_item_changes_nothing() {
        let todo = TodoTool::new(Arc::default());
        for wrong in [
            json!({"todos": [{"id": "1", "content": "a", "status": "pending"}, {"id": "2"}]}),
            json!({"todos": [{"id": "1", "content": "a", "status": "done"}]}),
            json!({"todos": "a"}),
        ] {
            assert!(call(&todo, &wrong).is_err(), "{wrong}");
        }
        assert!(todo.list.items().is_empty());
    }
}
