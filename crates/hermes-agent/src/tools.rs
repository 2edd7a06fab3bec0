//! The built-in tools: files, commands, notes, questions, the web, sessions, skills and jobs.
//!
//! Each file is one tool. `built_in_tools` returns those whose dependencies a session has.

mod arguments;
pub mod clarify;
pub mod files;
pub mod home;
pub mod send_message;
#[cfg(unix)]
pub mod terminal;
pub mod todo;
pub mod tool;
pub mod toolbox;
pub mod vision_analyze;
pub mod web;

use std::sync::Arc;

use hermes_config::Settings;
use serde_json::{Map, Value, json};

pub use crate::tools::files::{
    patch::PatchTool, read_file::ReadFileTool, search_files::SearchFilesTool,
    write_file::WriteFileTool,
};
use crate::{
    approval::ApprovalError,
    model::{Model, ToolDefinition},
    policy::PolicyHandle,
    tools::tool::{Concurrency, Tool, ToolContext, ToolOutput},
};

/// The names of all built-in tools.
pub const TOOL_NAMES: [&str; 17] = [
    "read_file",
    "write_file",
    "patch",
    "search_files",
    "terminal",
    "process",
    "todo",
    "memory",
    "clarify",
    "session_search",
    "skills_list",
    "skill_view",
    "cronjob",
    "send_message",
    "web_extract",
    "web_search",
    "vision_analyze",
];

/// The toolsets that built-in tools belong to.
pub const TOOLSETS: [&str; 11] = [
    "file",
    "terminal",
    "todo",
    "memory",
    "clarify",
    "session_search",
    "skills",
    "cronjob",
    "messaging",
    "web",
    "vision",
];

/// The dependencies of a session's tools. Tools without their dependencies are omitted.
#[derive(Default)]
pub struct ToolDeps {
    #[cfg(unix)]
    pub terminal: Option<(
        terminal::TerminalSettings,
        Arc<terminal::process::ProcessTable>,
    )>,
    pub todo: Arc<todo::TodoList>,
    pub memory: home::memory::MemoryLimits,
    pub questioner: Option<Arc<dyn clarify::Questioner>>,
    pub sessions: Option<Arc<dyn home::session_search::SessionSearch>>,
    pub skills: Option<Arc<dyn home::skills::Skills>>,
    /// The jobs of the home; none inside a job.
    pub cron_jobs: Option<Arc<dyn home::cronjob::CronJobs>>,
    /// Sends messages, with the current settings; none if no platform has a token.
    pub messenger: Option<(Arc<dyn send_message::Messenger>, Arc<Settings>)>,
    pub web: Option<Arc<web::WebClient>>,
    pub search_engine: Option<web::search::SearchEngine>,
    pub vision: Option<Arc<dyn Model>>,
    pub policy: PolicyHandle,
    /// The files of the home's groups.
    pub teams: Option<Arc<files::teams::Teams>>,
}

pub fn built_in_tools(deps: ToolDeps) -> Vec<Arc<dyn Tool>> {
    let mut tools = file_tools(deps.teams.as_ref());
    #[cfg(unix)]
    if let Some((settings, table)) = deps.terminal {
        tools.push(Arc::new(terminal::TerminalTool::new(
            settings,
            table.clone(),
        )));
        tools.push(Arc::new(terminal::process::ProcessTool::new(table)));
    }
    tools.push(Arc::new(todo::TodoTool::new(deps.todo)));
    tools.push(Arc::new(home::memory::MemoryTool::new(deps.memory)));
    tools.push(Arc::new(clarify::ClarifyTool::new(deps.questioner)));
    if let Some(sessions) = deps.sessions {
        tools.push(Arc::new(home::session_search::SessionSearchTool::new(
            sessions,
        )));
    }
    if let Some(skills) = deps.skills {
        tools.push(Arc::new(home::skills::SkillsListTool::new(skills.clone())));
        tools.push(Arc::new(home::skills::SkillViewTool::new(skills)));
    }
    if let Some(jobs) = deps.cron_jobs {
        tools.push(Arc::new(home::cronjob::CronjobTool::new(jobs)));
    }
    if let Some((messenger, settings)) = deps.messenger {
        tools.push(Arc::new(send_message::SendMessageTool::new(
            messenger,
            settings,
            deps.policy.clone(),
        )));
    }
    if let Some(web) = &deps.web {
        tools.push(Arc::new(web::extract::WebExtractTool::new(web.clone())));
    }
    if let Some(engine) = deps.search_engine {
        tools.push(Arc::new(web::search::WebSearchTool::with_policy(
            engine,
            deps.policy,
        )));
    }
    if let Some(model) = deps.vision {
        let web = deps.web.unwrap_or_default();
        tools.push(Arc::new(vision_analyze::VisionAnalyzeTool::new(model, web)));
    }
    tools
}

/// The file tools, with the files of groups if there are any.
fn file_tools(teams: Option<&Arc<files::teams::Teams>>) -> Vec<Arc<dyn Tool>> {
    use crate::tools::files::teams::{FileToolKind, TeamsFileTool};
    let tools: [(Arc<dyn Tool>, FileToolKind); 4] = [
        (Arc::new(ReadFileTool), FileToolKind::Read),
        (Arc::new(WriteFileTool), FileToolKind::Write),
        (Arc::new(PatchTool), FileToolKind::Patch),
        (Arc::new(SearchFilesTool), FileToolKind::Search),
    ];
    let reaching = |(tool, kind): (Arc<dyn Tool>, FileToolKind)| -> Arc<dyn Tool> {
        match teams {
            None => tool,
            Some(teams) => Arc::new(TeamsFileTool {
                tool,
                kind,
                teams: teams.clone(),
            }),
        }
    };
    tools.into_iter().map(reaching).collect()
}

/// Why a call failed, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct ToolError(String);

impl ToolError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<ApprovalError> for ToolError {
    fn from(refusal: ApprovalError) -> Self {
        Self(refusal.to_string())
    }
}

fn into_output(result: Result<ToolOutput, ToolError>) -> ToolOutput {
    result.unwrap_or_else(|problem| ToolOutput::error(problem.0))
}

/// A tool with an object of parameters.
fn tool_definition(
    name: &str,
    description: &str,
    parameters: Value,
    required: &[&str],
) -> ToolDefinition {
    let mut schema = json!({
        "type": "object",
        "properties": {},
        "required": required,
        "additionalProperties": false,
    });
    schema["properties"] = parameters;
    ToolDefinition {
        name: name.to_owned(),
        description: description.into(),
        parameters: schema.into(),
    }
}

/// Runs file operations on a blocking thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ToolError::new(format!("the tool failed: {error}"))),
    }
}

/// A call on one file may run in parallel with calls on others.
fn path_concurrency(arguments: &Map<String, Value>, context: &ToolContext) -> Concurrency {
    let path = arguments.get("path").and_then(Value::as_str);
    match path.map(|path| files::path_access::PathRules::from_context(context).locate(path)) {
        Some(Ok(path)) => Concurrency::ParallelExceptPath(path),
        _ => Concurrency::Exclusive,
    }
}
