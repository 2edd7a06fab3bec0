//! One client's connection to the bridge: the server side of the protocol, with tools, resources and
//! prompts. Over HTTP, a request without an MCP session is a separate connection.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, OnceLock},
};

use hermes_config::{
    sync::{Mutex, MutexGuard},
    trace_context::{TRACEPARENT, TRACESTATE, TraceContext},
    traced_span,
};
use hermes_serve::Principal;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode,
        GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
        InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use tokio::task::JoinSet;
use tracing::{Instrument as _, Span};

use super::{
    Bridge, ChannelPush,
    events::{Cursor, EventError},
    follow, prompts, resources, tools,
};

const INSTRUCTIONS: &str = "The conversations of this Hermes home on messaging platforms. Find one with \
     conversations_list, read it with messages_read, answer with messages_send. events_wait tells of new messages and \
     of approvals the agent waits for; permissions_respond decides on one, which only a person should.";

const CLAUDE_CHANNEL: &str = "claude/channel";

#[derive(Debug)]
pub struct BridgeConnection {
    bridge: Bridge,
    event_start: EventStart,
    watched: Arc<Mutex<BTreeSet<String>>>,
    /// The end of the log when `subscriptions/listen` was accepted: events after the acknowledgement
    /// may arrive before listening starts.
    accepted: Mutex<VecDeque<Option<Cursor>>>,
    /// The tasks that notify the client. They end with the connection.
    notifiers: Mutex<Notifiers>,
}

/// Where a connection's events start: with its MCP session, or with the process if it has none.
#[derive(Debug, Default)]
pub(super) struct EventStart(OnceLock<Cursor>);

impl EventStart {
    /// The cursor that stands for 0.
    pub(super) async fn cursor(&self, bridge: &Bridge) -> Result<Cursor, EventError> {
        match self.0.get() {
            Some(cursor) => Ok(*cursor),
            None => bridge.start_cursor().await,
        }
    }
}

#[derive(Debug, Default)]
struct Notifiers {
    tasks: JoinSet<()>,
    notifies_resources: bool,
    pushes_messages: bool,
}

impl BridgeConnection {
    pub(super) fn new(bridge: Bridge) -> Self {
        Self {
            bridge,
            event_start: EventStart::default(),
            watched: Arc::default(),
            accepted: Mutex::default(),
            notifiers: Mutex::default(),
        }
    }

    /// Whether new messages are pushed to this client.
    fn pushes_to(&self, client: &Implementation) -> bool {
        match self.bridge.push() {
            ChannelPush::Off => false,
            ChannelPush::On => true,
            ChannelPush::Auto => {
                let name = client.name.to_lowercase().replace([' ', '_'], "-");
                name.contains("claude-code")
            }
        }
    }

    fn notifiers(&self) -> MutexGuard<'_, Notifiers> {
        self.notifiers.lock()
    }

    fn lock_accepted(&self) -> MutexGuard<'_, VecDeque<Option<Cursor>>> {
        self.accepted.lock()
    }

    fn lock_watched(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.watched.lock()
    }

    /// The current end of the log.
    async fn log_end(&self) -> Result<Cursor, ErrorData> {
        let position = self.bridge.position().await;
        position.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

impl ServerHandler for BridgeConnection {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools_with(tools_capability())
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("hermes", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        // On stdio the session is the process. Over HTTP many sessions start in one process.
        if Principal::from_extensions(&context.extensions).is_some()
            && let Ok(position) = self.bridge.position().await
        {
            let _ = self.event_start.0.set(position);
        }
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        if self.pushes_to(&request.client_info) {
            let experimental = result.capabilities.experimental.get_or_insert_default();
            experimental.insert(CLAUDE_CHANNEL.to_owned(), JsonObject::new());
        }
        Ok(result)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let client = context.peer.peer_info();
        if !client.is_some_and(|client| self.pushes_to(&client.client_info)) {
            return;
        }
        // The task waits for a log that cannot be read yet.
        let from = self.bridge.position().await.ok();
        let feed = self.bridge.feed().await.clone();
        let mut tellers = self.notifiers();
        if !std::mem::replace(&mut tellers.pushes_messages, true) {
            let push = follow::push_messages(self.bridge.clone(), feed, from, context.peer);
            tellers.tasks.spawn(push);
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list_tools(
            self.bridge.access(),
        )))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.as_ref();
        let name = &request.name;
        let result = tools::call_tool(&self.bridge, &self.event_start, name, arguments, &context)
            .instrument(call_span(name, &context))
            .await;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = resources::list_resources(&self.bridge).await?;
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::list_templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read_resource(&self.bridge, &request.uri)
            .await
            .map(Into::into)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let uri = follow::canonical_uri(&request.uri);
        if !follow::can_be_watched(&uri) {
            return Err(resources::not_found(&uri));
        }
        let from = self.log_end().await?;
        let feed = self.bridge.feed().await.clone();
        self.lock_watched().insert(uri);
        let mut tellers = self.notifiers();
        if !std::mem::replace(&mut tellers.notifies_resources, true) {
            let watched = Arc::clone(&self.watched);
            let tell = follow::notify_resources(feed, from, context.peer, watched);
            tellers.tasks.spawn(tell);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.lock_watched()
            .remove(&follow::canonical_uri(&request.uri));
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.lock_accepted().push_back(self.bridge.known_position());
        let uris = requested.resource_subscriptions.iter().flatten();
        let uris: Vec<String> = uris
            .filter(|uri| follow::can_be_watched(uri))
            .cloned()
            .collect();
        Some(
            SubscriptionFilter::builder()
                .resource_subscriptions(uris)
                .build(),
        )
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let known = self.lock_accepted().pop_front().flatten();
        let from = match known {
            Some(known) => known,
            None => self.log_end().await?,
        };
        follow::serve_subscription(self.bridge.feed().await.clone(), from, &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list_prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.as_ref();
        let prompt = prompts::render_prompt(&self.bridge, &request.name, arguments).await;
        prompt.map(Into::into)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A known method arrives here if its parameters are invalid.
        const KNOWN: [&str; 3] = ["tools/call", "resources/read", "prompts/get"];
        let is_legacy = context
            .protocol_version()
            .is_none_or(|version| version <= ProtocolVersion::LATEST_WITH_INITIALIZE);
        let method = request.method;
        let is_known =
            KNOWN.contains(&method.as_str()) || (is_legacy && method == "resources/subscribe");
        Err(if is_known {
            ErrorData::invalid_params(format!("Invalid params for {method}"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
        })
    }
}

/// The list of tools never changes.
fn tools_capability() -> rmcp::model::ToolsCapability {
    let mut tools = rmcp::model::ToolsCapability::default();
    tools.list_changed = Some(false);
    tools
}

/// The exported span of a client's call, in the trace that its `_meta` or the headers of its request name.
fn call_span(tool: &str, context: &RequestContext<RoleServer>) -> Span {
    if !hermes_config::trace_context::is_on() {
        return Span::none();
    }
    let span = traced_span!(
        "tools/call",
        otel.name = format!("tools/call {tool}"),
        otel.kind = "server",
        mcp.method.name = "tools/call",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool
    );
    let meta = &context.meta;
    let of_meta = TraceContext::receive(meta.get_traceparent(), meta.get_tracestate());
    let of_headers = || {
        let headers = &context
            .extensions
            .get::<axum::http::request::Parts>()?
            .headers;
        let text = |name: &str| headers.get(name)?.to_str().ok();
        TraceContext::receive(text(TRACEPARENT), text(TRACESTATE))
    };
    if let Some(parent) = of_meta.or_else(of_headers) {
        parent.adopt(&span);
    }
    span
}
