//! When a request is made again, on a clock that runs ahead.

use std::sync::Mutex;

use tokio::time::Instant;

use super::*;
use crate::model::ModelProblem;

/// What a model does when it is asked: says something, then succeeds or fails.
pub(crate) struct Scripted(Mutex<Vec<(&'static str, Option<ModelProblem>)>>);

impl Scripted {
    pub(crate) fn new(mut attempts: Vec<(&'static str, Option<ModelProblem>)>) -> Self {
        attempts.reverse();
        Self(Mutex::new(attempts))
    }
}

impl Model for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn provider(&self) -> &'static str {
        "test"
    }

    fn context_length(&self) -> Option<u32> {
        None
    }

    fn complete<'a>(
        &'a self,
        _request: &'a ModelRequest<'a>,
        sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let (text, problem) = self.0.lock().unwrap().pop().expect("asked too often");
        if !text.is_empty() {
            sink(ModelEvent::TextDelta(text.into()));
        }
        let result = match problem {
            None => Ok(ModelReply {
                text: text.into(),
                ..ModelReply::default()
            }),
            Some(problem) => Err(ModelError {
                provider: "test".into(),
                problem,
            }),
        };
        async move { result }.boxed()
    }
}

pub(crate) fn cut() -> ModelProblem {
    ModelProblem::Truncated { reason: "x".into() }
}

pub(crate) fn refused(status: u16, seconds: Option<u64>) -> ModelProblem {
    ModelProblem::Refused {
        status,
        retry_after: seconds.map(Duration::from_secs),
        message: "x".into(),
    }
}

async fn ask(
    attempts: Vec<(&'static str, Option<ModelProblem>)>,
    shown_text: TextDelivery,
) -> (Result<ModelReply, ModelError>, Vec<ModelEvent>) {
    let model = RetryingModel::new(Scripted::new(attempts), RetryPolicy::new(3));
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

fn pauses(events: &[ModelEvent]) -> Vec<Duration> {
    events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Retrying { after, .. } => Some(*after),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn passing_failures_are_tried_three_times_with_doubling_pauses() {
    let begun = Instant::now();
    let attempts = vec![
        ("", Some(refused(500, None))),
        ("", Some(cut())),
        ("", Some(refused(503, None))),
        ("hi", None),
    ];
    let (result, events) = ask(attempts, TextDelivery::Final).await;
    assert_eq!(result.unwrap().text, "hi");
    let pauses = pauses(&events);
    for (pause, seconds) in pauses.iter().zip([1.0, 2.0, 4.0]) {
        let pause = pause.as_secs_f64();
        assert!((seconds * 0.8..=seconds * 1.2).contains(&pause), "{pause}");
    }
    assert_eq!(pauses.len(), 3);
    assert!(begun.elapsed() >= pauses.iter().sum::<Duration>());
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_is_the_error() {
    let attempts = vec![("", Some(cut())); 3]
        .into_iter()
        .chain([("", Some(refused(502, None)))])
        .collect();
    let (result, events) = ask(attempts, TextDelivery::Final).await;
    assert_eq!(result.unwrap_err().status(), Some(502));
    assert_eq!(events.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_providers_own_pause_is_kept() {
    let limited = ModelProblem::RateLimited {
        retry_after: Some(Duration::from_secs(17)),
        message: "x".into(),
    };
    let (result, events) = ask(vec![("", Some(limited)), ("hi", None)], TextDelivery::Final).await;
    assert!(result.is_ok());
    assert_eq!(pauses(&events), [Duration::from_secs(17)]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_an_hour_is_not_waited_for() {
    let (result, events) = ask(
        vec![("", Some(refused(503, Some(3600))))],
        TextDelivery::Final,
    )
    .await;
    assert_eq!(
        result.unwrap_err().retry_after(),
        Some(Duration::from_hours(1))
    );
    assert_eq!(events, []);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_is_not_tried_again() {
    for problem in [
        refused(400, None),
        ModelProblem::KeyRefused {
            status: 401,
            key: "k".into(),
            message: "x".into(),
        },
        ModelProblem::ContextOverflow {
            limit: None,
            message: "x".into(),
        },
        ModelProblem::Malformed { reason: "x".into() },
        ModelProblem::TimedOut {
            after: Duration::from_mins(10),
            again: false,
        },
    ] {
        let (result, events) = ask(vec![("", Some(problem.clone()))], TextDelivery::Final).await;
        assert_eq!(result.unwrap_err().problem, problem);
        assert_eq!(events, []);
    }
}

#[tokio::test(start_paused = true)]
async fn text_that_was_shown_stays_the_last_word() {
    let (result, events) = ask(vec![("Hel", Some(cut()))], TextDelivery::Final).await;
    assert!(result.is_err());
    assert_eq!(events, [ModelEvent::TextDelta("Hel".into())]);
}

#[tokio::test(start_paused = true)]
async fn revocable_text_is_taken_back_before_the_next_attempt() {
    let attempts = vec![("Hel", Some(cut())), ("Hello", None)];
    let (result, events) = ask(attempts, TextDelivery::Revocable).await;
    assert_eq!(result.unwrap().text, "Hello");
    assert_eq!(events[1], ModelEvent::TextRetracted);
    assert!(matches!(
        events[2],
        ModelEvent::Retrying {
            retry: 1,
            of: 3,
            ..
        }
    ));
    assert_eq!(events[3], ModelEvent::TextDelta("Hello".into()));
}
