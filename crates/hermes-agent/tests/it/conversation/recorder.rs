//! What a turn stores, and when.

use std::time::{Duration, Instant};

use hermes_agent::{
    conversation::ConversationError,
    model::{ModelEvent, ModelProblem},
    turn::{TurnEnd, TurnError, TurnEvent},
};
use hermes_testkit::{
    eventually, eventually_some,
    model::{ModelScript, ModelServer, ScriptedAnswer, ScriptedCall, ScriptedReply, ScriptedUsage},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ConversationFixture, agent, pairs, send};

#[tokio::test]
async fn an_exchange_is_stored_with_what_it_took() {
    let answer = ScriptedAnswer::pieces(["Hello ", "there"]).with(|reply| {
        reply.usage = Some(ScriptedUsage {
            prompt: 100,
            cached: 40,
            completion: 7,
        });
    });
    let command = ConversationFixture::new(ModelScript::new([answer])).await;
    let mut conversation = command.begin();
    assert!(!conversation.is_stored());
    let mut pieces = Vec::new();
    let mut display = |event| {
        if let TurnEvent::Model(ModelEvent::TextDelta(text)) = event {
            pieces.push(text);
        }
    };
    let answer = conversation
        .send_user_message("hi", &mut display, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(pieces, ["Hello ", "there"]);
    assert_eq!(answer.text, "Hello there");
    assert_eq!(answer.usage.model_calls, 1);

    let id = conversation.id().clone();
    assert_eq!(
        pairs(&command.texts(&id).await),
        [("user", "hi"), ("assistant", "Hello there")]
    );
    let (session, models) = conversation.usage().await.unwrap();
    let session = session.unwrap();
    assert_eq!(session.source, "cli");
    assert_eq!(session.model.as_deref(), Some("scripted"));
    assert_eq!(session.message_count, 2);
    assert_eq!(
        session.cwd.unwrap(),
        conversation.cwd().display().to_string()
    );
    let usage = &session.usage;
    assert_eq!((usage.api_calls, usage.input_tokens), (1, 60));
    assert_eq!((usage.cache_read_tokens, usage.output_tokens), (40, 7));
    assert_eq!(models.len(), 1);
    assert_eq!(models[0].model, "scripted");
    assert_eq!(models[0].usage.output_tokens, 7);
    assert_eq!(session.system_prompt.unwrap(), command.prompts()[0]);
}

#[tokio::test]
async fn the_users_message_is_stored_before_the_model_is_asked() {
    let command = ConversationFixture::new(ModelScript::new([ScriptedAnswer::Silence])).await;
    let mut conversation = command.begin();
    let id = conversation.id().clone();
    let cancel = CancellationToken::new();
    let mut nobody = |_: TurnEvent| {};
    let said = conversation.send_user_message("are you there", &mut nobody, cancel.clone());
    let watched = async {
        let asked = eventually(Duration::from_mins(1), || {
            !command.server.requests().is_empty()
        });
        assert!(asked.await);
        let stored = command.texts(&id).await;
        cancel.cancel();
        stored
    };
    let (answer, stored) = tokio::join!(said, watched);
    assert_eq!(answer.unwrap().end, TurnEnd::Interrupted);
    assert_eq!(pairs(&stored), [("user", "are you there")]);
    // The conversation goes on from there.
    let answer = send(&mut conversation, "again").await.unwrap();
    assert_eq!(answer.text, "again");
    assert_eq!(command.asked()[1].len(), 2);
}

#[tokio::test]
async fn without_a_model_nothing_is_stored() {
    let command = ConversationFixture::with_config(ModelScript::echo(), "").await;
    command.home.write_config("model: {autodetect: false}\n");
    let agent = agent(&command.home).await;
    let mut conversation =
        hermes_agent::conversation::Conversation::new_cli(agent, command.setup());
    let error = send(&mut conversation, "hi").await.unwrap_err();
    assert!(matches!(error, ConversationError::NoModel(_)), "{error}");
    assert!(conversation.session().await.unwrap().is_none());
}

#[tokio::test]
async fn a_refused_key_keeps_what_was_said_and_names_the_place_of_the_key() {
    let command = ConversationFixture::new(ModelScript::echo().with_key("another")).await;
    let mut conversation = command.begin();
    let error = send(&mut conversation, "hi").await.unwrap_err();
    let ConversationError::Turn(TurnError::Model(error)) = error else {
        panic!("{error}");
    };
    assert!(
        matches!(error.problem, ModelProblem::KeyRefused { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("api_key"), "{error}");
    let stored = command.texts(conversation.id()).await;
    assert_eq!(pairs(&stored), [("user", "hi")]);
}

#[tokio::test]
async fn broken_arguments_and_unknown_tools_are_results_like_others() {
    let broken = ScriptedCall {
        id: Some("a".into()),
        name: "read_file".into(),
        arguments: vec!["{\"path\": ".into()],
        ..ScriptedCall::default()
    };
    let unknown = ScriptedCall {
        id: Some("b".into()),
        name: "fly".into(),
        arguments: vec!["{}".into()],
        ..ScriptedCall::default()
    };
    let calls = ScriptedAnswer::Reply(ScriptedReply {
        calls: vec![broken, unknown],
        ..ScriptedReply::default()
    });
    let command =
        ConversationFixture::new(ModelScript::new([calls, ScriptedAnswer::text("I see")])).await;
    let mut conversation = command.begin();
    let answer = send(&mut conversation, "go").await.unwrap();
    assert_eq!(answer.text, "I see");
    assert_eq!(answer.usage.tool_calls.len(), 2);
    assert!(answer.usage.tool_calls.iter().all(|call| call.is_error));
    let texts = command.texts(conversation.id()).await;
    assert!(texts[2].1.contains("not a JSON object"), "{texts:?}");
    assert!(texts[3].1.contains("Unknown tool: fly"), "{texts:?}");
    let rows = command.rows(conversation.id()).await;
    assert_eq!(rows[2].body.tool_call_id.as_deref(), Some("a"));
    assert_eq!(rows[3].body.tool_name.as_deref(), Some("fly"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_tool_that_does_not_end_is_interrupted_and_has_a_result() {
    let slow = ScriptedAnswer::call("terminal", &json!({"command": "sleep 600"}));
    let command = ConversationFixture::new(ModelScript::new([slow])).await;
    let mut conversation = command.begin();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let mut display = move |event| {
        if matches!(event, TurnEvent::CallStarted(_)) {
            stop.cancel();
        }
    };
    let began = Instant::now();
    let answer = conversation
        .send_user_message("go", &mut display, cancel)
        .await
        .unwrap();
    assert_eq!(answer.end, TurnEnd::Interrupted);
    assert!(began.elapsed() < Duration::from_mins(1));
    let texts = command.texts(conversation.id()).await;
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[2].1.contains("interrupted"), "{texts:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_model_hears_of_background_processes_with_the_next_message() {
    let start = json!({"command": "echo finished", "background": true, "notify_on_complete": true});
    let command = ConversationFixture::new(ModelScript::new([
        ScriptedAnswer::call("terminal", &start),
        ScriptedAnswer::text("started"),
    ]))
    .await;
    let mut conversation = command.begin();
    send(&mut conversation, "go").await.unwrap();
    let heard = eventually_some(Duration::from_mins(1), async || {
        let answer = send(&mut conversation, "well?").await.unwrap();
        let is_told = answer.text.contains("has ended with code 0");
        is_told.then_some(answer.text)
    });
    assert!(heard.await.unwrap().contains("finished"));
    let rows = command.rows(conversation.id()).await;
    let told = rows.iter().filter_map(|row| row.body.api_content.as_ref());
    assert_eq!(told.count(), 1);
    // The store shows the user's own text; a resumed session sends what was sent.
    let texts = command.texts(conversation.id()).await;
    let said = texts.iter().filter(|(role, _)| role == "user");
    assert!(said.skip(1).all(|(_, text)| text == "well?"), "{texts:?}");
}

#[tokio::test]
async fn a_turn_that_is_dropped_goes_on_from_what_was_stored() {
    let call = ScriptedAnswer::call("todo", &json!({}));
    let command = ConversationFixture::new(ModelScript::new([call, ScriptedAnswer::Silence])).await;
    let mut conversation = command.begin();
    let mut nobody = |_: TurnEvent| {};
    let dropped = conversation.send_user_message("go", &mut nobody, CancellationToken::new());
    let asked_twice = eventually(Duration::from_mins(1), || {
        command.server.requests().len() >= 2
    });
    tokio::select! {
        _ = dropped => panic!("the model is silent"),
        asked = asked_twice => assert!(asked),
    }
    send(&mut conversation, "and now?").await.unwrap();
    let roles: Vec<Value> = command.asked()[2]
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
}

#[tokio::test]
async fn a_large_result_becomes_a_file_and_a_preview() {
    let text = "needle ".repeat(150_000);
    let command = ConversationFixture::new(ModelScript::new([
        ScriptedAnswer::call("skill_view", &json!({"name": "large"})),
        ScriptedAnswer::text("done"),
    ]))
    .await;
    let skill = format!("---\nname: large\ndescription: d\n---\n{text}");
    command.home.write("skills/large/SKILL.md", &skill);
    let mut conversation = command.begin();
    send(&mut conversation, "go").await.unwrap();
    let texts = command.texts(conversation.id()).await;
    let result = &texts[2].1;
    assert!(result.len() < 5_000, "{}", result.len());
    let (_, path) = result.split_once("<persisted-output path=\"").unwrap();
    let (path, _) = path.split_once('"').unwrap();
    assert!(std::path::Path::new(path).starts_with(command.home.path()));
    let whole = std::fs::read_to_string(path).unwrap();
    assert!(whole.len() > 1_000_000, "{}", whole.len());
}

#[tokio::test]
async fn two_agents_share_one_store() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let other = agent(&command.home).await;
    let mut first = command.begin();
    let mut second =
        hermes_agent::conversation::Conversation::new_cli(other.clone(), command.setup());
    let many = async |conversation: &mut _| {
        for number in 0..10 {
            send(conversation, &format!("message {number}"))
                .await
                .unwrap();
        }
    };
    tokio::join!(many(&mut first), many(&mut second));
    for id in [first.id(), second.id()] {
        assert_eq!(command.texts(id).await.len(), 20);
    }
}

#[tokio::test]
async fn what_a_stand_in_answers_is_booked_to_it_and_told_once_a_turn() {
    let second = ModelServer::start(ModelScript::new([
        counted("one", 50),
        ScriptedAnswer::call("todo", &json!({})),
        counted("two", 70),
    ]));
    let config = format!(
        "agent: {{api_max_retries: 0}}\n\
         providers: {{spare: {{base_url: '{}', model: other}}}}\n\
         fallback_providers: [spare]\n",
        second.base_url()
    );
    let script = ModelScript::new([ScriptedAnswer::status(500, "oops")]);
    let command = ConversationFixture::with_config(script, &config).await;
    let mut conversation = command.begin();
    let mut told = Vec::new();
    for text in ["first", "second"] {
        let mut display = |event: TurnEvent| match event {
            TurnEvent::Model(ModelEvent::FallbackStarted { model, .. }) => {
                told.push(format!("{text}: fell back to {model}"));
            }
            TurnEvent::Model(ModelEvent::FallbackActive { model, provider }) => {
                told.push(format!("{text}: {model} of {provider} stands in"));
            }
            _ => {}
        };
        let answer = conversation
            .send_user_message(text, &mut display, CancellationToken::new())
            .await
            .unwrap();
        assert_eq!(answer.usage.answered_by.unwrap().provider, "spare");
    }
    assert_eq!(
        told,
        [
            "first: fell back to other",
            "second: other of spare stands in"
        ]
    );
    let (_, models) = conversation.usage().await.unwrap();
    assert_eq!(models.len(), 1, "{models:?}");
    assert_eq!(models[0].model, "other");
    assert_eq!(models[0].usage.input_tokens, 120);
    let address = models[0].usage.billing_base_url.as_deref().unwrap();
    assert!(address.starts_with(&second.base_url()), "{address}");
}

fn counted(text: &str, prompt: u64) -> ScriptedAnswer {
    ScriptedAnswer::text(text).with(|reply| {
        reply.usage = Some(ScriptedUsage {
            prompt,
            cached: 0,
            completion: 3,
        });
    })
}
