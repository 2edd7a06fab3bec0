//! Falls back to the next provider when one fails.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::sync::Mutex;
use tokio::time::Instant;

use super::{
    Model, ModelError, ModelEvent, ModelEventSink, ModelReply, ModelRequest, retry::DeliveredText,
};

/// How long a fallback is used first, so that not every call waits for the failed model.
const FALLBACK_DURATION: Duration = Duration::from_mins(1);

/// Models in order of preference.
pub struct FallbackModel {
    first: Arc<dyn Model>,
    others: Vec<Arc<dyn Model>>,
    /// The active fallback, and until when.
    active_fallback: Mutex<Option<(usize, Instant)>>,
}

impl FallbackModel {
    /// The first is used unless it fails.
    pub fn new(first: Arc<dyn Model>, others: Vec<Arc<dyn Model>>) -> Self {
        Self {
            first,
            others,
            active_fallback: Mutex::default(),
        }
    }

    /// The models in the order in which they are tried now, with their index among the others.
    fn order(&self) -> Vec<(Option<usize>, &Arc<dyn Model>)> {
        let active = *self.lock();
        let active = active
            .filter(|(_, until)| Instant::now() < *until)
            .map(|(index, _)| index);
        let mut order = vec![(None, &self.first)];
        order.extend(
            self.others
                .iter()
                .enumerate()
                .map(|(index, model)| (Some(index), model)),
        );
        order.sort_by_key(|(index, _)| *index != active);
        order
    }

    fn lock(&self) -> hermes_config::sync::MutexGuard<'_, Option<(usize, Instant)>> {
        self.active_fallback.lock()
    }

    fn record_answer(&self, index: Option<usize>) {
        let mut active = self.lock();
        match (index, *active) {
            (None, _) => *active = None,
            // The time starts at the failure of the first.
            (Some(index), Some((known, until))) if index == known && Instant::now() < until => {}
            (Some(index), _) => *active = Some((index, Instant::now() + FALLBACK_DURATION)),
        }
    }

    async fn complete_in_order(
        &self,
        request: &ModelRequest<'_>,
        sink: ModelEventSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut order = self.order().into_iter().peekable();
        if let Some((Some(_), model)) = order.peek() {
            sink(ModelEvent::FallbackActive {
                model: model.name().to_owned(),
                provider: model.provider().to_owned(),
            });
        }
        while let Some((index, model)) = order.next() {
            let mut shown = DeliveredText::default();
            let error = match model.complete(request, &mut shown.wrap_sink(sink)).await {
                Ok(reply) => {
                    self.record_answer(index);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            // A conversation that is too long has to be compacted, not sent elsewhere.
            let Some((_, next)) = order.peek().filter(|_| !error.is_context_overflow()) else {
                return Err(error);
            };
            if !shown.retract(request, sink) {
                return Err(error);
            }
            sink(ModelEvent::FallbackStarted {
                model: next.name().to_owned(),
                provider: next.provider().to_owned(),
                error,
            });
        }
        unreachable!("there is always a first")
    }
}

impl Model for FallbackModel {
    fn name(&self) -> &str {
        self.first.name()
    }

    fn provider(&self) -> &str {
        self.first.provider()
    }

    fn context_length(&self) -> Option<u32> {
        self.first.context_length()
    }

    fn supports_images(&self) -> bool {
        self.first.supports_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.complete_in_order(request, sink).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        ModelProblem, TextDelivery,
        retry::tests::{Scripted, cut, refused},
    };

    type Attempts = Vec<(&'static str, Option<ModelProblem>)>;

    fn chain(first: Attempts, second: Attempts) -> FallbackModel {
        FallbackModel::new(
            Arc::new(Scripted::new(first)),
            vec![Arc::new(Scripted::new(second))],
        )
    }

    async fn ask(
        model: &FallbackModel,
        shown_text: TextDelivery,
    ) -> (Result<ModelReply, ModelError>, Vec<ModelEvent>) {
        let request = ModelRequest {
            shown_text,
            ..ModelRequest::default()
        };
        let mut events = Vec::new();
        let result = model
            .complete(&request, &mut |event| events.push(event))
            .await;
        (result, events)
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_one_answers_and_the_caller_is_told() {
        let model = chain(vec![("", Some(refused(402, None)))], vec![("hi", None)]);
        let (result, events) = ask(&model, TextDelivery::Final).await;
        assert_eq!(result.unwrap().text, "hi");
        assert!(matches!(events[0], ModelEvent::FallbackStarted { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn the_stand_in_is_asked_first_for_a_minute() {
        let model = chain(
            vec![("", Some(cut())), ("first", None)],
            vec![("1", None), ("2", None)],
        );
        let text = |result: Result<ModelReply, ModelError>| result.unwrap().text;
        assert_eq!(text(ask(&model, TextDelivery::Final).await.0), "1");
        tokio::time::advance(Duration::from_secs(59)).await;
        let (result, events) = ask(&model, TextDelivery::Final).await;
        assert_eq!(text(result), "2");
        assert!(matches!(events[0], ModelEvent::FallbackActive { .. }));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(text(ask(&model, TextDelivery::Final).await.0), "first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversation_that_is_too_long_goes_nowhere_else() {
        let overflow = ModelProblem::ContextOverflow {
            limit: None,
            message: "x".into(),
        };
        let model = chain(vec![("", Some(overflow))], vec![]);
        let (result, events) = ask(&model, TextDelivery::Final).await;
        assert!(result.unwrap_err().is_context_overflow());
        assert_eq!(events, []);
    }

    #[tokio::test(start_paused = true)]
    async fn shown_text_is_taken_back_or_final() {
        let model = chain(vec![("Hel", Some(cut()))], vec![]);
        assert!(ask(&model, TextDelivery::Final).await.0.is_err());
        let model = chain(vec![("Hel", Some(cut()))], vec![("Hello", None)]);
        let (result, events) = ask(&model, TextDelivery::Revocable).await;
        assert_eq!(result.unwrap().text, "Hello");
        assert_eq!(events[1], ModelEvent::TextRetracted);
    }
}
