//! `memory`: short notes that outlive a session, in `memories/MEMORY.md` and `memories/USER.md` of the home.
//!
//! Entries are separated by lines with a single `§`. Changes hold a lock file, `MEMORY.md.lock`, that other
//! processes on the same home respect too.

mod entries;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use futures::future::BoxFuture;
use hermes_config::{
    Home,
    private_file::{FileOwner, NewFileMode, open_lock_file},
};
use serde_json::{Map, Value, json};

use self::entries::{EntryChange, MemoryEntries};
use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        files::write_file::store_file,
        into_output, run_blocking,
        tool::{Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

/// Size limits in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    pub memory: usize,
    pub user: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            memory: 2200,
            user: 1375,
        }
    }
}

impl MemoryLimits {
    /// Reads `memory.memory_char_limit` and `memory.user_char_limit` from the whole configuration.
    pub fn from_document(document: &Value) -> Self {
        let limit = |key: &str, default| {
            let number = document["memory"][key]
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.filter(|&number| number > 0).unwrap_or(default)
        };
        let default = Self::default();
        Self {
            memory: limit("memory_char_limit", default.memory),
            user: limit("user_char_limit", default.user),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memories {
    /// About work, environment and conventions.
    pub memory: Vec<String>,
    pub user: Vec<String>,
}

impl Memories {
    /// Reads both files; a missing one is empty.
    pub fn load(home: &Home) -> io::Result<Self> {
        let read = |target| read_entries(&memory_path(home, target)).map(MemoryEntries::into_list);
        Ok(Self {
            memory: read(MemoryTarget::Memory)?,
            user: read(MemoryTarget::User)?,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemoryTarget {
    Memory,
    User,
}

impl MemoryTarget {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::User => "user",
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryTool {
    limits: MemoryLimits,
}

impl MemoryTool {
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits }
    }
}

impl Tool for MemoryTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "memory",
            "Short notes that are part of your instructions from the next session on. target=user: who the user is, \
             preferences, corrections. target=memory: environment, conventions, lessons. Save what will still matter in \
             weeks, not progress of the current task. Space is limited: replace or remove what is outdated. Several \
             changes can be made at once with operations; all of them or none are made.",
            json!({
                "action": {"type": "string", "enum": ["add", "replace", "remove"]},
                "target": {"type": "string", "enum": ["memory", "user"]},
                "content": {"type": "string", "description": "add, replace: the entry"},
                "old_text": {"type": "string", "description": "replace, remove: a part of the entry that no other entry has"},
                "operations": {
                    "type": "array",
                    "description": "Several changes, instead of action, content and old_text",
                    "items": {
                        "type": "object",
                        "properties": {
                            "action": {"type": "string", "enum": ["add", "replace", "remove"]},
                            "content": {"type": "string"},
                            "old_text": {"type": "string"},
                        },
                        "required": ["action"],
                    },
                },
            }),
            &["target"],
        )
    }

    fn toolset(&self) -> &'static str {
        "memory"
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(
                self.apply_changes(&ToolArguments::new(arguments), context)
                    .await,
            )
        })
    }
}

impl MemoryTool {
    async fn apply_changes(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let target = match arguments.required_choice("target", &["memory", "user"])? {
            "user" => MemoryTarget::User,
            _ => MemoryTarget::Memory,
        };
        let changes = match arguments.objects("operations")? {
            Some(operations) => operations
                .iter()
                .map(parse_change)
                .collect::<Result<Vec<_>, _>>()?,
            None => vec![parse_change(arguments)?],
        };
        let limit = if target == MemoryTarget::User {
            self.limits.user
        } else {
            self.limits.memory
        };
        let home = context.home.clone();
        run_blocking(move || {
            let path = memory_path(&home, target);
            let entries = update_file(&path, &changes, limit)?;
            let used = entries.size();
            Ok(ToolOutput::json(&json!({
                "success": true,
                "target": target.name(),
                "entries": entries.into_list(),
                "usage": format!("{}% ({used} of {limit} characters)", used * 100 / limit.max(1)),
            })))
        })
        .await
    }
}

fn parse_change(arguments: &ToolArguments) -> Result<EntryChange, ToolError> {
    match arguments.required_choice("action", &["add", "replace", "remove"])? {
        "add" => Ok(EntryChange::Add(arguments.required_text("content")?)),
        "replace" => Ok(EntryChange::Replace {
            old_text: arguments.required_text("old_text")?,
            content: arguments.required_text("content")?,
        }),
        _ => Ok(EntryChange::Remove {
            old_text: arguments.required_text("old_text")?,
        }),
    }
}

fn memory_path(home: &Home, target: MemoryTarget) -> PathBuf {
    let name = if target == MemoryTarget::User {
        "USER.md"
    } else {
        "MEMORY.md"
    };
    home.path().join("memories").join(name)
}

fn read_entries(path: &Path) -> io::Result<MemoryEntries> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(MemoryEntries::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(MemoryEntries::default()),
        Err(error) => Err(error),
    }
}

/// Makes all changes or none.
fn update_file(
    path: &Path,
    changes: &[EntryChange],
    limit: usize,
) -> Result<MemoryEntries, ToolError> {
    let failed =
        |error: io::Error| ToolError::new(format!("{} cannot be used: {error}", path.display()));
    let _lock = lock_file(path).map_err(failed)?;
    let mut entries = read_entries(path).map_err(failed)?;
    let size_before = entries.size();
    for change in changes {
        entries.apply(change).map_err(ToolError::new)?;
    }
    let size = entries.size();
    // A list that is too long already may at least get shorter.
    if size > limit && size >= size_before {
        return Err(ToolError::new(format!(
            "that would be {size} characters, and {limit} are the limit. Replace or remove entries in the same call. Now \
             there: {}",
            json!(read_entries(path).map_err(failed)?.into_list())
        )));
    }
    store_file(path, entries.to_text().as_bytes(), NewFileMode::Private).map_err(failed)?;
    Ok(entries)
}

/// Held until dropped.
fn lock_file(path: &Path) -> io::Result<fs::File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = open_lock_file(Path::new(&name), FileOwner::Writer)?;
    file.lock()?;
    Ok(file)
}
