//! Groups: who is meant.

use super::*;

const GROUP: i64 = -5001;

#[test]
fn in_a_group_a_mention_is_answered_and_talk_is_not() {
    let home = ChatHome::new(ModelScript::echo());
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    home.telegram
        .message(GROUP, ADA)
        .text("just talking")
        .send();
    let asked = home
        .telegram
        .message(GROUP, ADA)
        .text(&format!("@{name} what now"))
        .send();
    let answers = home.wait_for_answers(GROUP, 1);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains("what now"), "{answers:?}");
    let shown = home.telegram.messages(GROUP);
    let answer = shown.iter().find(|message| message.is_from_bot).unwrap();
    assert_eq!(answer.reply_to, Some(asked));
    assert!(!home.last_turn().to_string().contains("just talking"));
}

#[test]
fn what_is_only_overheard_is_known_later_where_that_is_wanted() {
    let home = ChatHome::with_more(ModelScript::echo(), "observe_groups: true");
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    home.telegram
        .message(GROUP, ADA)
        .text("the door is red")
        .send();
    home.telegram
        .message(GROUP, ADA)
        .text(&format!("@{name} which colour"))
        .send();
    home.wait_for_answers(GROUP, 1);
    assert_eq!(home.turns().len(), 1);
    assert!(home.last_turn().to_string().contains("the door is red"));
}

#[test]
fn a_group_that_becomes_a_supergroup_keeps_its_conversation() {
    let home = ChatHome::new(ModelScript::echo());
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let gateway = home.start();
    let name = home.telegram.bot_username();
    home.telegram
        .message(GROUP, ADA)
        .text(&format!("@{name} apples"))
        .send();
    home.wait_for_answers(GROUP, 1);
    let new = home.telegram.migrate_group(GROUP);
    home.telegram
        .message(new, ADA)
        .text(&format!("@{name} pears"))
        .send();
    home.wait_for_answers(new, 1);
    let asked = home.last_turn().to_string();
    assert!(
        asked.contains("apples") && asked.contains("pears"),
        "{asked}"
    );
    let sessions = gateway.get("/api/sessions");
    assert_eq!(
        sessions["sessions"].as_array().unwrap().len(),
        1,
        "{sessions}"
    );
}

#[test]
fn an_answer_lands_in_the_topic_it_was_asked_in() {
    let home = ChatHome::new(ModelScript::echo());
    let forum = -1_001_234;
    home.telegram.set_privacy_mode(false);
    home.telegram.add_forum(forum, "Board");
    let topic = home.telegram.add_topic(forum, "Plans");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    let message = home
        .telegram
        .message(forum, ADA)
        .text(&format!("@{name} what now"));
    message.topic(topic).send();
    home.wait_for_answers(forum, 1);
    let shown = home.telegram.messages(forum);
    let answer = shown.iter().find(|message| message.is_from_bot).unwrap();
    assert_eq!(answer.topic, Some(topic));
}
