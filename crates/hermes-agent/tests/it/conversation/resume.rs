//! Resuming stored sessions.

use hermes_agent::{
    conversation::{Conversation, ConversationError, CwdOnResume, SessionReference},
    message::{Message, Part},
    model::ModelOverrides,
    turn::TurnEvent,
};
use hermes_store::{EndReason, NewMessage, NewSession, Role, SessionId};
use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ConversationFixture, agent, send};

fn named(id: &SessionId) -> SessionReference {
    SessionReference::Named(id.as_str().to_owned())
}

#[tokio::test]
async fn a_resumed_session_has_its_list_of_things_to_do() {
    let item = |status: &str| json!({"id": "1", "content": "count herons", "status": status});
    let call = |status: &str| ScriptedAnswer::call("todo", &json!({"todos": [item(status)]}));
    let wrong = ScriptedAnswer::call("todo", &json!({"todos": "all of it"}));
    let answers = [
        call("pending"),
        call("in_progress"),
        wrong,
        ScriptedAnswer::text("I am at it."),
    ];
    let command = ConversationFixture::new(ModelScript::new(answers)).await;
    let mut conversation = command.begin();
    send(&mut conversation, "count the herons").await.unwrap();
    let (id, items) = (conversation.id().clone(), conversation.todo().items());
    assert_eq!(items.len(), 1);
    conversation.close(EndReason::CliClose).await.unwrap();
    let agent = agent(&command.home).await;
    let resumed = Conversation::resume(agent, &named(&id), command.setup()).await;
    assert_eq!(resumed.unwrap().todo().items(), items);
}

#[tokio::test]
async fn a_resumed_session_sends_what_it_sent_before() {
    let thinking = ScriptedAnswer::call("todo", &json!({})).with(|reply| {
        reply.reasoning = vec!["hm".into()];
        reply.text = vec!["Let me see.".into()];
    });
    let command = ConversationFixture::new(ModelScript::new([
        thinking,
        ScriptedAnswer::text("A heron."),
    ]))
    .await;
    let mut conversation = command.begin();
    let content = vec![
        Part::from_text("what is this"),
        Part::from_image_bytes("image/png", b"not really"),
    ];
    let mut nobody = |_: TurnEvent| {};
    conversation
        .send_user_message(content, &mut nobody, CancellationToken::new())
        .await
        .unwrap();
    let id = conversation.id().clone();
    let said = conversation.messages().to_vec();
    conversation.close(EndReason::CliClose).await.unwrap();
    let ended = command.agent.store().session(&id).await.unwrap().unwrap();
    assert_eq!(ended.end_reason.as_deref(), Some("cli_close"));

    // Notes written meanwhile must not change the prompt of the session.
    command.home.write("memories/MEMORY.md", "a new note");
    let agent = agent(&command.home).await;
    let mut resumed = Conversation::resume(agent, &named(&id), command.setup())
        .await
        .unwrap();
    assert_eq!(resumed.messages(), said);
    send(&mut resumed, "and now?").await.unwrap();
    let mut asked = command.asked();
    // Reasoning is sent back within its turn only.
    for message in asked.iter_mut().flatten() {
        message.as_object_mut().unwrap().remove("reasoning_content");
    }
    let (before, after) = (&asked[1], &asked[2]);
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after[before.len()]["content"], "A heron.");
    let prompts = command.prompts();
    assert_eq!(prompts[2], prompts[1]);
    let open = command.agent.store().session(&id).await.unwrap().unwrap();
    assert_eq!(open.ended_at, None);

    // A new session has the note.
    send(&mut command.begin(), "hi").await.unwrap();
    assert!(command.prompts()[3].contains("a new note"));
}

#[tokio::test]
async fn sessions_are_found_by_id_beginning_title_and_age() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let mut first = command.begin();
    send(&mut first, "one").await.unwrap();
    first.set_title("The first").await.unwrap();
    // Ids of the same second differ only in their random end.
    let store = command.agent.store();
    let mut later = NewSession::new(SessionId::parse("99990101_000000_abcdef").unwrap(), "cli");
    later.started_at = Some(hermes_store::epoch_seconds() + 10.0);
    store.create_session(&later).await.unwrap();

    let find = async |which: SessionReference| {
        let session = Conversation::resume(command.agent.clone(), &which, command.setup()).await;
        session.map(|conversation| conversation.id().clone())
    };
    let titled = |title: &str| SessionReference::Titled(title.into());
    let newest = || SessionReference::Newest {
        source: "cli".into(),
    };
    assert_eq!(find(named(first.id())).await.unwrap(), *first.id());
    assert_eq!(
        find(SessionReference::Named("The first".into()))
            .await
            .unwrap(),
        *first.id()
    );
    assert_eq!(
        find(SessionReference::Named("9999".into())).await.unwrap(),
        later.id
    );
    assert_eq!(find(titled("The first")).await.unwrap(), *first.id());
    assert_eq!(find(newest()).await.unwrap(), later.id);
    assert!(matches!(
        find(titled("nothing")).await,
        Err(ConversationError::NoSuchSession { .. })
    ));
    let nothing = SessionReference::Newest {
        source: "telegram".into(),
    };
    assert!(matches!(
        find(nothing).await,
        Err(ConversationError::NothingToContinue)
    ));
}

#[tokio::test]
async fn calls_that_were_open_when_the_process_died_get_results() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let store = command.agent.store();
    let id = SessionId::parse("dead").unwrap();
    store
        .create_session(&NewSession::new(id.clone(), "cli"))
        .await
        .unwrap();
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "terminal", "arguments": "{}"}});
    let asks = NewMessage {
        tool_calls: Some(json!([call("a"), call("b")])),
        ..NewMessage::without_content(Role::Assistant)
    };
    let result = NewMessage {
        tool_call_id: Some("a".into()),
        ..NewMessage::new(Role::Tool, "fine")
    };
    let messages = [NewMessage::new(Role::User, "go"), asks, result];
    store.append_all(&id, &messages).await.unwrap();

    let mut resumed = Conversation::resume(command.agent.clone(), &named(&id), command.setup())
        .await
        .unwrap();
    let rows = command.rows(&id).await;
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[3].body.tool_call_id.as_deref(), Some("b"));
    send(&mut resumed, "go on").await.unwrap();
    let ids: Vec<Value> = command.asked()[0]
        .iter()
        .map(|message| message["tool_call_id"].clone())
        .collect();
    assert_eq!(
        ids,
        [
            Value::Null,
            Value::Null,
            json!("a"),
            json!("b"),
            Value::Null
        ]
    );
    // Resumed once more, nothing is added again.
    Conversation::resume(command.agent.clone(), &named(&id), command.setup())
        .await
        .unwrap();
    assert_eq!(command.rows(&id).await.len(), 6);
}

#[tokio::test]
async fn a_session_keeps_its_model_unless_another_is_wanted() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let mut conversation = command.begin();
    send(&mut conversation, "one").await.unwrap();
    conversation
        .set_model(Some("chosen".into()), None)
        .await
        .unwrap();
    send(&mut conversation, "two").await.unwrap();
    let id = conversation.id().clone();
    let mut resumed = Conversation::resume(command.agent.clone(), &named(&id), command.setup())
        .await
        .unwrap();
    send(&mut resumed, "three").await.unwrap();
    let mut setup = command.setup();
    setup.model_overrides = ModelOverrides {
        model: Some("wanted".into()),
        ..ModelOverrides::default()
    };
    let mut resumed = Conversation::resume(command.agent.clone(), &named(&id), setup)
        .await
        .unwrap();
    send(&mut resumed, "four").await.unwrap();
    let models: Vec<Value> = command
        .server
        .requests()
        .iter()
        .map(|request| request.body["model"].clone())
        .collect();
    assert_eq!(models, ["scripted", "chosen", "chosen", "wanted"]);
}

#[tokio::test]
async fn a_session_goes_on_without_its_model_if_that_is_gone() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let store = command.agent.store();
    let id = SessionId::parse("old").unwrap();
    let mut row = NewSession::new(id.clone(), "cli");
    row.model = Some("ancient".into());
    row.model_config = Some(json!({"provider": "nobody"}));
    store.create_session(&row).await.unwrap();
    let mut resumed = Conversation::resume(command.agent.clone(), &named(&id), command.setup())
        .await
        .unwrap();
    send(&mut resumed, "hi").await.unwrap();
    assert_eq!(command.server.requests()[0].body["model"], "scripted");
    let notes = resumed.take_notes();
    assert!(notes[0].contains("`ancient`"), "{notes:?}");
}

#[tokio::test]
async fn a_session_returns_to_its_directory_if_it_is_there() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let elsewhere = command.home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut setup = command.setup();
    setup.cwd.clone_from(&elsewhere);
    let mut conversation = Conversation::new_cli(command.agent.clone(), setup);
    send(&mut conversation, "hi").await.unwrap();
    let id = conversation.id().clone();
    let resume = async |on_resume| {
        let mut setup = command.setup();
        setup.cwd_on_resume = on_resume;
        let resumed = Conversation::resume(command.agent.clone(), &named(&id), setup).await;
        resumed.unwrap().cwd().to_path_buf()
    };
    assert_eq!(resume(CwdOnResume::Restore).await, elsewhere);
    let here = command.home.path().join("work");
    assert_eq!(resume(CwdOnResume::Keep).await, here);
    std::fs::remove_dir(&elsewhere).unwrap();
    assert_eq!(resume(CwdOnResume::Restore).await, here);
}

#[tokio::test]
async fn a_conversation_that_went_on_under_another_id_is_followed() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let store = command.agent.store();
    let old = SessionId::parse("old").unwrap();
    let new = SessionId::parse("new").unwrap();
    store
        .create_session(&NewSession::new(old.clone(), "cli"))
        .await
        .unwrap();
    store
        .end_session(&old, EndReason::Compression)
        .await
        .unwrap();
    let mut row = NewSession::new(new.clone(), "cli");
    row.parent = Some(old.clone());
    store.create_session(&row).await.unwrap();
    store
        .append(&new, &NewMessage::new(Role::User, "summary"))
        .await
        .unwrap();
    let resumed = Conversation::resume(command.agent.clone(), &named(&old), command.setup())
        .await
        .unwrap();
    assert_eq!(*resumed.id(), new);
    assert_eq!(resumed.messages(), [Message::user("summary")]);
}

#[tokio::test]
async fn forgotten_messages_are_there_in_the_next_turn() {
    let answers = ["One heron.", "Two herons."].map(ScriptedAnswer::text);
    let command = ConversationFixture::new(ModelScript::new(answers)).await;
    let mut conversation = command.begin();
    // Nothing is stored yet, so nothing is forgotten.
    conversation.forget_messages();
    send(&mut conversation, "how many?").await.unwrap();
    assert!(conversation.message_bytes() > "how many?One heron.".len());
    let said = conversation.messages().to_vec();
    conversation.forget_messages();
    assert_eq!(conversation.message_bytes(), 0);
    send(&mut conversation, "and now?").await.unwrap();
    assert_eq!(conversation.messages()[..said.len()], said[..]);
    let asked = command.asked();
    assert_eq!(asked[1][..asked[0].len()], asked[0][..]);
}

#[tokio::test]
async fn a_resumed_session_knows_which_files_it_has_downloaded_unpacked_and_written() {
    let run = |command: &str| ScriptedAnswer::call("terminal", &json!({"command": command}));
    let write = json!({"path": "tool.py", "content": "print(1)"});
    // The download itself fails here, which does not matter: the file may come in another way.
    let before = [
        run("curl -so a.tgz http://127.0.0.1:9/a.tgz; true"),
        run("mkdir d && tar xzf a.tgz -C d; true"),
        run("echo 'echo ran' > d/run.sh; cp d/run.sh other.sh"),
        ScriptedAnswer::call("write_file", &write),
        run("mkdir own && printf 'all:\\n\\techo ran\\n' > own/Makefile"),
        ScriptedAnswer::text("done"),
    ];
    let after = [
        run("sh d/run.sh"),
        run("sh other.sh"),
        run("python3 tool.py"),
        run("make -C own"),
        ScriptedAnswer::text("done"),
    ];
    let fixture = ConversationFixture::new(ModelScript::new(before.into_iter().chain(after))).await;
    let mut conversation = fixture.begin();
    send(&mut conversation, "begin").await.unwrap();
    let id = conversation.id().clone();
    conversation.close(EndReason::CliClose).await.unwrap();
    let agent = agent(&fixture.home).await;
    let resumed = Conversation::resume(agent, &named(&id), fixture.setup()).await;
    send(&mut resumed.unwrap(), "go on").await.unwrap();
    let last = fixture.asked().pop().unwrap();
    let results = last.iter().filter(|message| message["role"] == "tool");
    let texts: Vec<&str> = results
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let (_, later) = texts.split_at(5);
    for text in &later[..3] {
        assert!(text.contains("not approved"), "{later:?}");
    }
    assert!(later[3].contains("ran"), "{later:?}");
}
