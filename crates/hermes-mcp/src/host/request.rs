//! What a command asks of one server, and what comes of it: the same for a host of the command's own and for one in
//! another process.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::ServerName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Host;
use crate::{
    call,
    call::{
        CallError, CallOptions, arguments,
        outcome::{CallFailure, Outcome},
    },
    connection::{handle::ServerHandle, link::LinkStatus},
    tools::registry::{RegisteredTool, ToolApproval, ToolOrigin},
};

/// JSON-RPC's code for arguments that a server does not take.
const INVALID_PARAMS: i32 = -32602;

/// What is asked of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HostRequest {
    /// Its tools as it listed them.
    ListTools,
    CallTool {
        /// By the server's own name for it, or the registered one in either spelling.
        tool: String,
        arguments: Map<String, Value>,
        /// Whether the result is wanted as received, and the arguments are sent without a look at them.
        is_raw: bool,
        #[serde(default)]
        approval: ApprovalCheck,
    },
    /// Its resources and their templates.
    ListResources,
    ReadResource {
        uri: String,
    },
    ListPrompts,
    /// One prompt, filled in.
    GetPrompt {
        prompt: String,
        arguments: Map<String, Value>,
    },
}

impl HostRequest {
    /// Whether it only asks what a server offers.
    pub fn is_listing(&self) -> bool {
        matches!(
            self,
            Self::ListTools | Self::ListResources | Self::ListPrompts
        )
    }
}

/// Whether a tool that needs approval (`tools.approve`) is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalCheck {
    /// It is: a person makes the call by a command of its own, or has approved it.
    #[default]
    Passed,
    /// It is not: the outcome says what a person has to approve first.
    Pending,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum RequestOutcome {
    /// The server answered, be it with an error of its own.
    Answered {
        /// The members for programs: those of a call's result, or the protocol's own.
        members: Value,
        /// What people read, where it is not a text in `result` or `error`.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Whether a tool said that it failed.
        is_error: bool,
    },
    /// No answer came: `error`, and perhaps `needs_reauth` and `server`.
    Failed {
        /// The members for programs.
        members: Value,
        /// The tool or prompt, if the server did not take the arguments.
        #[serde(skip_serializing_if = "Option::is_none")]
        definition: Option<Value>,
    },
    /// The server offers nothing of that name.
    UnknownName {
        /// What it offers instead.
        offers: Vec<String>,
        /// Whether a tool has the name and is withheld, as it has changed.
        is_withheld: bool,
    },
    /// The arguments do not fit, and were not sent.
    WrongArguments {
        /// In which way.
        problem: String,
        /// The tool or prompt: `name`, `description`, and `inputSchema` or `arguments`.
        definition: Value,
    },
    /// The tool was not called: a person has to approve it first.
    NeedsApproval {
        /// By its registered name.
        tool: String,
        /// By the server's own name for it.
        original: String,
    },
}

impl RequestOutcome {
    /// What people read of an answer or a failure.
    pub fn text(&self) -> &str {
        match self {
            Self::Answered {
                text: Some(text), ..
            } => text,
            Self::Answered { members, .. } | Self::Failed { members, .. } => {
                let text = members.get("result").or_else(|| members.get("error"));
                text.and_then(Value::as_str).unwrap_or_default()
            }
            Self::UnknownName { .. } | Self::NeedsApproval { .. } => "",
            Self::WrongArguments { problem, .. } => problem,
        }
    }

    fn protocol_object(object: &impl Serialize) -> Self {
        Self::Answered {
            members: serde_json::to_value(object).unwrap_or_default(),
            text: None,
            is_error: false,
        }
    }
}

/// How a tool is called.
#[derive(Debug, Clone, Copy)]
struct CallForm {
    is_raw: bool,
    approval: ApprovalCheck,
}

impl Host {
    /// Whether this host has a session with the server, or gets one when it is asked something.
    pub(crate) fn can_take_requests(&self, server: &ServerName) -> bool {
        self.handle(server).is_some_and(|handle| {
            let status = handle.link.borrow().status;
            status.offers_tools() || status == LinkStatus::Parked
        })
    }

    /// Waits until a server has a session, and wakes it for that, as a call does.
    pub fn wait_for_session<'a>(
        &'a self,
        server: &'a ServerName,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let Some(handle) = self.handle(server) else {
                return Err(self.inactive_error(server));
            };
            // What it offers is known when it has one.
            tokio::select! {
                session = call::acquire_session(&handle) => session.map(drop),
                () = cancel.cancelled() => Err(CallError::Interrupted),
            }
        })
    }

    /// Why a server that is not managed cannot have a session.
    fn inactive_error(&self, server: &ServerName) -> CallError {
        let all = self.status();
        let known = all
            .into_iter()
            .find(|status| status.name == server.as_str());
        let (status, detail) = known.map_or((LinkStatus::Stopped, None), |known| {
            (known.status, known.error)
        });
        CallError::NotConnected {
            server: server.clone(),
            status,
            detail,
        }
    }

    /// Does what is asked of a server, as soon as it has a session.
    pub fn execute_request<'a>(
        &'a self,
        server: &'a ServerName,
        request: HostRequest,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, RequestOutcome> {
        Box::pin(async move {
            let Some(handle) = self.handle(server) else {
                let failure = CallFailure::Transport(format!("server `{server}` is not connected"));
                return report(&failure.into());
            };
            if let Err(error) = self.wait_for_session(server, &options.cancel).await {
                return failure_outcome(&handle, error);
            }
            match request {
                HostRequest::ListTools => list_tools(&handle),
                HostRequest::CallTool {
                    tool,
                    arguments,
                    is_raw,
                    approval,
                } => {
                    let form = CallForm { is_raw, approval };
                    self.call_named(&handle, &tool, arguments, form, options)
                        .await
                }
                HostRequest::ListResources => match self.list_resources(server, options).await {
                    Ok((resources, templates)) => RequestOutcome::protocol_object(
                        &json!({"resources": resources, "resourceTemplates": templates}),
                    ),
                    Err(error) => failure_outcome(&handle, error),
                },
                HostRequest::ReadResource { uri } => {
                    match self.read_resource(server, &uri, options).await {
                        Ok(result) => RequestOutcome::protocol_object(&result),
                        Err(error) => failure_outcome(&handle, error),
                    }
                }
                HostRequest::ListPrompts => match self.list_prompts(server, options).await {
                    Ok(prompts) => RequestOutcome::protocol_object(&json!({"prompts": prompts})),
                    Err(error) => failure_outcome(&handle, error),
                },
                HostRequest::GetPrompt { prompt, arguments } => {
                    self.get_named_prompt(&handle, &prompt, arguments, options)
                        .await
                }
            }
        })
    }

    async fn call_named(
        &self,
        handle: &Arc<ServerHandle>,
        tool: &str,
        arguments: Map<String, Value>,
        form: CallForm,
        options: &CallOptions,
    ) -> RequestOutcome {
        let server = &handle.name;
        let registry = self.registry();
        let registered = registry
            .find_original(server, tool)
            .or_else(|| registry.find(tool).filter(|tool| tool.server == *server));
        let Some(registered) = registered else {
            let offers = registry.tools().filter(|tool| tool.server == *server);
            return RequestOutcome::UnknownName {
                offers: offers.map(|tool| tool.original_name().to_owned()).collect(),
                is_withheld: is_withheld(handle, tool),
            };
        };
        if form.approval == ApprovalCheck::Pending && registered.approval == ToolApproval::Required
        {
            return RequestOutcome::NeedsApproval {
                tool: registered.name.to_string(),
                original: registered.original_name().to_owned(),
            };
        }
        if form.is_raw {
            return match self.call_raw(registered, arguments, options).await {
                Ok(result) => RequestOutcome::Answered {
                    is_error: result.is_error == Some(true),
                    members: serde_json::to_value(&result).unwrap_or_default(),
                    text: None,
                },
                Err(error) => failure_outcome(handle, error),
            };
        }
        let schema = schema(registered);
        let arguments = arguments::coerce(arguments, &schema);
        if let Some(problem) = arguments::problem(&arguments, &schema) {
            return RequestOutcome::WrongArguments {
                problem,
                definition: definition(registered, &schema),
            };
        }
        let native = match &registered.origin {
            ToolOrigin::Native(native) => native,
            ToolOrigin::Utility(_) => {
                return report(&self.call_tool(registered, arguments, options).await);
            }
        };
        let result = self.call_native(handle, native, arguments, options).await;
        let is_refused_for_arguments = matches!(
            &result,
            Err(CallError::Refused {
                code: INVALID_PARAMS,
                ..
            })
        );
        let mut report = report(&self.build_outcome(handle, native, result).await);
        if let RequestOutcome::Failed { definition, .. } = &mut report
            && is_refused_for_arguments
        {
            *definition = Some(self::definition(registered, &schema));
        }
        report
    }

    async fn get_named_prompt(
        &self,
        handle: &Arc<ServerHandle>,
        name: &str,
        arguments: Map<String, Value>,
        options: &CallOptions,
    ) -> RequestOutcome {
        let prompts = match self.list_prompts(&handle.name, options).await {
            Ok(prompts) => prompts,
            Err(error) => return failure_outcome(handle, error),
        };
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) else {
            return RequestOutcome::UnknownName {
                offers: prompts.into_iter().map(|prompt| prompt.name).collect(),
                is_withheld: false,
            };
        };
        let known = prompt.arguments.as_deref().unwrap_or_default();
        let missing = known.iter().find(|argument| {
            argument.required == Some(true) && !arguments.contains_key(&argument.name)
        });
        let unknown = arguments
            .keys()
            .find(|key| !known.iter().any(|argument| argument.name == **key));
        let problem = match (missing, unknown) {
            (Some(missing), _) => Some(format!("`{}` is missing", missing.name)),
            (None, Some(key)) => Some(format!("there is no argument `{key}`")),
            (None, None) => None,
        };
        if let Some(problem) = problem {
            return RequestOutcome::WrongArguments {
                problem,
                definition: serde_json::to_value(prompt).unwrap_or_default(),
            };
        }
        match self
            .get_prompt(&handle.name, name, arguments, options)
            .await
        {
            Ok(result) => RequestOutcome::protocol_object(&result),
            Err(error) => failure_outcome(handle, error),
        }
    }
}

fn is_withheld(handle: &ServerHandle, tool: &str) -> bool {
    let link = handle.link.borrow();
    let catalog = link.catalog.as_ref();
    catalog.is_some_and(|catalog| catalog.withheld.iter().any(|name| name.as_str() == tool))
}

fn list_tools(handle: &ServerHandle) -> RequestOutcome {
    let catalog = handle.link.borrow().catalog.clone();
    let catalog = catalog.unwrap_or_default();
    let tools: Vec<_> = catalog.tools.iter().map(|tool| &tool.definition).collect();
    RequestOutcome::protocol_object(&json!({
        "tools": tools,
        "capabilities": catalog.capabilities,
        "warnings": catalog.all_warnings(),
    }))
}

fn schema(tool: &RegisteredTool) -> Value {
    match &tool.origin {
        ToolOrigin::Native(native) => native.input_schema().clone(),
        ToolOrigin::Utility(_) => tool.parameters(),
    }
}

fn definition(tool: &RegisteredTool, schema: &Value) -> Value {
    json!({"name": tool.original_name(), "description": tool.description(), "inputSchema": schema})
}

fn failure_outcome(handle: &ServerHandle, error: CallError) -> RequestOutcome {
    report(&error.into_failure(handle).into())
}

fn report(outcome: &Outcome) -> RequestOutcome {
    let members: Value = serde_json::from_str(&outcome.to_json()).unwrap_or_default();
    if let Outcome::Failure(_) = outcome {
        return RequestOutcome::Failed {
            members,
            definition: None,
        };
    }
    let text = outcome.text();
    let is_among_members = ["result", "error"]
        .iter()
        .any(|key| members.get(key).and_then(Value::as_str) == Some(&text));
    RequestOutcome::Answered {
        text: (!is_among_members).then(|| text.into_owned()),
        is_error: outcome.is_error(),
        members,
    }
}
