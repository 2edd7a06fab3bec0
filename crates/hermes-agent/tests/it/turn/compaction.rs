//! Conversations that outgrow the model's context.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use hermes_agent::{
    compact::{CompactionMethod, CompactionOutcome, CompactionReason, Compactor},
    message::Message,
    model::{Model, ModelError, ModelEventSink, ModelProblem, ModelReply, ModelRequest},
    tools::tool::Concurrency,
    turn::{TurnEnd, TurnError, TurnEvent, compact_and_store},
};
use hermes_config::CompressionSettings;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{ScriptedModel, Step, TurnFixture, assert_valid, call, echo};

/// Writes the same summary each time, or fails.
struct SummaryModel {
    summary: Result<&'static str, ModelProblem>,
    asked: Mutex<Vec<String>>,
}

impl SummaryModel {
    fn new(summary: Result<&'static str, ModelProblem>) -> Arc<Self> {
        Arc::new(Self {
            summary,
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Model for SummaryModel {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn provider(&self) -> &'static str {
        "test"
    }

    fn context_length(&self) -> Option<u32> {
        None
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        _sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let question = request
            .messages
            .last()
            .unwrap()
            .content()
            .text()
            .into_owned();
        self.asked.lock().unwrap().push(question);
        let reply = match &self.summary {
            Ok(text) => Ok(ModelReply {
                text: (*text).to_owned(),
                ..ModelReply::default()
            }),
            Err(problem) => Err(ModelError {
                provider: "scribe".into(),
                problem: problem.clone(),
            }),
        };
        Box::pin(std::future::ready(reply))
    }
}

fn refused() -> ModelProblem {
    ModelProblem::NotFound {
        model: "scribe".into(),
        message: "gone".into(),
    }
}

/// Rounds of a question, a call with a result of so many characters, and an answer.
fn history(rounds: usize, result: usize) -> Vec<Message> {
    let mut messages = vec![Message::system("be brief")];
    for n in 0..rounds {
        messages.push(Message::user(format!("question {n}")));
        let call = call(&format!("c{n}"), "echo", &json!({"n": n}));
        messages.push(Message::Assistant(
            hermes_agent::message::AssistantMessage {
                tool_calls: vec![call.clone()],
                ..Default::default()
            },
        ));
        messages.push(Message::tool(&call, "r".repeat(result)));
        messages.push(Message::assistant(format!(
            "answer {n} {}",
            "a".repeat(1_000)
        )));
    }
    messages.push(Message::user("and now?"));
    messages
}

fn compactor(context: u32, scribe: &Arc<SummaryModel>) -> Compactor {
    Compactor::new(
        CompressionSettings::default(),
        Some(context),
        Some(scribe.clone()),
    )
}

fn setup(messages: Vec<Message>, context: u32, scribe: &Arc<SummaryModel>) -> TurnFixture {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    setup.messages = messages;
    setup.compactor = Some(compactor(context, scribe));
    setup
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .map(|message| message.content().text().into_owned())
        .collect()
}

#[tokio::test]
async fn a_short_conversation_is_left_alone() {
    let scribe = SummaryModel::new(Ok("summary"));
    let mut setup = setup(history(3, 100), 32_000, &scribe);
    let model = ScriptedModel::new([Step::Say("hello")]);
    setup.run(&model).await.unwrap();
    assert!(setup.surface.replaced.is_empty() && scribe.asked().is_empty());
}

#[tokio::test]
async fn long_results_are_shortened_before_anything_is_summed_up() {
    let scribe = SummaryModel::new(Ok("summary"));
    let mut setup = setup(history(20, 10_000), 64_000, &scribe);
    let before = setup.messages.len();
    let model = ScriptedModel::new([Step::Say("hello")]);
    setup.run(&model).await.unwrap();
    let replaced = &setup.surface.replaced[0];
    assert_eq!(replaced.means, CompactionMethod::Shortened);
    assert_eq!(replaced.messages.len(), before);
    assert!(replaced.tokens_after < replaced.tokens_before);
    assert!(scribe.asked().is_empty());
    // The beginning and the end are as they were.
    let asked = &model.asked()[0].messages;
    assert_eq!(asked[3].content().text().len(), 10_000);
    assert!(
        asked[7]
            .content()
            .text()
            .contains("[shortened: 9600 characters more]")
    );
}

#[tokio::test]
async fn the_middle_is_summed_up_and_the_ends_stay() {
    let scribe = SummaryModel::new(Ok("they talked"));
    let old = history(80, 500);
    let mut setup = setup(old.clone(), 32_000, &scribe);
    let model = ScriptedModel::new([Step::Say("hello")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    let replaced = &setup.surface.replaced[0];
    assert_eq!(replaced.means, CompactionMethod::Summary);
    assert_valid(&replaced.messages);
    let new = &model.asked()[0].messages;
    assert_eq!(new, &replaced.messages);
    // The prompt and three messages at the beginning, twenty at the end; the end grows to keep a call and its result.
    assert_eq!(new[..4], old[..4]);
    assert!(new[4].content().text().contains("they talked"));
    assert_eq!(new[5..], old[old.len() - (new.len() - 5)..]);
    assert!((20..=22).contains(&(new.len() - 5)), "{}", new.len());
    assert_eq!(replaced.origins[3], Some(3));
    assert_eq!(replaced.origins[4], None);
    assert_eq!(replaced.origins.last(), Some(&Some(old.len() - 1)));
    let asked = scribe.asked();
    assert!(asked[0].contains("question 20") && !asked[0].contains("question 79"));
    let is_told = |event: &TurnEvent| {
        matches!(
            event,
            TurnEvent::Compacted {
                means: CompactionMethod::Summary,
                ..
            }
        )
    };
    assert!(setup.surface.events.iter().any(is_told));
}

#[tokio::test]
async fn what_the_provider_counts_decides() {
    let scribe = SummaryModel::new(Ok("summary"));
    let mut setup = setup(history(10, 500), 100_000, &scribe);
    let echo = |id: &str| vec![call(id, "echo", &json!({"text": id}))];
    // By characters this is short; the provider says that it is not.
    let model = ScriptedModel::new([Step::Counted(echo("n1"), 90_000), Step::Say("done")]);
    setup.run(&model).await.unwrap();
    assert_eq!(setup.surface.replaced.len(), 1);
    assert_eq!(setup.surface.replaced[0].tokens_before / 1_000, 90);
}

#[tokio::test]
async fn a_task_in_the_middle_of_a_long_turn_is_not_forgotten() {
    let scribe = SummaryModel::new(Ok("worked on it"));
    let mut messages = vec![Message::system("s")];
    messages.push(Message::user("hello"));
    messages.push(Message::assistant("hello"));
    messages.push(Message::user("hm"));
    messages.push(Message::assistant("yes?"));
    messages.push(Message::user("count all the sheep"));
    for n in 0..60 {
        let call = call(&format!("c{n}"), "echo", &json!({"n": n}));
        messages.push(Message::Assistant(
            hermes_agent::message::AssistantMessage {
                tool_calls: vec![call.clone()],
                ..Default::default()
            },
        ));
        messages.push(Message::tool(&call, format!("{n} {}", "r".repeat(590))));
    }
    let compactor = compactor(8_000, &scribe);
    let attempt = compactor
        .compact(&messages, &[], CompactionReason::Full, None)
        .await;
    let compacted = attempt.compacted.unwrap();
    assert_valid(&compacted.messages);
    let summary = compacted.messages[4].content().text().into_owned();
    assert!(
        summary.contains("worked on it") && summary.contains("count all the sheep"),
        "{summary}"
    );
}

#[tokio::test]
async fn a_refused_conversation_is_made_shorter_and_sent_once_more() {
    let scribe = SummaryModel::new(Ok("summary"));
    // Far below the threshold of what is thought to be the context.
    let mut setup = setup(history(40, 500), 200_000, &scribe);
    let full = || {
        Step::Fail(ModelProblem::ContextOverflow {
            limit: Some(16_000),
            message: "too long".into(),
        })
    };
    let model = ScriptedModel::new([full(), Step::Say("better")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    assert_eq!(setup.surface.replaced.len(), 1);
    let asked = model.asked();
    assert!(asked[1].messages.len() < asked[0].messages.len());
    // Refused again: that is the end.
    setup.messages.push(Message::user("more"));
    setup.messages.extend(history(40, 500).into_iter().skip(1));
    let model = ScriptedModel::new([full(), full()]);
    let error = setup.run(&model).await.unwrap_err();
    assert!(
        matches!(&error, TurnError::Model(error) if error.is_context_overflow()),
        "{error}"
    );
    assert_eq!(model.asked().len(), 2);
}

#[tokio::test]
async fn without_a_summary_the_oldest_results_go_and_the_user_is_told() {
    let scribe = SummaryModel::new(Err(refused()));
    let mut setup = setup(history(60, 550), 16_000, &scribe);
    let model = ScriptedModel::new([Step::Say("hello")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    let replaced = &setup.surface.replaced[0];
    assert_eq!(replaced.means, CompactionMethod::DroppedResults);
    assert_valid(&replaced.messages);
    let reported = texts(&replaced.messages);
    assert!(
        reported[7].contains("removed to save space"),
        "{}",
        reported[7]
    );
    assert_eq!(reported[3].len(), 550, "the beginning stays");
    let failure = &setup.surface.failures[0];
    assert!(failure.error.contains("gone"), "{}", failure.error);
    assert_eq!(failure.consecutive_failures, 1);
    assert!(failure.cooldown_until > SystemTime::now() + Duration::from_mins(5));
    let is_told = |event: &TurnEvent| matches!(event, TurnEvent::SummaryFailed(_));
    assert!(setup.surface.events.iter().any(is_told));
}

#[tokio::test]
async fn after_a_failure_nobody_is_asked_until_the_rest_is_over() {
    let scribe = SummaryModel::new(Ok("summary"));
    let until = SystemTime::now() + Duration::from_mins(5);
    let resting = compactor(16_000, &scribe).with_cooldown(until, 3);
    let messages = history(60, 550);
    let attempt = resting
        .compact(&messages, &[], CompactionReason::Full, None)
        .await;
    assert_eq!(
        attempt.compacted.unwrap().means,
        CompactionMethod::DroppedResults
    );
    assert!(scribe.asked().is_empty() && attempt.failure.is_none());
    // Who asks for it gets it.
    let attempt = resting
        .compact(&messages, &[], CompactionReason::Requested, None)
        .await;
    assert_eq!(attempt.compacted.unwrap().means, CompactionMethod::Summary);
    let over = compactor(16_000, &scribe).with_cooldown(SystemTime::UNIX_EPOCH, 3);
    let attempt = over
        .compact(&messages, &[], CompactionReason::Full, None)
        .await;
    assert_eq!(attempt.compacted.unwrap().means, CompactionMethod::Summary);
}

#[tokio::test]
async fn a_summary_is_carried_on_into_the_next_one() {
    let scribe = SummaryModel::new(Ok("first part"));
    let compactor = compactor(16_000, &scribe);
    let first = compactor
        .compact(&history(60, 550), &[], CompactionReason::Full, None)
        .await;
    let mut messages = first.compacted.unwrap().messages;
    messages.extend(history(60, 550).into_iter().skip(1));
    let second = compactor
        .compact(&messages, &[], CompactionReason::Full, None)
        .await;
    let asked = scribe.asked();
    assert!(asked[1].contains("EARLIER SUMMARY") && asked[1].contains("first part"));
    let marks = texts(&second.compacted.unwrap().messages);
    let marks = marks
        .iter()
        .filter(|text| text.starts_with("[Summary of the earlier"));
    assert_eq!(marks.count(), 1);
}

#[tokio::test]
async fn a_conversation_that_cannot_become_shorter_is_not_tried_at_every_call() {
    let scribe = SummaryModel::new(Ok("summary"));
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    setup.compactor = Some(compactor(4_000, &scribe));
    setup.messages = vec![Message::system("s"), Message::user("x".repeat(40_000))];
    let again = |id: &str| Step::Call(vec![call(id, "echo", &json!({"text": id}))]);
    let model = ScriptedModel::new([again("1"), again("2"), again("3"), Step::Say("done")]);
    setup.run(&model).await.unwrap();
    let tries = setup
        .surface
        .events
        .iter()
        .filter(|event| matches!(event, TurnEvent::Compacting(_)));
    assert_eq!(tries.count(), 1);
    assert!(setup.surface.replaced.is_empty());
}

#[tokio::test]
async fn another_process_at_work_is_not_disturbed() {
    let scribe = SummaryModel::new(Ok("summary"));
    let mut setup = setup(history(80, 500), 16_000, &scribe);
    setup.surface.is_locked = true;
    let model = ScriptedModel::new([Step::Say("hello")]);
    setup.run(&model).await.unwrap();
    assert!(setup.surface.replaced.is_empty() && scribe.asked().is_empty());
}

#[tokio::test]
async fn switched_off_it_happens_only_when_asked_for() {
    let scribe = SummaryModel::new(Ok("summary"));
    let off = CompressionSettings {
        enabled: false,
        ..CompressionSettings::default()
    };
    let mut setup = setup(history(80, 500), 16_000, &scribe);
    setup.compactor = Some(Compactor::new(off, Some(16_000), Some(scribe.clone())));
    let full = ModelProblem::ContextOverflow {
        limit: None,
        message: "too long".into(),
    };
    let model = ScriptedModel::new([Step::Fail(full)]);
    setup.run(&model).await.unwrap_err();
    assert!(setup.surface.replaced.is_empty());
    let ran = compact_and_store(
        setup.compactor.as_ref().unwrap(),
        &mut setup.messages,
        &[],
        (CompactionReason::Requested, None),
        &mut setup.surface,
        &CancellationToken::new(),
    )
    .await;
    assert_eq!(ran, Ok(CompactionOutcome::Compacted));
    assert!(setup.messages.len() < 40);
}

#[tokio::test]
async fn an_interrupt_ends_a_summary_too() {
    let mut setup = setup(history(80, 500), 16_000, &SummaryModel::new(Ok("")));
    let settings = CompressionSettings::default();
    let silent = ScriptedModel::new([Step::Hang("well")]);
    setup.compactor = Some(Compactor::new(
        settings,
        Some(16_000),
        Some(Arc::new(silent)),
    ));
    let before = setup.messages.clone();
    let cancel = setup.session.context.cancel.clone();
    setup.surface.watch = Some(Box::new(move |event| {
        if matches!(event, TurnEvent::Compacting(_)) {
            cancel.cancel();
        }
    }));
    let model = ScriptedModel::new([]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Interrupted));
    assert_eq!(setup.messages, before);
}
