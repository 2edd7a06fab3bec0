//! What the suite calls by name, and one client's connection to it.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, RequestStateCodec, ServerCapabilities,
        ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
    task_manager::TaskManager,
};
use tokio::sync::watch;

use super::{content, prompts, resources, tasks};
use crate::server::{input_required, notifications, server_requests};

/// Seals what a client carries from one round of a request to the next. What it protects here is worth nothing.
const STATE_KEY: &[u8] = b"the key of a fixture, and so no secret";

/// What all connections share.
pub(super) struct Fixtures {
    pub(super) tasks: TaskManager,
    pub(super) state_codec: RequestStateCodec,
    pub(super) changes: watch::Sender<ListChanges>,
}

/// How often each list has changed. A change adds the list's last entry or takes it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListChanges {
    pub(super) tools: usize,
    pub(super) prompts: usize,
}

impl Fixtures {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            tasks: TaskManager::new(),
            state_codec: RequestStateCodec::try_new(STATE_KEY)?,
            changes: watch::Sender::default(),
        })
    }

    pub(super) fn connection(self: &Arc<Self>) -> FixtureConnection {
        FixtureConnection {
            fixtures: Arc::clone(self),
            initial_changes: *self.changes.borrow(),
            level: Mutex::new(LoggingLevel::Debug),
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools = content::tools();
        tools.extend(notifications::tools());
        tools.extend(server_requests::tools());
        tools.extend(input_required::tools());
        tools.extend(tasks::tools());
        if self.changes.borrow().tools % 2 == 1 {
            tools.push(notifications::temporary_tool());
        }
        tools
    }
}

/// One client's connection: an MCP session, or a single request without one.
pub(super) struct FixtureConnection {
    pub(super) fixtures: Arc<Fixtures>,
    /// The changes before it: a subscriber is told of those since, even if one falls between its acknowledgement and
    /// its first wait.
    initial_changes: ListChanges,
    level: Mutex<LoggingLevel>,
}

impl FixtureConnection {
    /// Whether this client wants messages of that level: in an MCP session everything above what it set, without one
    /// only what the request itself asks for.
    pub(super) fn wants_log(
        &self,
        level: LoggingLevel,
        context: &RequestContext<RoleServer>,
    ) -> bool {
        let least = if is_stateless(context) {
            context.meta.log_level()
        } else {
            Some(*self.level.lock().unwrap_or_else(PoisonError::into_inner))
        };
        least.is_some_and(|least| level as u8 >= least as u8)
    }
}

/// Whether a request belongs to the revisions without sessions.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl ServerHandler for FixtureConnection {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new(
            "hermes-conformance",
            env!("CARGO_PKG_VERSION"),
        ))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.fixtures.tools()))
    }

    /// Headers that repeat arguments are checked against this.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let mut tools = self.fixtures.tools().into_iter();
        tools.find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = content::call(&request) {
            return Ok(result.into());
        }
        if let Some(result) = notifications::call(self, &request, &context).await {
            return Ok(result.into());
        }
        if let Some(result) = server_requests::call(&request, &context).await {
            return Ok(result?.into());
        }
        if let Some(response) = input_required::call(&self.fixtures.state_codec, &request, &context)
        {
            return response;
        }
        if let Some(response) = tasks::call(&self.fixtures.tasks, &request, &context).await {
            return response;
        }
        let problem = format!("there is no tool `{}`", request.name);
        Err(ErrorData::invalid_params(problem, None))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&request.uri).map(Into::into)
    }

    /// The resources never change, so there is nothing to remember.
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        resources::read(&request.uri).map(drop)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        resources::read(&request.uri).map(drop)
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let changes = self.fixtures.changes.subscribe();
        notifications::notify_changes(changes, self.initial_changes, &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let changes = *self.fixtures.changes.borrow();
        Ok(ListPromptsResult::with_all_items(prompts::list(changes)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request, &context)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&request)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = request.level;
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.fixtures.tasks.get_task(&request.task_id)?;
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let tasks = &self.fixtures.tasks;
        tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.fixtures.tasks.cancel_task(&request.task_id)
    }
}
