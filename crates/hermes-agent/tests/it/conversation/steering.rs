//! Undo, retry, models, other sessions, approvals.

use std::sync::Arc;

use hermes_agent::{
    approval::Decision,
    conversation::{
        Consent, Conversation, ConversationError, SessionIdInPrompt, SessionReference,
        UserInstructions,
    },
    message::Content,
    turn::TurnEvent,
};
use hermes_store::{EndReason, NewSession, SessionId, StoreError};
use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ConversationFixture, FixedApprover, pairs, send, settings};

#[tokio::test]
async fn turns_are_taken_back_and_tried_again() {
    let answers = ["1", "2", "3", "2 again"].map(ScriptedAnswer::text);
    let command = ConversationFixture::new(ModelScript::new(answers)).await;
    let mut conversation = command.begin();
    assert!(matches!(
        conversation.undo(1).await,
        Err(ConversationError::Store(StoreError::NothingToRewind { .. }))
    ));
    for text in ["one", "two", "three"] {
        send(&mut conversation, text).await.unwrap();
    }
    let undone = conversation.undo(1).await.unwrap();
    assert_eq!(undone.prompt, Content::from("three"));
    assert_eq!(conversation.messages().len(), 4);
    let mut nobody = |_: TurnEvent| {};
    let answer = conversation
        .retry(&mut nobody, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(answer.text, "2 again");
    let expected = [
        ("user", "one"),
        ("assistant", "1"),
        ("user", "two"),
        ("assistant", "2 again"),
    ];
    assert_eq!(pairs(&command.texts(conversation.id()).await), expected);
    let undone = conversation.undo(9).await.unwrap();
    assert_eq!((undone.turns, undone.prompt), (2, Content::from("one")));
    assert_eq!(conversation.messages().len(), 0);
    let session = conversation.session().await.unwrap().unwrap();
    assert_eq!(session.rewind_count, 4);
}

#[tokio::test]
async fn a_model_that_is_not_to_be_had_leaves_the_old_one() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let mut conversation = command.begin();
    send(&mut conversation, "one").await.unwrap();
    let refused = conversation
        .set_model(Some("x".into()), Some("nobody".into()))
        .await;
    assert!(matches!(refused, Err(ConversationError::NoModel(_))));
    send(&mut conversation, "two").await.unwrap();
    assert_eq!(command.server.requests()[1].body["model"], "scripted");
}

#[tokio::test]
async fn the_prompt_is_written_anew_for_another_model_and_after_a_reload() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let mut conversation = command.begin();
    send(&mut conversation, "one").await.unwrap();
    command.home.write("memories/MEMORY.md", "first note");
    send(&mut conversation, "two").await.unwrap();
    conversation
        .set_model(Some("other".into()), None)
        .await
        .unwrap();
    send(&mut conversation, "three").await.unwrap();
    command.home.write("memories/MEMORY.md", "second note");
    conversation.reload(settings(&command.home())).await;
    send(&mut conversation, "four").await.unwrap();
    let prompts = command.prompts();
    assert_eq!(prompts[0], prompts[1]);
    assert!(prompts[2].contains("first note"), "{}", prompts[2]);
    assert!(prompts[3].contains("second note"), "{}", prompts[3]);
    // The model that was chosen stays.
    assert_eq!(command.server.requests()[3].body["model"], "other");
    let session = conversation.session().await.unwrap().unwrap();
    assert_eq!(session.system_prompt.as_deref(), Some(prompts[3].as_str()));
    assert_eq!(session.model.as_deref(), Some("other"));
}

#[tokio::test]
async fn going_over_to_another_session_ends_this_one() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let mut conversation = command.begin();
    send(&mut conversation, "one").await.unwrap();
    let first = conversation.id().clone();
    let row = NewSession::new(SessionId::parse("second").unwrap(), "cli");
    conversation
        .start_new_session(row, EndReason::NewSession)
        .await
        .unwrap();
    assert_eq!(conversation.messages(), []);
    send(&mut conversation, "two").await.unwrap();
    let which = SessionReference::Named(first.as_str().to_owned());
    conversation
        .switch_session(&which, EndReason::ResumedOther)
        .await
        .unwrap();
    assert_eq!(*conversation.id(), first);
    assert_eq!(conversation.messages().len(), 2);
    let reason = async |id: &SessionId| {
        let session = command.agent.store().session(id).await.unwrap().unwrap();
        session.end_reason
    };
    assert_eq!(reason(&first).await, None);
    let second = SessionId::parse("second").unwrap();
    assert_eq!(reason(&second).await.as_deref(), Some("resumed_other"));
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_always_allowed_is_written_into_the_configuration() {
    let remove = |name: &str| {
        let command = format!("rm -r {name}");
        ScriptedAnswer::call("terminal", &json!({"command": command}))
    };
    let command_context = ConversationFixture::with_config(
        ModelScript::new([
            remove("a"),
            remove("b"),
            remove("a"),
            ScriptedAnswer::text("gone"),
        ]),
        "# what I allowed\ncommand_allowlist: [one]\n",
    )
    .await;
    let decider = FixedApprover::new(Decision::Always);
    let mut setup = command_context.setup();
    setup.consent = Consent::Ask(decider.clone());
    for name in ["a", "b"] {
        std::fs::create_dir(setup.cwd.join(name)).unwrap();
    }
    let work = setup.cwd.clone();
    let mut conversation = Conversation::new_cli(command_context.agent.clone(), setup);
    send(&mut conversation, "clear up").await.unwrap();
    assert!(!work.join("a").exists() && !work.join("b").exists());
    let asked = decider.asked.lock().unwrap().clone();
    // What was shown is allowed from then on, and nothing else of its kind.
    let shown: Vec<_> = asked
        .iter()
        .map(|request| request.subject.as_str())
        .collect();
    assert_eq!(shown, ["rm -r a", "rm -r b"]);
    let config = std::fs::read_to_string(command_context.home().config_file()).unwrap();
    assert!(config.contains("# what I allowed"), "{config}");
    let list = settings(&command_context.home()).document["command_allowlist"].clone();
    assert_eq!(list, json!(["one", "rm -r a", "rm -r b"]));
}

#[cfg(unix)]
#[tokio::test]
async fn consent_that_was_given_asks_nobody_but_not_everything_runs() {
    let commands = ["rm -r a", "rm -rf /"];
    let answers =
        commands.map(|command| ScriptedAnswer::call("terminal", &json!({"command": command})));
    let command_context = ConversationFixture::new(ModelScript::new(answers)).await;
    let mut setup = command_context.setup();
    setup.consent = Consent::AllowAll;
    std::fs::create_dir(setup.cwd.join("a")).unwrap();
    let removed = setup.cwd.join("a");
    let mut conversation = Conversation::new_cli(command_context.agent.clone(), setup);
    send(&mut conversation, "clear up").await.unwrap();
    assert!(!removed.exists());
    let texts = command_context.texts(conversation.id()).await;
    assert!(texts[4].1.contains("blocked"), "{texts:?}");
}

#[tokio::test]
async fn the_terms_of_a_conversation_shape_its_prompt() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    command.home.write("SOUL.md", "You are a heron.");
    let mut setup = command.setup();
    setup.user_instructions = UserInstructions::Ignored;
    setup.session_id = SessionIdInPrompt::Include;
    let mut conversation = Conversation::new_cli(command.agent.clone(), setup);
    conversation.set_missing_servers(&[hermes_agent::conversation::MissingServer {
        name: "weather".into(),
        reason: "it did not start".into(),
    }]);
    send(&mut conversation, "hi").await.unwrap();
    let prompt = &command.prompts()[0];
    assert!(!prompt.contains("heron"), "{prompt}");
    assert!(prompt.contains(conversation.id().as_str()), "{prompt}");
    assert!(prompt.contains("weather: it did not start"), "{prompt}");
    // That holds for this run alone.
    let session = conversation.session().await.unwrap().unwrap();
    assert!(!session.system_prompt.unwrap().contains("weather"));
}

#[tokio::test]
async fn approvals_follow_the_configuration() {
    let command_context = ConversationFixture::new(ModelScript::echo()).await;
    let conversation = command_context.begin();
    let run = async |command: &str| {
        let Value::Object(arguments) = json!({"command": command}) else {
            unreachable!("it is an object");
        };
        let progress = Arc::new(|_: &str| {});
        let cancel = CancellationToken::new();
        let called = conversation.call_tool("terminal", arguments, progress, cancel);
        called.await.unwrap()
    };
    assert!(!run("echo hi").await.is_error);
    assert!(run("rm -r nothing").await.text.contains("not approved"));
    let config = format!(
        "model: {{default: scripted, base_url: '{}'}}\n\
         approvals: {{deny: ['echo*']}}\n\
         command_allowlist: ['rm -r nothing']\n",
        command_context.server.base_url()
    );
    command_context.home.write_config(&config);
    command_context
        .agent
        .reload(settings(&command_context.home()))
        .await;
    assert!(run("echo hi").await.text.contains("approvals.deny"));
    assert!(!run("rm -r nothing").await.text.contains("not approved"));
}
