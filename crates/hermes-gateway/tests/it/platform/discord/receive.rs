//! The connection: sessions that go on, sessions that end, and settings that keep it from working.

use std::{sync::Arc, time::Duration};

use hermes_gateway::platform::{
    ChatAddress, ChatKind, ChatMark, ConnectionState, MAX_MISSED_MESSAGES, PlatformClient as _,
    UpdateIntake as _,
};
use hermes_testkit::eventually;
use serde_json::json;

use super::{super::MemoryIntake, DiscordFixture, DiscordReceiver, LIMIT, client_with};

#[tokio::test]
async fn a_message_is_stored_under_its_number_and_only_once() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    let id = place.say("hello");
    place.server.repeat_last_event();
    let other = place.say("and again");
    receiver.wait_updates(2).await;
    let updates = receiver.intake.updates();
    let ids: Vec<&str> = updates
        .iter()
        .map(|update| update.event_id.as_str())
        .collect();
    assert_eq!(ids, [id.as_str(), other.as_str()]);
    assert_eq!(receiver.texts(), ["hello", "and again"]);
    // Guilds, messages in them and in private, and their texts.
    assert_eq!(place.server.last_intents(), 1 | 1 << 9 | 1 << 12 | 1 << 15);
}

#[tokio::test]
async fn after_a_restart_the_session_goes_on_without_a_gap() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    place.say("one");
    receiver.wait_updates(1).await;
    let intake = receiver.finish().await;
    assert!(eventually(LIMIT, || place.server.open_sockets() == 0).await);
    place.say("two");
    place.say("three");

    let receiver = DiscordReceiver::connect_with(&place, intake).await;
    receiver.wait_updates(3).await;
    assert_eq!(receiver.texts(), ["one", "two", "three"]);
    assert_eq!((place.server.identifies(), place.server.resumes()), (1, 1));
    // The names of channels are asked for: a resumed session does not tell them.
    let event = &receiver.events()[2];
    assert_eq!(event.chat.name.as_deref(), Some("Team / #general"));
}

#[tokio::test]
async fn what_could_not_be_stored_comes_again() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    place.say("one");
    receiver.wait_updates(1).await;
    receiver.intake.fail(1);
    place.say("two");
    place.say("three");
    receiver.wait_updates(3).await;
    assert_eq!(receiver.texts(), ["one", "two", "three"]);
    assert_eq!((place.server.identifies(), place.server.resumes()), (1, 1));
}

#[tokio::test]
async fn discord_may_ask_for_another_connection() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    for count in 1..=2 {
        place.server.request_reconnect();
        let resumed = || place.server.resumes() == count && place.server.ready_sockets() == 1;
        assert!(eventually(LIMIT, resumed).await);
    }
    assert_eq!(*receiver.health.watch_connections().borrow(), 1);
    place.say("still there");
    receiver.wait_updates(1).await;
    assert_eq!(place.server.identifies(), 1);
    assert_eq!(receiver.health.state(), ConnectionState::Connected);
}

#[tokio::test]
async fn a_session_that_is_over_is_followed_by_another() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    let connections = receiver.health.watch_connections();
    assert_eq!(*connections.borrow(), 1);
    place.server.invalidate_sessions(false);
    let again = || place.server.identifies() == 2 && place.server.ready_sockets() == 1;
    assert!(eventually(LIMIT, again).await);
    // What was said in between is fetched: the new session does not bring it.
    assert!(eventually(LIMIT, || *connections.borrow() == 2).await);
    place.say("hello");
    receiver.wait_updates(1).await;
    // A session that Discord has forgotten ends at the attempt to resume it.
    place.server.expire_sessions();
    place.server.cut_sockets();
    let again = || place.server.identifies() == 3 && place.server.ready_sockets() == 1;
    assert!(eventually(LIMIT, again).await);
    assert_eq!(place.server.resumes(), 0);
}

#[tokio::test]
async fn a_session_that_is_said_to_be_resumable_is_resumed() {
    let place = DiscordFixture::new();
    let _receiver = DiscordReceiver::connect(&place).await;
    place.server.invalidate_sessions(true);
    let resumed = || place.server.resumes() == 1 && place.server.ready_sockets() == 1;
    assert!(eventually(LIMIT, resumed).await);
    assert_eq!(place.server.identifies(), 1);
}

#[tokio::test]
async fn heartbeats_without_an_answer_end_the_connection_and_nothing_else() {
    let place = DiscordFixture::new();
    place
        .server
        .set_heartbeat_interval(Duration::from_millis(200));
    let receiver = DiscordReceiver::connect(&place).await;
    let first = receiver.health.last_ok_at();
    assert!(eventually(LIMIT, || receiver.health.last_ok_at() > first).await);
    place.server.lose_acks(true);
    assert!(eventually(LIMIT, || place.server.resumes() > 0).await);
    place.server.lose_acks(false);
    place.say("hello");
    receiver.wait_updates(1).await;
    receiver.wait_connected().await;
    assert_eq!(place.server.identifies(), 1);
}

#[tokio::test]
async fn a_cut_connection_and_an_outage_lose_nothing() {
    let mut place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    place.server.cut_sockets();
    place.say("one");
    receiver.wait_updates(1).await;
    place.server.go_offline();
    let is_lost = || {
        matches!(
            receiver.health.state(),
            ConnectionState::Reconnecting { .. }
        )
    };
    assert!(eventually(LIMIT, is_lost).await);
    assert!(receiver.health.lost_since().is_some());
    place.say("two");
    place.server.come_back();
    receiver.wait_updates(2).await;
    receiver.wait_connected().await;
    assert_eq!(place.server.identifies(), 1);
}

#[tokio::test]
async fn close_codes_decide_what_comes_next() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    // An unknown error: resumed. A session that timed out: another one.
    place.server.close_sockets(4000);
    let resumed = || place.server.resumes() == 1 && place.server.ready_sockets() == 1;
    assert!(eventually(LIMIT, resumed).await);
    place.server.close_sockets(4009);
    let again = || place.server.identifies() == 2 && place.server.ready_sockets() == 1;
    assert!(eventually(LIMIT, again).await);
    place.say("hello");
    receiver.wait_updates(1).await;
}

#[tokio::test]
async fn a_wrong_token_is_fatal() {
    let place = DiscordFixture::new();
    let mut settings = place.settings();
    settings.token = Some(hermes_config::Secret::new("wrong.very-secret".to_owned()));
    let receiver = DiscordReceiver::start_with(client_with(&settings), Arc::default());
    let error = receiver.fatal().await;
    assert_eq!(error.code, "bad_token");
    assert!(error.message.contains("DISCORD_BOT_TOKEN"), "{error}");
}

#[tokio::test]
async fn a_token_that_is_revoked_later_is_fatal_too() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    place.server.revoke_token();
    assert_eq!(receiver.fatal().await.code, "bad_token");
}

#[tokio::test]
async fn a_missing_intent_is_named_with_its_switch() {
    let place = DiscordFixture::new();
    place.server.allow_message_content(false);
    let receiver = DiscordReceiver::start_with(place.client(), Arc::default());
    let error = receiver.fatal().await;
    assert_eq!(error.code, "missing_intent");
    for part in [
        "Message Content Intent",
        "discord.com/developers/applications",
    ] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[tokio::test]
async fn an_endpoint_that_swallows_buttons_is_warned_about() {
    let place = DiscordFixture::new();
    let address = "https://example.org/interactions";
    place.server.set_interactions_endpoint(Some(address));
    let receiver = DiscordReceiver::connect(&place).await;
    let warnings = receiver.health.warnings();
    assert_eq!(warnings[0].0, "interactions_endpoint");
    assert!(
        warnings[0].1.contains("Interactions Endpoint URL"),
        "{warnings:?}"
    );
    // It goes when the setting does.
    place.server.set_interactions_endpoint(None);
    place.server.request_reconnect();
    assert!(eventually(LIMIT, || receiver.health.warnings().is_empty()).await);
}

#[tokio::test]
async fn no_session_is_begun_when_too_many_were() {
    let place = DiscordFixture::new();
    place.server.set_identifies_left(100);
    let receiver = DiscordReceiver::start_with(place.client(), Arc::default());
    let is_limited = || {
        matches!(
            receiver.health.state(),
            ConnectionState::Reconnecting {
                code: "session_limit",
                ..
            }
        )
    };
    assert!(eventually(LIMIT, is_limited).await);
    assert_eq!(place.server.identifies(), 0);

    // Our own count is as good as Discord's.
    let place = DiscordFixture::new();
    let today = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let today = today.unwrap().as_secs() / 86_400;
    let cursor = json!({"identify_day": today, "identifies": 900});
    let intake = Arc::new(MemoryIntake::with_cursor(cursor));
    let receiver = DiscordReceiver::start_with(place.client(), intake);
    let is_limited = || {
        matches!(
            receiver.health.state(),
            ConnectionState::Reconnecting {
                code: "session_limit",
                ..
            }
        )
    };
    assert!(eventually(LIMIT, is_limited).await);
    assert_eq!(place.server.identifies(), 0);
}

#[tokio::test]
async fn unknown_events_payloads_and_members_do_no_harm() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    place
        .server
        .dispatch("SOMETHING_NEW", &json!({"id": 5, "deep": [[{}]]}));
    place
        .server
        .dispatch("MESSAGE_CREATE", &json!({"id": "77", "type": 0}));
    place
        .server
        .dispatch("INTERACTION_CREATE", &json!({"id": "78", "type": 99}));
    place.server.send_payload(&json!({"op": 99, "d": null}));
    let draft = hermes_testkit::platform::DiscordDraft {
        extra: json!({"new_member": {"a": 1}, "type": 0, "flags": 1u64 << 40}),
        ..hermes_testkit::platform::DiscordDraft::text("hello")
    };
    place.server.write(&place.channel, &place.ada, &draft);
    let has_text = || receiver.texts() == ["hello"];
    assert!(
        eventually(LIMIT, has_text).await,
        "{:?}",
        receiver.intake.updates()
    );
    assert_eq!(place.server.identifies(), 1);
}

#[tokio::test]
async fn missed_messages_are_fetched_under_the_same_numbers() {
    let place = DiscordFixture::new();
    let client = place.client();
    let role = place.server.give_role(&place.guild, &place.ada, "staff");
    let first = place.say("one");
    let second = place.say("two");
    let third = place.say("three");
    let missed = client.fetch_missed(&place.chat(), &first).await;
    let missed = missed.unwrap();
    let ids: Vec<&str> = missed
        .iter()
        .map(|update| update.event_id.as_str())
        .collect();
    assert_eq!(ids, [second.as_str(), third.as_str()]);
    let event = client.decode(&missed[0].payload).unwrap();
    assert_eq!(super::message_of(&event).text, "two");
    assert_eq!(event.chat.scope_id.as_ref(), Some(&place.guild));
    assert_eq!(event.chat.kind.as_str(), "group");
    // Whoever has rights by a role has them for missed messages, too.
    assert_eq!(event.sender.unwrap().roles, [role]);
}

#[tokio::test]
async fn missed_messages_are_read_page_by_page_and_of_too_many_the_newest() {
    let place = DiscordFixture::new();
    let client = place.client();
    let first = place.say("first");
    for number in 0..250 {
        place.say(&format!("{number}"));
    }
    let texts = async || {
        let missed = client.fetch_missed(&place.chat(), &first).await.unwrap();
        let texts = missed.into_iter().map(|update| {
            update.payload["event"]["content"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        texts.collect::<Vec<_>>()
    };
    let expected = |numbers: std::ops::Range<usize>| -> Vec<String> {
        numbers.map(|number| number.to_string()).collect()
    };
    assert_eq!(texts().await, expected(0..250));
    for number in 250..MAX_MISSED_MESSAGES + 150 {
        place.say(&format!("{number}"));
    }
    assert_eq!(texts().await, expected(150..MAX_MISSED_MESSAGES + 150));
}

#[tokio::test]
async fn the_channel_around_a_thread_and_threads_that_were_active_are_looked_at_too() {
    let place = DiscordFixture::new();
    let client = place.client();
    let [known, active, quiet] =
        ["known", "active", "quiet"].map(|name| place.server.add_thread(&place.channel, name));
    place.server.say(&quiet, &place.ada, "long ago");
    let seen = place.server.say(&known, &place.ada, "seen");
    place.server.say(&active, &place.ada, "somewhere else");
    place.say("a question");
    let mut chat = ChatAddress::new(&known, ChatKind::Thread);
    chat.thread_id = Some(known.clone());
    chat.scope_id = Some(place.guild.clone());
    chat.parent_id = Some(place.channel.clone());
    let marks = [ChatMark { chat, after: seen }];
    let found = client.find_missed_chats(&marks).await.unwrap();
    let ids: Vec<&str> = found.iter().map(|mark| mark.chat.id.as_str()).collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    let mut texts = Vec::new();
    for mark in &found {
        let missed = client.fetch_missed(&mark.chat, &mark.after).await.unwrap();
        for update in missed {
            let event = client.decode(&update.payload).unwrap();
            let text = super::message_of(&event).text.clone();
            texts.push((text, event.chat.id, event.chat.parent_id));
        }
    }
    texts.sort();
    let question = ("a question".to_owned(), place.channel.clone(), None);
    let parent = Some(place.channel.clone());
    assert_eq!(
        texts,
        [question, ("somewhere else".to_owned(), active, parent)]
    );
}

#[tokio::test]
async fn a_session_that_begins_anew_counts_as_a_gap_however_it_came_to_that() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    let connections = receiver.health.watch_connections();
    assert_eq!(*connections.borrow(), 1);
    place.say("one");
    receiver.wait_updates(1).await;
    // The stored session cannot be used any more; the connection itself is only replaced.
    let mut cursor = receiver.intake.last_cursor().unwrap();
    cursor["session"]["resume_url"] = json!("nonsense");
    let stored = receiver.intake.store(Vec::new(), Some(cursor));
    stored.await.unwrap();
    place.server.request_reconnect();
    assert!(eventually(LIMIT, || place.server.identifies() == 2).await);
    assert!(eventually(LIMIT, || *connections.borrow() == 2).await);
}

#[tokio::test]
async fn the_socket_goes_through_the_proxy_too() {
    let place = DiscordFixture::new();
    place
        .server
        .set_gateway_address("ws://gateway.discord.invalid");
    let mut settings = place.settings();
    settings.base_url = "http://discord.invalid".into();
    settings.allow_http = true;
    settings.proxy = Some(place.server.base_url());
    let receiver = DiscordReceiver::start_with(client_with(&settings), Arc::default());
    receiver.wait_connected().await;
    place.say("one");
    receiver.wait_updates(1).await;
    place.server.request_reconnect();
    let resumed = || place.server.resumes() == 1 && place.server.ready_sockets() == 1;
    assert!(eventually(LIMIT, resumed).await);
    place.say("two");
    receiver.wait_updates(2).await;
    receiver.finish().await;
    assert!(eventually(LIMIT, || place.server.open_sockets() == 0).await);
}

#[tokio::test]
async fn an_address_for_resuming_that_is_dead_does_not_end_the_session() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    place.say("one");
    receiver.wait_updates(1).await;
    let intake = receiver.finish().await;
    let mut cursor = intake.last_cursor().unwrap();
    // Nobody listens there.
    let port = hermes_testkit::ReservedPort::reserve().unwrap();
    cursor["session"]["resume_url"] = json!(format!("ws://127.0.0.1:{}", port.number()));
    place.say("two");
    let intake = Arc::new(MemoryIntake::with_cursor(cursor));
    let receiver = DiscordReceiver::connect_with(&place, intake).await;
    receiver.wait_updates(1).await;
    assert_eq!(receiver.texts(), ["two"]);
    assert_eq!((place.server.identifies(), place.server.resumes()), (1, 1));
}
