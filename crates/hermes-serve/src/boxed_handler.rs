//! Any handler as one type: rmcp's HTTP service is generic and large, and is so compiled once instead of once per
//! handler.

#![expect(
    deprecated,
    reason = "clients of the legacy era subscribe to resources and set a log level"
)]

use std::borrow::Cow;

use futures::future::BoxFuture;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult,
        DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};

type Request = RequestContext<RoleServer>;
type Notification = NotificationContext<RoleServer>;
type Reply<T> = Result<T, ErrorData>;

/// A handler of any kind.
pub(super) struct BoxedHandler(Box<dyn DynHandler>);

impl BoxedHandler {
    pub(super) fn new(handler: impl ServerHandler) -> Self {
        Self(Box::new(handler))
    }
}

/// Every method of [`ServerHandler`] that returns a future. One that rmcp adds has to be added here: without that, its
/// default would answer instead of the handler.
macro_rules! boxed_methods {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        /// [`ServerHandler`] in a form that can be a trait object.
        trait DynHandler: Send + Sync {
            fn get_info(&self) -> ServerConfig;
            fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]>;
            fn negotiate_initialize(
                &self,
                request: &InitializeRequestParams,
            ) -> Reply<InitializeResult>;
            fn get_tool(&self, name: &str) -> Option<Tool>;
            fn accepted_subscription_filter(
                &self,
                requested: &SubscriptionFilter,
            ) -> Option<SubscriptionFilter>;
            $(fn $name(&self, $($argument: $type),*) -> BoxFuture<'_, $output>;)*
        }

        impl<H: ServerHandler> DynHandler for H {
            fn get_info(&self) -> ServerConfig {
                ServerHandler::get_info(self)
            }

            fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
                ServerHandler::supported_protocol_versions(self)
            }

            fn negotiate_initialize(
                &self,
                request: &InitializeRequestParams,
            ) -> Reply<InitializeResult> {
                ServerHandler::negotiate_initialize(self, request)
            }

            fn get_tool(&self, name: &str) -> Option<Tool> {
                ServerHandler::get_tool(self, name)
            }

            fn accepted_subscription_filter(
                &self,
                requested: &SubscriptionFilter,
            ) -> Option<SubscriptionFilter> {
                ServerHandler::accepted_subscription_filter(self, requested)
            }

            $(fn $name(&self, $($argument: $type),*) -> BoxFuture<'_, $output> {
                Box::pin(ServerHandler::$name(self, $($argument),*))
            })*
        }

        impl ServerHandler for BoxedHandler {
            fn get_info(&self) -> ServerConfig {
                self.0.get_info()
            }

            fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
                self.0.supported_protocol_versions()
            }

            fn negotiate_initialize(
                &self,
                request: &InitializeRequestParams,
            ) -> Reply<InitializeResult> {
                self.0.negotiate_initialize(request)
            }

            fn get_tool(&self, name: &str) -> Option<Tool> {
                self.0.get_tool(name)
            }

            fn accepted_subscription_filter(
                &self,
                requested: &SubscriptionFilter,
            ) -> Option<SubscriptionFilter> {
                self.0.accepted_subscription_filter(requested)
            }

            $(fn $name(
                &self,
                $($argument: $type),*
            ) -> impl Future<Output = $output> + Send + '_ {
                self.0.$name($($argument),*)
            })*
        }
    };
}

boxed_methods! {
    ping(context: Request) -> Reply<()>;
    initialize(request: InitializeRequestParams, context: Request) -> Reply<InitializeResult>;
    discover(context: Request) -> Reply<DiscoverResult>;
    complete(request: CompleteRequestParams, context: Request) -> Reply<CompleteResult>;
    set_level(request: SetLevelRequestParams, context: Request) -> Reply<()>;
    get_prompt(request: GetPromptRequestParams, context: Request) -> Reply<GetPromptResponse>;
    list_prompts(request: Option<PaginatedRequestParams>, context: Request) -> Reply<ListPromptsResult>;
    list_resources(request: Option<PaginatedRequestParams>, context: Request) -> Reply<ListResourcesResult>;
    list_resource_templates(request: Option<PaginatedRequestParams>, context: Request) -> Reply<ListResourceTemplatesResult>;
    read_resource(request: ReadResourceRequestParams, context: Request) -> Reply<ReadResourceResponse>;
    listen(context: SubscriptionContext) -> Reply<()>;
    subscribe(request: SubscribeRequestParams, context: Request) -> Reply<()>;
    unsubscribe(request: UnsubscribeRequestParams, context: Request) -> Reply<()>;
    call_tool(request: CallToolRequestParams, context: Request) -> Reply<CallToolResponse>;
    list_tools(request: Option<PaginatedRequestParams>, context: Request) -> Reply<ListToolsResult>;
    on_custom_request(request: CustomRequest, context: Request) -> Reply<CustomResult>;
    on_cancelled(notification: CancelledNotificationParam, context: Notification) -> ();
    on_progress(notification: ProgressNotificationParam, context: Notification) -> ();
    on_initialized(context: Notification) -> ();
    on_roots_list_changed(context: Notification) -> ();
    on_custom_notification(notification: CustomNotification, context: Notification) -> ();
    get_task(request: GetTaskParams, context: Request) -> Reply<GetTaskResult>;
    update_task(request: UpdateTaskParams, context: Request) -> Reply<()>;
    cancel_task(request: CancelTaskParams, context: Request) -> Reply<()>;
}
