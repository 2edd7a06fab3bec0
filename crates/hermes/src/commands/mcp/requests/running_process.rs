//! Requests to servers through a running process of this home: no start, no handshake, and the server's state is shared.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hermes_config::{ServerName, Settings};
use hermes_mcp::{
    HostRequest, Progress, RequestOutcome, ServerRequestHandler, control,
    control::{ElicitCallback, ForwardedRequest, RequestCallbacks},
    protocol::{ElicitResult, ElicitationAction},
    server_request::{ConversationId, RequestOrigin},
};

use crate::{
    context::Context,
    failure::Failure,
    output::Output,
    question::{Questions, TerminalPerson},
    server_requests::ServerRequests,
};

/// The conversation that a call by hand belongs to.
pub(crate) const CONVERSATION: &str = "call";

/// What is asked of which server.
pub(in crate::commands) struct RoutedRequest<'a> {
    pub(in crate::commands) server: &'a ServerName,
    pub(in crate::commands) request: HostRequest,
    pub(in crate::commands) timeout: Option<Duration>,
}

/// Has a running process do it; `None` if none has the server. Dropped, the request is taken back.
pub(in crate::commands) async fn request_running_process(
    context: &Context,
    settings: &Settings,
    request: RoutedRequest<'_>,
) -> Result<Option<RequestOutcome>, Failure> {
    let screen = CallScreen::new(context.output);
    let answers = screen.server_requests(context, settings);
    let _present = answers
        .as_ref()
        .and_then(|answers| answers.register_presence(CONVERSATION));
    if let (Some(answers), Some(entry)) = (&answers, settings.server(request.server.as_str()))
        && let Ok(server) = &entry.server
    {
        // Whether it may ask at all.
        answers.handler().offered_capabilities(server);
    }
    let caller = RequestCallbacks {
        on_progress: screen.progress(),
        on_elicit: answers
            .as_ref()
            .map(|answers| answer_callback(answers.handler(), request.server)),
    };
    let question = ForwardedRequest {
        server: request.server.clone(),
        request: request.request,
        timeout: request.timeout,
        can_answer: false,
    };
    let report = control::request(&context.home, question, &caller).await;
    context.output.end_progress();
    report.transpose().map_err(|lost| {
        Failure::failed(lost.to_string())
            .about(request.server.clone())
            .hint(
                "it is not made again, as it may have been done; `--fresh` starts the server again",
            )
    })
}

/// Answers questions of the server as if it had been called from here.
fn answer_callback(handler: Arc<dyn ServerRequestHandler>, server: &ServerName) -> ElicitCallback {
    let origin = RequestOrigin {
        server: server.clone(),
        call: None,
        conversation: Some(ConversationId(CONVERSATION.into())),
    };
    Arc::new(move |request| {
        let (handler, origin) = (handler.clone(), origin.clone());
        Box::pin(async move {
            let answer = handler.elicit(origin, request).await;
            answer.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Decline))
        })
    })
}

/// The terminal while a call runs: progress, or a question of the server.
pub(crate) struct CallScreen {
    output: Output,
    is_asking: Arc<AtomicBool>,
}

impl CallScreen {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            output,
            is_asking: Arc::default(),
        }
    }

    /// If somebody is at the terminal, the server may ask.
    pub(crate) fn server_requests(
        &self,
        context: &Context,
        settings: &Settings,
    ) -> Option<ServerRequests> {
        if !Questions::new(false).can_ask() {
            return None;
        }
        let (output, is_asking) = (self.output, self.is_asking.clone());
        let person = TerminalPerson::new(Box::new(move || {
            output.end_progress();
            is_asking.store(true, Ordering::Relaxed);
            Box::new(QuestionGuard(is_asking.clone()))
        }));
        Some(ServerRequests::with_person(
            context,
            settings,
            Arc::new(person),
        ))
    }

    /// Shows progress where no question is.
    pub(crate) fn progress(&self) -> Arc<dyn Fn(&Progress) + Send + Sync> {
        let (output, is_asking) = (self.output, self.is_asking.clone());
        Arc::new(move |progress| {
            if !is_asking.load(Ordering::Relaxed) {
                output.progress(&describe_progress(progress));
            }
        })
    }
}

/// A question on the screen.
struct QuestionGuard(Arc<AtomicBool>);

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn describe_progress(progress: &Progress) -> String {
    let count = match progress.total {
        Some(total) => format!("{}/{total}", progress.progress),
        None => format!("{}", progress.progress),
    };
    match &progress.message {
        Some(message) => format!("{count} {message}"),
        None => count,
    }
}
