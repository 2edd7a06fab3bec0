//! Takes what a server sends on its own: changes, progress, log messages, questions.

// Sampling, roots and logging are deprecated in the newest revision and still spoken by servers of every older one.
#![expect(deprecated, reason = "older revisions need them")]

use std::sync::{Arc, atomic::Ordering};

use hermes_config::Redactor;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ErrorCode, ErrorData, InputRequest,
        InputRequests, InputResponses, ListRootsResult, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, RequestId,
        ResourceUpdatedNotificationParam,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};

use super::{CallEvent, Progress, SessionActivity};
use crate::{connection::counters::Counters, server_request::ServerRequestHandler};

/// The longest log message of a server that is kept, in characters.
const MAX_LOG_CHARS: usize = 2_000;

/// The client's side of one session.
#[derive(Clone)]
pub(crate) struct SessionHandler {
    pub(crate) config: ClientConfig,
    pub(crate) activity: Arc<SessionActivity>,
    pub(crate) request_handler: Arc<dyn ServerRequestHandler>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) elicitation_timeout: std::time::Duration,
}

impl SessionHandler {
    /// Answers the questions of an `input_required` result.
    pub(crate) async fn answer_input_requests(
        &self,
        requests: InputRequests,
        origin: &RequestId,
    ) -> Result<InputResponses, ErrorData> {
        let answers = requests.into_iter().map(async |(key, request)| {
            let answer = match request {
                InputRequest::CreateMessage(request) => {
                    serde_json::to_value(self.sample(request.params, Some(origin)).await?)
                }
                InputRequest::Elicitation(request) => {
                    serde_json::to_value(self.elicit(request.params, Some(origin)).await)
                }
                InputRequest::ListRoots(_) => serde_json::to_value(self.roots(Some(origin)).await),
                _ => {
                    return Err(ErrorData::invalid_params(
                        "a question of an unknown kind",
                        None,
                    ));
                }
            };
            let answer =
                answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            Ok((key, answer))
        });
        let answers = futures::future::try_join_all(answers).await?;
        Ok(answers.into_iter().collect())
    }

    async fn sample(
        &self,
        request: CreateMessageRequestParams,
        origin: Option<&RequestId>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let (request_origin, _) = self.activity.request_origin(origin);
        let answer = self.request_handler.sample(request_origin, request).await;
        self.counters.record_sampling(answer.as_ref().ok());
        Ok(answer?.message)
    }

    async fn elicit(
        &self,
        request: ElicitRequestParams,
        origin: Option<&RequestId>,
    ) -> ElicitResult {
        let (request_origin, events) = self.activity.request_origin(origin);
        let tell = |event| events.as_ref().map(|events| events.send(event));
        tell(CallEvent::InputStarted);
        let answer = tokio::time::timeout(
            self.elicitation_timeout,
            self.request_handler.elicit(request_origin, request),
        )
        .await;
        tell(CallEvent::InputFinished);
        match answer {
            Ok(Ok(answer)) => {
                self.counters.record_elicitation(&answer.action);
                answer
            }
            Ok(Err(failed)) => self.decline_elicitation(&failed.to_string()),
            Err(_) => {
                self.counters.record_elicitation(&ElicitationAction::Cancel);
                ElicitResult::new(ElicitationAction::Cancel)
            }
        }
    }

    /// To a server, a question that could not be put to anybody was declined.
    fn decline_elicitation(&self, reason: &str) -> ElicitResult {
        let reason = self.redactor.redact(reason);
        tracing::warn!(server = %self.activity.server, %reason, "elicitation failed");
        self.counters.record_elicitation_failure();
        ElicitResult::new(ElicitationAction::Decline)
    }

    async fn roots(&self, origin: Option<&RequestId>) -> ListRootsResult {
        let (request_origin, _) = self.activity.request_origin(origin);
        ListRootsResult::new(self.request_handler.roots(request_origin).await)
    }
}

/// The request on whose stream a question came, where the transport can tell.
fn origin(context: &RequestContext<RoleClient>) -> Option<RequestId> {
    match context.extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.clone()),
        _ => None,
    }
}

impl ClientHandler for SessionHandler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let origin = origin(&context);
        tokio::select! {
            answer = self.sample(params, origin.as_ref()) => answer,
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let origin = origin(&context);
        tokio::select! {
            answer = self.elicit(request, origin.as_ref()) => Ok(answer),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    /// What could not be read as any known request: a form with fields of unknown kinds, for instance.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "elicitation/create" {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                request.method,
                None,
            ));
        }
        let declined = self.decline_elicitation("its form is not readable");
        let answer = serde_json::to_value(declined);
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(CustomResult::new(answer))
    }

    async fn list_roots(
        &self,
        context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots(origin(&context).as_ref()).await)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let progress = Progress {
            progress: params.progress,
            total: params.total,
            message: params.message,
        };
        self.activity
            .send_progress(&params.progress_token, progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.activity.changes.mark(&self.activity.changes.tools);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.activity.changes.mark(&self.activity.changes.resources);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.activity.changes.mark(&self.activity.changes.prompts);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.activity.publish_resource_update(params.uri);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match params.data {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        // Cut last: half a secret would not be recognised.
        let text: String = self
            .redactor
            .redact(&text)
            .chars()
            .take(MAX_LOG_CHARS)
            .collect();
        let server = &self.activity.server;
        let source = match params.logger {
            Some(logger) => format!("{server}/{logger}"),
            None => server.to_string(),
        };
        match params.level {
            LoggingLevel::Debug => tracing::debug!("{source}: {text}"),
            LoggingLevel::Info | LoggingLevel::Notice => tracing::info!("{source}: {text}"),
            LoggingLevel::Warning => tracing::warn!("{source}: {text}"),
            _ => tracing::error!("{source}: {text}"),
        }
    }
}

impl SessionActivity {
    pub(crate) fn publish_resource_update(&self, uri: String) {
        // Nobody listening is fine.
        let _ = self.resource_updates.send(uri);
    }

    /// Takes the marks of changed lists: tools, resources, prompts.
    pub(crate) fn take_changes(&self) -> (bool, bool, bool) {
        let take = |list: &std::sync::atomic::AtomicBool| list.swap(false, Ordering::AcqRel);
        (
            take(&self.changes.tools),
            take(&self.changes.resources),
            take(&self.changes.prompts),
        )
    }
}
