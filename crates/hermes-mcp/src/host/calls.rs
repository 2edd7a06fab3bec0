//! Calls by registered name, one at a time or in batches.

use std::{sync::Arc, time::Instant};

use hermes_config::server::CallOrder;
use rmcp::model::{CallToolRequestParams, CallToolResult, ServerResult};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Host;
use crate::{
    arguments, batch,
    call::{self, CallError, CallOptions, LoginNeed, Request},
    catalog::NativeTool,
    connection::Command,
    content,
    counters::CallEnd,
    outcome::{Failure, Outcome},
    owner::Owner,
    registry::{Origin, RegisteredTool, Registry},
};

/// One call of a batch.
#[derive(Debug, Clone)]
pub struct BatchCall {
    pub name: String,
    /// Its arguments; `Err` holds why they could not be read, and keeps the calls around it apart.
    pub arguments: Result<Map<String, Value>, String>,
}

impl Host {
    /// Calls a tool by its registered name, in either spelling.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        options: &CallOptions,
    ) -> Outcome {
        let registry = self.registry();
        self.call_in(&registry, name, arguments, options).await
    }

    /// The same within the snapshot of a turn.
    pub async fn call_in(
        &self,
        registry: &Registry,
        name: &str,
        arguments: Map<String, Value>,
        options: &CallOptions,
    ) -> Outcome {
        match registry.find(name) {
            Some(tool) => self.call_tool(tool, arguments, options).await,
            None => Failure::UnknownTool(name.to_owned()).into(),
        }
    }

    /// Calls several tools: runs of parallel-safe calls together, all else alone, answers in order.
    pub async fn call_all(
        &self,
        registry: &Registry,
        calls: Vec<BatchCall>,
        options: &CallOptions,
    ) -> Vec<Outcome> {
        let is_parallel_safe = |call: &BatchCall| {
            call.arguments.is_ok()
                && registry
                    .find(&call.name)
                    .is_some_and(|tool| tool.order == CallOrder::Parallel)
        };
        batch::run(
            calls,
            is_parallel_safe,
            async |call: BatchCall| match call.arguments {
                Ok(arguments) => self.call_in(registry, &call.name, arguments, options).await,
                Err(reason) => Failure::Transport(format!(
                    "the arguments of `{}` cannot be read: {reason}",
                    call.name
                ))
                .into(),
            },
        )
        .await
    }

    /// Calls a tool of a registry.
    pub async fn call_tool(
        &self,
        tool: &RegisteredTool,
        arguments: Map<String, Value>,
        options: &CallOptions,
    ) -> Outcome {
        let Some(owner) = self.owner(&tool.server) else {
            return Failure::Transport(format!(
                "server `{}` is not connected any more",
                tool.server
            ))
            .into();
        };
        match &tool.origin {
            Origin::Native(native) => {
                let result = self.call_native(&owner, native, arguments, options).await;
                self.finish(&owner, native, result).await
            }
            Origin::Utility(utility) => {
                Box::pin(self.call_utility(&owner, *utility, &arguments, options)).await
            }
        }
    }

    /// Calls a server's own tool and returns its result as received.
    pub async fn call_raw(
        &self,
        tool: &RegisteredTool,
        arguments: Map<String, Value>,
        options: &CallOptions,
    ) -> Result<CallToolResult, CallError> {
        let owner = self.owner(&tool.server);
        match (owner, &tool.origin) {
            (Some(owner), Origin::Native(native)) => {
                self.call_native(&owner, native, arguments, options).await
            }
            _ => Err(CallError::UnknownShape(
                "only a server's own tools have raw results".into(),
            )),
        }
    }

    pub(super) async fn call_native(
        &self,
        owner: &Arc<Owner>,
        tool: &NativeTool,
        arguments: Map<String, Value>,
        options: &CallOptions,
    ) -> Result<CallToolResult, CallError> {
        let arguments = arguments::coerce(arguments, tool.input_schema());
        let params =
            CallToolRequestParams::new(tool.definition.name.clone()).with_arguments(arguments);
        match self
            .ask(owner, Request::Tool(params), tool.is_repeatable(), options)
            .await?
        {
            ServerResult::CallToolResult(result) => Ok(result),
            // A content block of an unknown kind makes the whole answer one of unknown shape.
            other => Ok(read_leniently(other)?),
        }
    }

    /// Sends one request in its server's order, and once more if that can do no harm.
    pub(super) async fn ask(
        &self,
        owner: &Arc<Owner>,
        request: Request,
        is_repeatable: bool,
        options: &CallOptions,
    ) -> Result<ServerResult, CallError> {
        let _turn = match &owner.turn {
            Some(turn) => Some(tokio::select! {
                permit = turn.acquire() => permit,
                () = options.cancel.cancelled() => {
                    owner.counters.called(CallEnd::Cancelled);
                    return Err(CallError::Interrupted);
                }
            }),
            None => None,
        };
        let mut result = self.ask_once(owner, &request, options).await;
        if let Err(CallError::Lost { is_unsent, .. }) = &result
            && (*is_unsent || is_repeatable)
        {
            result = self.ask_once(owner, &request, options).await;
        }
        owner.counters.called(match &result {
            Ok(_) => CallEnd::Fine,
            Err(CallError::TimedOut { .. }) => CallEnd::TimedOut,
            Err(CallError::Interrupted) => CallEnd::Cancelled,
            Err(_) => CallEnd::Failed,
        });
        result
    }

    async fn ask_once(
        &self,
        owner: &Arc<Owner>,
        request: &Request,
        options: &CallOptions,
    ) -> Result<ServerResult, CallError> {
        let session = async {
            let session = call::session(owner).await?;
            call::ensure_accepted(owner, &session, request).await?;
            Ok(session)
        };
        let session = tokio::select! {
            session = session => session?,
            () = options.cancel.cancelled() => return Err(CallError::Interrupted),
        };
        owner
            .breaker
            .admit(Instant::now())
            .map_err(|remaining| CallError::Resting {
                server: owner.name.clone(),
                remaining,
            })?;
        let timeout = options
            .timeout
            .unwrap_or_else(|| owner.server.load().timeout);
        let result = call::exchange(&session, request, timeout, options, &self.inner.tasks).await;
        match &result {
            Ok(_) | Err(CallError::Refused { .. }) => owner.breaker.succeed(),
            Err(CallError::Lost { .. }) => owner.breaker.fail(Instant::now()),
            Err(CallError::NeedsAuth {
                need: LoginNeed::Access { reason },
                ..
            }) => {
                let challenge = reason.clone();
                let _ = owner.mailbox.try_send(Command::AuthLost { challenge });
            }
            Err(_) => owner.breaker.end_undecided(Instant::now()),
        }
        result
    }

    pub(super) async fn finish(
        &self,
        owner: &Owner,
        tool: &NativeTool,
        result: Result<CallToolResult, CallError>,
    ) -> Outcome {
        let result = match result {
            Ok(result) => result,
            Err(error) => return owner.failure(error).into(),
        };
        if let (Some(content), Some(check)) = (&result.structured_content, tool.output_check())
            && let Err(problem) = check.validate(content)
        {
            tracing::warn!(server = %owner.name, tool = %tool.name, problem, "structured result does not match its output schema");
        }
        let link_tool = self.read_resource_name(&owner.name);
        Outcome::from_result(result, &self.inner.media, link_tool.as_ref(), &|text| {
            owner.redacted(text)
        })
        .await
        .amend_error(|text| owner.add_sandbox_note(text))
    }
}

/// Reads an answer of unknown shape again, with a note in the place of every block that cannot be read.
pub(super) fn read_leniently<T: DeserializeOwned>(result: ServerResult) -> Result<T, CallError> {
    let unknown = |error: serde_json::Error| CallError::UnknownShape(error.to_string());
    let mut value = serde_json::to_value(result).map_err(unknown)?;
    content::note_unreadable_blocks(&mut value);
    serde_json::from_value(value).map_err(unknown)
}
