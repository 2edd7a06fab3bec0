//! `cronjob`: scheduled and repeated jobs.

mod stored;

use std::{
    path::{Component, Path},
    sync::Arc,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

pub use self::stored::HomeJobs;
use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        into_output, run_blocking,
        tool::{Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

const ACTIONS: [&str; 7] = [
    "create", "list", "update", "pause", "resume", "remove", "run",
];

/// The properties of a job. In an update, missing ones stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobRequest {
    /// What the agent is asked to do.
    pub prompt: Option<String>,
    /// In one of the user's formats.
    pub schedule: Option<String>,
    pub name: Option<String>,
    /// Number of runs; 0 is unlimited.
    pub repeat: Option<u64>,
    pub deliver: Option<String>,
    pub skills: Option<Vec<String>>,
    pub model: Option<String>,
    pub provider: Option<String>,
    /// A script of the home whose output becomes part of the prompt.
    pub script: Option<String>,
    /// Whether the script's output is the message.
    pub no_agent: Option<bool>,
    /// Jobs whose last output becomes part of the prompt.
    pub context_from: Option<Vec<String>>,
    pub enabled_toolsets: Option<Vec<String>>,
    pub workdir: Option<String>,
    /// Whether its messages appear in the chat's session.
    pub attach_to_session: Option<bool>,
}

/// The store of jobs. All methods may block on files; all return a job for display.
pub trait CronJobs: Send + Sync {
    fn create(&self, job: JobRequest) -> Result<Value, String>;
    fn list(&self) -> Result<Vec<Value>, String>;
    fn update(&self, id: &str, changes: JobRequest) -> Result<Value, String>;
    fn pause(&self, id: &str) -> Result<Value, String>;
    /// Resumes it, counting from now.
    fn resume(&self, id: &str) -> Result<Value, String>;
    fn remove(&self, id: &str) -> Result<Value, String>;
    fn run(&self, id: &str) -> Result<Value, String>;
}

pub struct CronjobTool {
    jobs: Arc<dyn CronJobs>,
}

impl CronjobTool {
    pub fn new(jobs: Arc<dyn CronJobs>) -> Self {
        Self { jobs }
    }
}

impl Tool for CronjobTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "cronjob",
            "Schedules work: a job is a prompt that runs in a new session without the user. It does not know this \
             conversation, so the prompt must say everything. Its last message is delivered; if there is nothing to \
             report it answers [SILENT].",
            json!({
                "action": {"type": "string", "enum": ACTIONS},
                "job_id": {"type": "string", "description": "update, pause, resume, remove, run: the job's id or its name"},
                "prompt": {"type": "string", "description": "What to do"},
                "schedule": {"type": "string", "description": "`30m` (once, from now), `every 2h`, `weekdays at 9am`, `0 9 * * 1` (cron), or `2030-01-31T09:00`"},
                "name": {"type": "string"},
                "repeat": {"type": "integer", "description": "How many times; 0 is unlimited", "minimum": 0},
                "deliver": {"type": "string", "description": "origin, local, all, a platform, or platform:chat; several separated by commas"},
                "skills": {"type": "array", "items": {"type": "string"}, "description": "Skills to load first"},
                "model": {
                    "type": "object",
                    "properties": {"provider": {"type": "string"}, "model": {"type": "string"}},
                    "required": ["model"],
                },
                "script": {"type": "string", "description": "A script below scripts/ of the home; its output goes into the prompt"},
                "no_agent": {"type": "boolean", "description": "The script's output is the message; no model is asked"},
                "context_from": {"type": "array", "items": {"type": "string"}, "description": "Jobs whose last output goes into the prompt"},
                "enabled_toolsets": {"type": "array", "items": {"type": "string"}, "description": "Only these toolsets"},
                "workdir": {"type": "string", "description": "The directory to work in"},
                "attach_to_session": {"type": "boolean", "description": "Show its messages in this session, too"},
            }),
            &["action"],
        )
    }

    fn toolset(&self) -> &'static str {
        "cronjob"
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { into_output(self.run_action(ToolArguments::new(arguments)).await) })
    }
}

impl CronjobTool {
    async fn run_action(&self, arguments: ToolArguments) -> Result<ToolOutput, ToolError> {
        let action = arguments.required_choice("action", &ACTIONS)?;
        let request = match action {
            "create" => Some(parse_new_job(&arguments)?),
            "update" => Some(parse_request(&arguments)?),
            _ => None,
        };
        let id = match action {
            "create" | "list" => String::new(),
            _ => arguments.required_text("job_id")?,
        };
        let jobs = self.jobs.clone();
        run_blocking(move || {
            let job = match (action, request) {
                ("create", Some(request)) => jobs.create(request),
                ("update", Some(request)) => jobs.update(&id, request),
                ("pause", _) => jobs.pause(&id),
                ("resume", _) => jobs.resume(&id),
                ("remove", _) => jobs.remove(&id),
                ("run", _) => jobs.run(&id),
                _ => {
                    let jobs = jobs.list().map_err(ToolError::new)?;
                    return Ok(ToolOutput::json(
                        &json!({"count": jobs.len(), "jobs": jobs}),
                    ));
                }
            };
            Ok(ToolOutput::json(
                &json!({"success": true, "job": job.map_err(ToolError::new)?}),
            ))
        })
        .await
    }
}

fn parse_new_job(arguments: &ToolArguments) -> Result<JobRequest, ToolError> {
    let request = parse_request(arguments)?;
    if request.schedule.is_none() {
        return Err(ToolError::new("`schedule` is required"));
    }
    let has_work = match request.no_agent {
        Some(true) => request.script.is_some(),
        _ => {
            request.prompt.is_some()
                || request
                    .skills
                    .as_ref()
                    .is_some_and(|skills| !skills.is_empty())
        }
    };
    if has_work {
        Ok(request)
    } else {
        Err(ToolError::new(
            "a job needs a `prompt`, or with no_agent a `script`",
        ))
    }
}

fn parse_request(arguments: &ToolArguments) -> Result<JobRequest, ToolError> {
    let text = |name| {
        arguments
            .text(name)
            .map(|text| text.filter(|text| !text.trim().is_empty()))
    };
    let texts = |name| -> Result<_, ToolError> {
        if arguments.has(name) {
            arguments.texts(name).map(Some)
        } else {
            Ok(None)
        }
    };
    let flag = |name| -> Result<_, ToolError> {
        if arguments.has(name) {
            arguments.flag(name).map(Some)
        } else {
            Ok(None)
        }
    };
    let script = text("script")?;
    if script.as_deref().is_some_and(escapes_directory) {
        return Err(ToolError::new(
            "`script` must be a path below scripts/ of the home",
        ));
    }
    let (provider, model) = parse_model(arguments)?;
    Ok(JobRequest {
        prompt: text("prompt")?,
        schedule: text("schedule")?,
        name: text("name")?,
        repeat: arguments.number("repeat")?,
        deliver: text("deliver")?,
        skills: texts("skills")?,
        model,
        provider,
        script,
        no_agent: flag("no_agent")?,
        context_from: texts("context_from")?,
        enabled_toolsets: texts("enabled_toolsets")?,
        workdir: text("workdir")?,
        attach_to_session: flag("attach_to_session")?,
    })
}

/// Provider and model: an object, or only a name.
fn parse_model(arguments: &ToolArguments) -> Result<(Option<String>, Option<String>), ToolError> {
    let Some(object) = arguments.object("model") else {
        return Ok((None, arguments.text("model")?));
    };
    Ok((
        object.text("provider")?,
        Some(object.required_text("model")?),
    ))
}

fn escapes_directory(script: &str) -> bool {
    Path::new(script)
        .components()
        .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
}
