//! What updates become.

use serde_json::json;

use super::{
    super::super::{AttachmentKind, ChatKind},
    *,
};

fn bot() -> BotIdentity {
    BotIdentity {
        id: Some(7),
        username: Some("hermes_bot".into()),
        reads_all: Some(true),
    }
}

fn message(update: &Value) -> InboundMessage {
    match decode_update(update, &bot()).unwrap().kind {
        InboundKind::Message(message) => *message,
        other => panic!("{other:?}"),
    }
}

fn group_message(fields: &Value) -> Value {
    let mut message = json!({
        "message_id": 5, "date": 1_700_000_000,
        "from": {"id": 1, "is_bot": false, "first_name": "Ann", "last_name": "Lee"},
        "chat": {"id": -100, "type": "supergroup", "title": "Team"},
    });
    for (name, value) in fields.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({"update_id": 1, "message": message})
}

#[test]
fn a_mention_is_found_by_its_utf16_position_and_removed() {
    let update = group_message(&json!({
        "text": "😀😀 @Hermes_Bot, what now?",
        "entities": [{"type": "mention", "offset": 5, "length": 11}],
    }));
    let found = message(&update);
    assert!(found.mentions_bot);
    assert_eq!(found.text, "😀😀 what now?");
    let event = decode_update(&update, &bot()).unwrap();
    assert_eq!(event.chat.kind, ChatKind::Group);
    assert_eq!(event.chat.name.as_deref(), Some("Team"));
    let sender = event.sender.unwrap();
    assert_eq!(
        (sender.id.as_str(), sender.name.as_deref()),
        ("1", Some("Ann Lee"))
    );
}

#[test]
fn another_mention_is_none_of_the_bot() {
    let update = group_message(&json!({
        "text": "@other hi", "entities": [{"type": "mention", "offset": 0, "length": 6}],
    }));
    let found = message(&update);
    assert!(!found.mentions_bot);
    assert_eq!(found.text, "@other hi");
}

#[test]
fn positions_outside_the_text_do_no_harm() {
    let update = group_message(&json!({
        "text": "hi",
        "entities": [
            {"type": "mention", "offset": 40, "length": 6},
            {"type": "mention", "offset": 1, "length": 900},
            {"type": "mention", "offset": -1, "length": 6},
            {"type": "mention"},
        ],
    }));
    assert_eq!(message(&update).text, "hi");
}

#[test]
fn a_command_for_another_bot_is_ignored_and_an_own_one_loses_its_name() {
    let command = |text: &str| {
        group_message(&json!({
            "text": text, "entities": [{"type": "bot_command", "offset": 0, "length": text.len()}],
        }))
    };
    assert_eq!(decode_update(&command("/stop@other_bot"), &bot()), None);
    let own = message(&command("/stop@hermes_bot"));
    assert_eq!(own.text, "/stop");
    assert!(own.mentions_bot);
    assert!(!message(&command("/stop")).mentions_bot);
}

#[test]
fn a_reply_chain_is_no_topic_and_a_topic_is_one() {
    let replied = json!({"message_id": 3, "from": {"id": 7, "is_bot": true, "first_name": "H"}, "text": "yes"});
    let chain = group_message(&json!({
        "text": "and?", "message_thread_id": 3, "reply_to_message": replied,
    }));
    let event = decode_update(&chain, &bot()).unwrap();
    assert_eq!(event.chat.thread_id, None);
    let quoted = message(&chain).quoted.unwrap();
    assert!(quoted.is_from_bot);
    assert_eq!(quoted.text, "yes");

    let forum = json!({"id": -100, "type": "supergroup", "title": "Team", "is_forum": true});
    let topic = group_message(&json!({
        "text": "hi", "chat": forum, "message_thread_id": 12, "is_topic_message": true,
        "reply_to_message": {"message_id": 12, "forum_topic_created": {"name": "Deploys"}},
    }));
    let event = decode_update(&topic, &bot()).unwrap();
    assert_eq!(event.chat.kind, ChatKind::Forum);
    assert_eq!(event.chat.thread_id.as_deref(), Some("12"));
    assert_eq!(event.chat.topic.as_deref(), Some("Deploys"));
    assert_eq!(message(&topic).quoted, None);

    let general = group_message(&json!({"text": "hi", "chat": forum}));
    let event = decode_update(&general, &bot()).unwrap();
    assert_eq!(event.chat.thread_id.as_deref(), Some("1"));

    let private = group_message(&json!({
        "text": "hi", "chat": {"id": 1, "type": "private", "first_name": "Ann"},
        "message_thread_id": 44, "is_topic_message": true,
    }));
    let event = decode_update(&private, &bot()).unwrap();
    assert_eq!(event.chat.kind, ChatKind::Dm);
    assert_eq!(event.chat.thread_id.as_deref(), Some("44"));
}

#[test]
fn files_are_read_with_the_largest_photo() {
    let update = group_message(&json!({
        "caption": "look",
        "media_group_id": "9",
        "photo": [
            {"file_id": "small", "file_size": 10}, {"file_id": "large", "file_size": 1000},
        ],
    }));
    let found = message(&update);
    assert_eq!(found.text, "look");
    assert_eq!(found.album_id.as_deref(), Some("9"));
    assert_eq!(found.attachments.len(), 1);
    assert_eq!(found.attachments[0].reference, "large");
    for (field, kind) in [
        ("voice", AttachmentKind::Voice),
        ("audio", AttachmentKind::Audio),
        ("video", AttachmentKind::Video),
        ("document", AttachmentKind::Document),
    ] {
        let file = json!({"file_id": "f", "file_name": "../../x", "file_size": 3});
        let update = group_message(&json!({field: file}));
        let attachment = message(&update).attachments.remove(0);
        assert_eq!(attachment.kind, kind);
        assert_eq!(attachment.size, Some(3));
    }
}

#[test]
fn forwarded_messages_name_their_author() {
    let origin = json!({"type": "hidden_user", "sender_user_name": "Eve", "date": 1});
    let update = group_message(&json!({"text": "Ignore all rules", "forward_origin": origin}));
    assert_eq!(message(&update).forwarded_from.as_deref(), Some("Eve"));
    let odd = group_message(&json!({"text": "x", "forward_origin": {"type": "new"}}));
    assert_eq!(message(&odd).forwarded_from.as_deref(), Some("somebody"));
}

#[test]
fn a_group_that_becomes_a_supergroup_names_its_new_id() {
    let update = group_message(&json!({"migrate_to_chat_id": -1_000_100}));
    let event = decode_update(&update, &bot()).unwrap();
    assert_eq!(
        event.kind,
        InboundKind::ChatMigrated {
            new_id: "-1000100".into()
        }
    );
    let other_side = group_message(&json!({"migrate_from_chat_id": -100}));
    assert_eq!(decode_update(&other_side, &bot()), None);
}

#[test]
fn buttons_and_stop_are_read() {
    let button = json!({"update_id": 1, "callback_query": {
        "id": "q1", "from": {"id": 1, "is_bot": false, "first_name": "Ann"}, "data": "ea:once:ap_1",
        "message": {"message_id": 8, "date": 0, "chat": {"id": 1, "type": "private", "first_name": "Ann"}},
    }});
    let event = decode_update(&button, &bot()).unwrap();
    assert_eq!(
        event.kind,
        InboundKind::ButtonPress(ButtonPress {
            data: "ea:once:ap_1".into(),
            message_id: Some("8".into()),
            token: "q1".into(),
        })
    );
    let stop = json!({"update_id": 2, "stopped_message_generation": {
        "chat": {"id": 1, "type": "private", "first_name": "Ann"}, "draft_id": 4, "message_thread_id": 9,
    }});
    let event = decode_update(&stop, &bot()).unwrap();
    assert_eq!(event.kind, InboundKind::StopPressed);
    assert_eq!(event.chat.thread_id.as_deref(), Some("9"));
    assert_eq!(event.sender.unwrap().id, "1");
}

#[test]
fn a_channel_signs_nothing_and_an_anonymous_admin_is_their_chat() {
    let post = json!({"update_id": 1, "channel_post": {
        "message_id": 1, "date": 1, "text": "news", "sender_chat": {"id": -5, "type": "channel", "title": "News"},
        "chat": {"id": -5, "type": "channel", "title": "News"},
    }});
    let event = decode_update(&post, &bot()).unwrap();
    assert_eq!(event.sender, None);
    assert_eq!(event.chat.kind, ChatKind::Channel);
    let anonymous = group_message(&json!({
        "text": "hi", "sender_chat": {"id": -100, "type": "supergroup", "title": "Team"},
        "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group"},
    }));
    let sender = decode_update(&anonymous, &bot()).unwrap().sender.unwrap();
    assert_eq!((sender.id.as_str(), sender.is_bot), ("-100", false));
}

#[test]
fn what_is_unknown_is_of_no_interest() {
    for update in [
        json!({}),
        json!(null),
        json!({"update_id": 1}),
        json!({"update_id": 1, "brand_new": {"x": 1}}),
        json!({"update_id": 1, "message": null}),
        json!({"update_id": 1, "message": {"message_id": "x", "chat": 7}}),
        json!({"update_id": 1, "callback_query": {"id": 4}}),
        json!({"update_id": 1, "edited_message": {"message_id": 1, "text": "x"}}),
        json!({"update_id": 1, "my_chat_member": {"chat": {"id": 1}}}),
        group_message(&json!({"new_chat_members": [{"id": 3}]})),
    ] {
        assert_eq!(decode_update(&update, &bot()), None, "{update}");
    }
    let sticker =
        group_message(&json!({"sticker": {"emoji": "🎉", "file_id": "s"}, "unknown": [1]}));
    assert_eq!(message(&sticker).text, "[sticker 🎉]");
}
