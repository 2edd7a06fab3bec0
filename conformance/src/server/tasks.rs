//! Tools whose work goes on after the answer, as a task the client asks about.

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
        CreateTaskResult, InputRequest, Tool,
    },
    service::RequestContext,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::{Value, json};

use super::content::{text_result, tool, tool_without_arguments};
use crate::server::{input_required, input_required::FormOutcome};

const MAX_DURATION: Duration = Duration::from_mins(5);

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "slow_compute",
            "Works for some seconds",
            json!({"type": "object", "properties": {
                "seconds": {"type": "number"},
                "label": {"type": "string"},
            }}),
        ),
        tool_without_arguments("failing_job", "Works and fails"),
        tool_without_arguments("protocol_error_job", "Ends in an error of the protocol"),
        tool(
            "confirm_delete",
            "Asks before it goes on",
            json!({"type": "object", "properties": {"filename": {"type": "string"}}}),
        ),
        tool_without_arguments("multi_input", "Asks two things at once"),
        tool_without_arguments(
            "test_tool_with_task",
            "Asks the user's name, then works with it",
        ),
    ]
}

/// The answer, if the tool is one of these.
pub(super) async fn call(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let capabilities = context.client_capabilities();
    let knows_tasks = capabilities.is_some_and(|capabilities| capabilities.supports_tasks());
    let argument = |name: &str| request.arguments.as_ref()?.get(name).cloned();
    let name = &*request.name;
    if name == "slow_compute" && !knows_tasks {
        let work = parse_seconds(argument("seconds").as_ref());
        tokio::time::sleep(work).await;
        return Some(Ok(computed_result().into()));
    }
    let is_mine = tools().iter().any(|tool| tool.name == name);
    if is_mine && !knows_tasks {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        let error = ErrorData::missing_required_client_capability(needed);
        return Some(Err(error));
    }
    Some(match name {
        "slow_compute" => {
            let work = parse_seconds(argument("seconds").as_ref());
            Ok(start_task(tasks, async move |task| {
                tokio::select! {
                    () = tokio::time::sleep(work) => Ok(computed_result()),
                    () = task.cancelled() => Err(TaskExit::Cancelled),
                }
            }))
        }
        "failing_job" => Ok(start_task(tasks, async |_| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let problem = ContentBlock::text("The job failed, as it always does.");
            Ok(CallToolResult::error(vec![problem]))
        })),
        "protocol_error_job" => Ok(start_task(tasks, async |_| {
            let error = ErrorData::internal_error("the job always fails", None);
            Err(TaskExit::Error(error))
        })),
        "confirm_delete" => form_request("Really?").map(|question| {
            start_task(tasks, async move |task| {
                let answer = task.request_input("confirm", question).await?;
                Ok(text_result(format!("The answer was {answer}.")))
            })
        }),
        "multi_input" => multi_input(tasks),
        "test_tool_with_task" => task_after_input(tasks, request, context),
        _ => return None,
    })
}

fn multi_input(tasks: &TaskManager) -> Result<CallToolResponse, ErrorData> {
    let (first, second) = (form_request("First?")?, form_request("Second?")?);
    Ok(start_task(tasks, async move |task| {
        let (first, second) = tokio::try_join!(
            task.request_input("first", first),
            task.request_input("second", second)
        )?;
        Ok(text_result(format!(
            "The answers were {first} and {second}."
        )))
    }))
}

/// Asks in the way of a plain call, and becomes a task once it has the answer.
fn task_after_input(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let answers = request.input_responses.as_ref();
    let name = match input_required::form_field(answers, "user_name", "name")? {
        FormOutcome::Unanswered => {
            let questions = vec![("user_name", input_required::name_request()?)];
            return input_required::request_input(questions, None, context).map(Into::into);
        }
        FormOutcome::Refused => Value::Null,
        FormOutcome::Filled(name) => name,
    };
    Ok(start_task(tasks, async move |_| {
        Ok(text_result(format!("The name is {name}.")))
    }))
}

fn start_task<F>(tasks: &TaskManager, job: impl FnOnce(TaskContext) -> F) -> CallToolResponse
where
    F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
{
    let task = tasks.spawn(TaskOptions::new(), |task| Box::pin(job(task)));
    CreateTaskResult::new(task).into()
}

fn form_request(message: &str) -> Result<InputRequest, ErrorData> {
    input_required::form_request(message, "confirm", "boolean")
}

fn computed_result() -> CallToolResult {
    text_result("The computation is done.")
}

fn parse_seconds(seconds: Option<&Value>) -> Duration {
    let seconds = seconds.and_then(Value::as_f64).unwrap_or_default();
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    time.min(MAX_DURATION)
}
