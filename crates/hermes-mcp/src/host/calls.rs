//! Calls by registered name, one at a time or in batches.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::server::CallOrder;
use rmcp::model::{CallToolRequestParams, CallToolResult, ServerResult};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Host;
use crate::{
    call,
    call::{
        CallError, CallOptions, CallRequest, LoginReason, arguments, batch, content,
        outcome::{CallFailure, Outcome},
    },
    connection::{ConnectionCommand, counters::CallResultKind, handle::ServerHandle},
    tools::{
        catalog::NativeTool,
        registry::{RegisteredTool, Registry, ToolOrigin},
    },
};

#[derive(Debug, Clone)]
pub struct BatchCall {
    pub name: String,
    /// Its arguments; `Err` holds why they could not be read, and keeps the calls around it apart.
    pub arguments: Result<Map<String, Value>, String>,
}

impl Host {
    /// Calls a tool by its registered name, in either spelling.
    pub fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let registry = self.registry();
            self.call_in(&registry, name, arguments, options).await
        })
    }

    /// The same within the snapshot of a turn.
    pub fn call_in<'a>(
        &'a self,
        registry: &'a Registry,
        name: &'a str,
        arguments: Map<String, Value>,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match registry.find(name) {
                Some(tool) => self.call_tool(tool, arguments, options).await,
                None => CallFailure::UnknownTool(name.to_owned()).into(),
            }
        })
    }

    /// Calls several tools: runs of parallel-safe calls together, all else alone, answers in order.
    pub fn call_all<'a>(
        &'a self,
        registry: &'a Registry,
        calls: Vec<BatchCall>,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let is_parallel_safe = |call: &BatchCall| {
                call.arguments.is_ok()
                    && registry
                        .find(&call.name)
                        .is_some_and(|tool| tool.order == CallOrder::Parallel)
            };
            batch::run_batch(
                calls,
                is_parallel_safe,
                async |call: BatchCall| match call.arguments {
                    Ok(arguments) => self.call_in(registry, &call.name, arguments, options).await,
                    Err(reason) => CallFailure::Transport(format!(
                        "the arguments of `{}` cannot be read: {reason}",
                        call.name
                    ))
                    .into(),
                },
            )
            .await
        })
    }

    pub fn call_tool<'a>(
        &'a self,
        tool: &'a RegisteredTool,
        arguments: Map<String, Value>,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let Some(handle) = self.handle(&tool.server) else {
                return CallFailure::Transport(format!(
                    "server `{}` is no longer connected",
                    tool.server
                ))
                .into();
            };
            match &tool.origin {
                ToolOrigin::Native(native) => {
                    let result = self.call_native(&handle, native, arguments, options).await;
                    self.build_outcome(&handle, native, result).await
                }
                ToolOrigin::Utility(utility) => {
                    Box::pin(self.call_utility(&handle, *utility, &arguments, options)).await
                }
            }
        })
    }

    /// Calls a server's own tool and returns its result as received.
    pub fn call_raw<'a>(
        &'a self,
        tool: &'a RegisteredTool,
        arguments: Map<String, Value>,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Result<CallToolResult, CallError>> {
        Box::pin(async move {
            let handle = self.handle(&tool.server);
            match (handle, &tool.origin) {
                (Some(handle), ToolOrigin::Native(native)) => {
                    self.call_native(&handle, native, arguments, options).await
                }
                _ => Err(CallError::UnexpectedResponse(
                    "only a server's own tools have raw results".into(),
                )),
            }
        })
    }

    pub(super) async fn call_native(
        &self,
        handle: &Arc<ServerHandle>,
        tool: &NativeTool,
        arguments: Map<String, Value>,
        options: &CallOptions,
    ) -> Result<CallToolResult, CallError> {
        let arguments = arguments::coerce(arguments, tool.input_schema());
        let params =
            CallToolRequestParams::new(tool.definition.name.clone()).with_arguments(arguments);
        match self
            .send_request(
                handle,
                CallRequest::Tool(params),
                tool.is_safe_to_retry(),
                options,
            )
            .await?
        {
            ServerResult::CallToolResult(result) => Ok(result),
            // A content block of an unknown kind makes the whole answer one of unknown shape.
            other => Ok(read_leniently(other)?),
        }
    }

    /// Sends one request in its server's order, and once more if that can do no harm.
    pub(super) async fn send_request(
        &self,
        handle: &Arc<ServerHandle>,
        request: CallRequest,
        is_repeatable: bool,
        options: &CallOptions,
    ) -> Result<ServerResult, CallError> {
        let _turn = match &handle.call_permits {
            Some(turn) => Some(tokio::select! {
                permit = turn.acquire() => permit,
                () = options.cancel.cancelled() => {
                    handle.counters.record_call(CallResultKind::Cancelled);
                    return Err(CallError::Interrupted);
                }
            }),
            None => None,
        };
        let mut result = self.send_request_once(handle, &request, options).await;
        if let Err(CallError::ConnectionLost { is_unsent, .. }) = &result
            && (*is_unsent || is_repeatable)
        {
            result = self.send_request_once(handle, &request, options).await;
        }
        handle.counters.record_call(match &result {
            Ok(_) => CallResultKind::Succeeded,
            Err(CallError::TimedOut { .. }) => CallResultKind::TimedOut,
            Err(CallError::Interrupted) => CallResultKind::Cancelled,
            Err(_) => CallResultKind::Failed,
        });
        result
    }

    async fn send_request_once(
        &self,
        handle: &Arc<ServerHandle>,
        request: &CallRequest,
        options: &CallOptions,
    ) -> Result<ServerResult, CallError> {
        let session = async {
            let session = call::acquire_session(handle).await?;
            call::check_pin(handle, &session, request).await?;
            Ok(session)
        };
        let session = tokio::select! {
            session = session => session?,
            () = options.cancel.cancelled() => return Err(CallError::Interrupted),
        };
        handle
            .breaker
            .check_call((self.state.context.clock)())
            .map_err(|remaining| CallError::CircuitOpen {
                server: handle.name.clone(),
                remaining,
            })?;
        let timeout = options
            .timeout
            .unwrap_or_else(|| handle.server.load().timeout);
        let result =
            call::execute_request(&session, request, timeout, options, &self.state.tasks).await;
        match &result {
            Ok(_) | Err(CallError::Refused { .. }) => handle.breaker.record_success(),
            Err(CallError::ConnectionLost { .. }) => {
                handle.breaker.record_failure((self.state.context.clock)());
            }
            Err(CallError::NeedsAuth {
                need: LoginReason::Access { reason },
                ..
            }) => {
                let challenge = reason.clone();
                let _ = handle
                    .mailbox
                    .try_send(ConnectionCommand::AuthLost { challenge });
            }
            Err(_) => handle
                .breaker
                .record_inconclusive((self.state.context.clock)()),
        }
        result
    }

    pub(super) async fn build_outcome(
        &self,
        handle: &ServerHandle,
        tool: &NativeTool,
        result: Result<CallToolResult, CallError>,
    ) -> Outcome {
        let result = match result {
            Ok(result) => result,
            Err(error) => return error.into_failure(handle).into(),
        };
        if let (Some(content), Some(check)) = (&result.structured_content, tool.output_validator())
            && let Err(problem) = check.validate(content)
        {
            tracing::warn!(server = %handle.name, tool = %tool.name, problem, "structured result does not match its output schema");
        }
        let link_tool = self.read_resource_name(&handle.name);
        Outcome::from_result(result, &self.state.media, link_tool.as_ref(), &|text| {
            handle.redact(text)
        })
        .await
        .amend_error(|text| handle.add_sandbox_note(text))
    }
}

/// Reads an answer of unknown shape again, with a note in the place of every block that cannot be read.
pub(super) fn read_leniently<T: DeserializeOwned>(result: ServerResult) -> Result<T, CallError> {
    let unknown = |error: serde_json::Error| CallError::UnexpectedResponse(error.to_string());
    let mut value = serde_json::to_value(result).map_err(unknown)?;
    content::note_unreadable_blocks(&mut value);
    serde_json::from_value(value).map_err(unknown)
}
