//! Answers, calls, and what goes wrong with them.

use hermes_agent::{
    message::{Message, ToolCall},
    tools,
    tools::tool::Concurrency,
    turn::{OnRepetition, TurnEnd, TurnError, TurnEvent},
};
use serde_json::json;

use super::{ScriptedModel, Step, TurnFixture, call, echo, failing};

#[tokio::test]
async fn an_answer_without_calls_ends_the_turn() {
    let mut setup = TurnFixture::new(Vec::new());
    let model = ScriptedModel::new([Step::Say("hello")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    assert_eq!(setup.messages.last(), Some(&Message::assistant("hello")));
    let (kept, detail) = &setup.surface.kept[0];
    assert_eq!(kept, &Message::assistant("hello"));
    assert_eq!(detail.finish.as_deref(), Some("stop"));
    assert_eq!(detail.model.as_deref(), Some("scripted"));
}

#[tokio::test]
async fn calls_are_run_and_their_results_go_back_to_the_model() {
    let mut setup = TurnFixture::new(tools::built_in_tools(tools::ToolDeps::default()));
    let path = setup.session.write("notes.txt", "remember the milk\n");
    let calls = vec![
        call("c1", "read_file", &json!({"path": path})),
        call(
            "c2",
            "write_file",
            &json!({"path": "new.txt", "content": "made"}),
        ),
    ];
    let model = ScriptedModel::new([Step::Call(calls), Step::Say("done")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    assert_eq!(setup.session.read("new.txt"), "made");
    let told = &model.asked()[1].messages;
    assert!(told[3].content().text().contains("remember the milk"));
    let roles: Vec<usize> = setup
        .surface
        .kept
        .iter()
        .map(|(message, _)| message.tool_calls().len())
        .collect();
    assert_eq!(roles, [2, 0, 0, 0], "the calls, two results, the answer");
    assert_eq!(
        setup.surface.shown_calls(),
        [">read_file", ">write_file", "<read_file", "<write_file"]
    );
}

#[tokio::test]
async fn what_the_user_says_during_a_call_follows_its_result_in_the_next_request() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    setup.surface.said_during_calls = vec![Message::user("in blue"), Message::user("please")];
    let calls = vec![call("c1", "echo", &json!({"text": "red"}))];
    let model = ScriptedModel::new([Step::Call(calls), Step::Say("blue")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].messages.len(), 2, "nothing was said yet");
    let told: Vec<String> = asked[1].messages[3..]
        .iter()
        .map(|message| message.content().text().into_owned())
        .collect();
    assert_eq!(told, ["red", "in blue", "please"]);
    assert_eq!(setup.messages.last(), Some(&Message::assistant("blue")));
}

#[tokio::test]
async fn unreadable_arguments_and_unknown_names_are_told_to_the_model() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    let calls = vec![
        ToolCall::new("c1", "echo", "{\"text\": "),
        ToolCall::new("c2", "echo", "[1]"),
        call("c3", "nonsense", &json!({})),
        call("c4", "echo", &json!({"text": "fine"})),
    ];
    let model = ScriptedModel::new([Step::Call(calls), Step::Say("sorry")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    let results = setup.surface.results();
    assert!(results[0].contains("not a JSON object"), "{}", results[0]);
    assert!(results[1].contains("not a JSON object"), "{}", results[1]);
    assert_eq!(results[2], "{\"error\":\"Unknown tool: nonsense\"}");
    assert_eq!(results[3], "fine");
}

#[tokio::test]
async fn at_the_limit_there_is_one_last_answer_without_tools() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    setup.limits.max_model_calls = 2;
    let again = |id: &str| Step::Call(vec![call(id, "echo", &json!({"text": id}))]);
    let model = ScriptedModel::new([again("c1"), again("c2"), Step::Say("so far")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::OutOfCalls));
    let may_call: Vec<bool> = model.asked().iter().map(|asked| asked.may_call).collect();
    assert_eq!(may_call, [true, true, false]);
    let is_told = |event: &TurnEvent| matches!(event, TurnEvent::LimitReached);
    assert!(setup.surface.events.iter().any(is_told));
}

#[tokio::test]
async fn a_model_that_calls_on_at_the_limit_is_not_listened_to() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    setup.limits.max_model_calls = 0;
    let calls = vec![call("c1", "echo", &json!({"text": "x"}))];
    let model = ScriptedModel::new([Step::Call(calls)]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::OutOfCalls));
    let last = setup.messages.last().unwrap();
    assert!(last.tool_calls().is_empty());
    assert!(last.content().text().contains("limit of 0"));
    assert!(setup.surface.shown_calls().is_empty());
}

#[tokio::test]
async fn a_model_in_a_circle_is_told_so() {
    let mut setup = TurnFixture::new(vec![failing(), echo(Concurrency::Parallel)]);
    let fail = || Step::Call(vec![call("f", "failing", &json!({"a": 1}))]);
    let same = || Step::Call(vec![call("e", "echo", &json!({"text": "x"}))]);
    let model = ScriptedModel::new([fail(), fail(), same(), same(), Step::Say("I see")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    let noted: Vec<bool> = setup
        .surface
        .results()
        .iter()
        .map(|text| text.contains("Note:"))
        .collect();
    assert_eq!(noted, [false, true, false, true]);
}

#[tokio::test]
async fn a_circle_ends_the_turn_if_that_is_wanted() {
    let mut setup = TurnFixture::new(vec![failing(), echo(Concurrency::Parallel)]);
    setup.limits.on_repetition = OnRepetition::Stop;
    // The good call at the end does not hide the bad one before it.
    let step = |n: &str| {
        let fail = call("f", "failing", &json!({"a": 1}));
        Step::Call(vec![fail, call(n, "echo", &json!({"text": n}))])
    };
    let model = ScriptedModel::new([step("1"), step("2")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::RepetitionStopped));
}

#[tokio::test]
async fn a_message_that_cannot_be_stored_ends_the_turn() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    setup.surface.message_limit = Some(1);
    let calls = vec![call("c1", "echo", &json!({"text": "x"}))];
    let model = ScriptedModel::new([Step::Call(calls)]);
    let error = setup.run(&model).await.unwrap_err();
    assert!(matches!(error, TurnError::Persist(_)), "{error}");
    assert!(error.to_string().contains("disk is full"));
    assert_eq!(model.asked().len(), 1);
}
