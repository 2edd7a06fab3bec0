//! What the server offers at the moment, and how its lists are cut into pages.

use std::{collections::HashMap, path::Path, sync::Mutex, time::Duration};

use serde_json::{Value, json};

use super::{
    ServerScript, built_in, lock,
    request::{RequestOutcome, ScriptRequest},
};
use crate::behaviour::{Behaviour, ListBehaviour, Tool};

/// Tools, resources and prompts as they are now.
pub(super) struct Offer {
    pub(super) tools: Vec<Tool>,
    /// URIs of the resources.
    pub(super) resources: Vec<String>,
    /// Contents that were changed, by URI.
    pub(super) texts: HashMap<String, String>,
    /// Names of the prompts.
    pub(super) prompts: Vec<String>,
}

impl Offer {
    pub(super) fn new(behaviour: &Behaviour) -> Self {
        let mut tools = behaviour.tools.clone().unwrap_or_else(built_in::tools);
        tools.extend((0..behaviour.generate_tools).map(generated_tool));
        for odd in &behaviour.lists.odd_tools {
            tools.extend(odd.definitions());
        }
        Self {
            tools,
            resources: super::resources::built_in(),
            texts: HashMap::new(),
            prompts: super::prompts::built_in(),
        }
    }
}

/// Counts `tools/list` requests and how many of them ran at once.
#[derive(Debug, Default)]
pub(super) struct ListCount {
    lists: u32,
    running: u32,
    max_overlap: u32,
}

/// One `tools/list` being counted.
struct ListGuard<'a>(&'a Mutex<ListCount>);

impl<'a> ListGuard<'a> {
    fn enter(count: &'a Mutex<ListCount>, file: Option<&Path>) -> (Self, u32) {
        let mut now = lock(count);
        now.lists += 1;
        now.running += 1;
        now.max_overlap = now.max_overlap.max(now.running);
        if let Some(path) = file {
            let counts = json!({ "lists": now.lists, "max_overlap": now.max_overlap });
            // A test that lost its directory has ended; there is nobody to tell.
            let _ = std::fs::write(path, counts.to_string());
        }
        (Self(count), now.lists)
    }
}

impl Drop for ListGuard<'_> {
    fn drop(&mut self) {
        lock(self.0).running -= 1;
    }
}

impl ServerScript {
    pub(super) fn list_tools(&self, request: &ScriptRequest) -> RequestOutcome {
        let lists = &self.behaviour.lists;
        let (_counted, number) = ListGuard::enter(&self.list_count, lists.overlap_file.as_deref());
        let tools: Vec<Value> = lock(&self.offer).tools.iter().map(tool_json).collect();
        if lists.change_during_list && number == 1 {
            lock(&self.offer).tools.push(Tool::named("appeared"));
            self.announce("tools");
        }
        std::thread::sleep(Duration::from_millis(lists.delay_ms));
        if lists.endless_pages {
            let page = request.params["cursor"]
                .as_str()
                .and_then(|cursor| cursor.parse::<u64>().ok())
                .unwrap_or(0);
            return RequestOutcome::Result(json!({
                "tools": [tool_json(&Tool::named(&format!("endless_{page}")))],
                "nextCursor": (page + 1).to_string(),
            }));
        }
        if lists.made_pages > 0 {
            return RequestOutcome::Result(made_page(lists, request));
        }
        self.page(request, "tools", tools)
    }

    /// The page of `items` that the request asks for.
    pub(super) fn page(
        &self,
        request: &ScriptRequest,
        field: &str,
        items: Vec<Value>,
    ) -> RequestOutcome {
        let lists = &self.behaviour.lists;
        let cursor = request.params["cursor"].as_str();
        let start = cursor
            .and_then(|cursor| cursor.parse::<usize>().ok())
            .unwrap_or(0);
        let size = lists.page_size.unwrap_or(usize::MAX);
        let end = start.saturating_add(size).min(items.len());
        let next = if lists.repeat_cursor {
            Some(cursor.unwrap_or("0").to_owned())
        } else {
            (end < items.len()).then(|| end.to_string())
        };
        let page: Vec<Value> = items.into_iter().take(end).skip(start).collect();
        let mut result = json!({ field: page });
        if let Some(next) = next {
            result["nextCursor"] = json!(next);
        }
        RequestOutcome::Result(result)
    }
}

fn generated_tool(number: usize) -> Tool {
    Tool::named(&format!("tool_{number}"))
        .with("description", json!(format!("Generated tool {number}.")))
        .acting_as("echo")
}

/// The page that the cursor counts.
fn made_page(lists: &ListBehaviour, request: &ScriptRequest) -> Value {
    let cursor = request.params["cursor"].as_str();
    let page: usize = cursor
        .and_then(|cursor| cursor.parse().ok())
        .unwrap_or_default();
    let size = lists.page_size.unwrap_or(1);
    let tools = (page * size..(page + 1) * size).map(|number| tool_json(&generated_tool(number)));
    let mut result = json!({ "tools": tools.collect::<Vec<Value>>() });
    if page + 1 < lists.made_pages {
        result["nextCursor"] = json!((page + 1).to_string());
    }
    result
}

/// A tool as the list shows it.
fn tool_json(tool: &Tool) -> Value {
    let mut definition = tool.definition.clone();
    definition
        .entry("inputSchema")
        .or_insert_with(|| json!({ "type": "object" }));
    Value::Object(definition)
}
