//! Receiving over Socket Mode, and what may happen to sockets.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use hermes_testkit::platform::PlatformFault;

#[tokio::test]
async fn a_message_is_stored_and_then_acknowledged() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let ts = server.write(&says(ADA, GENERAL, "hello"));
    receiver.wait_updates(1).await;
    let update = &receiver.intake.updates()[0];
    assert_eq!(update.event_id, format!("msg:{GENERAL}:{ts}"));
    assert!(eventually(LIMIT, || server.acknowledged().len() == 1).await);
    assert!(receiver.health.last_ok_at().is_some());
    assert_eq!(receiver.health.warnings(), []);
}

#[tokio::test]
async fn what_could_not_be_stored_is_not_acknowledged_and_comes_again() {
    let server = workspace();
    // An acknowledgement that a busy machine delays must not count as missing.
    server.set_ack_timeout(Duration::from_secs(1));
    let receiver = SlackReceiver::connect(&server).await;
    receiver.intake.fail(2);
    server.write(&says(ADA, GENERAL, "hello"));
    receiver.wait_updates(1).await;
    assert!(eventually(LIMIT, || server.acknowledged().len() == 1).await);
    assert_eq!(receiver.intake.calls(), 3);
    let attempts: Vec<_> = server
        .sent_envelopes()
        .iter()
        .map(|envelope| envelope["retry_attempt"].clone())
        .collect();
    assert_eq!(attempts, [0, 1, 2]);
    assert_eq!(receiver.texts(), ["hello"]);
}

#[tokio::test]
async fn the_next_socket_is_open_before_the_old_one_is_closed() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    for reason in ["warning", "refresh_requested"] {
        let opened = server.opened_sockets();
        // Far longer than the next one takes to open.
        server.disconnect(reason, Duration::from_secs(3));
        assert!(
            eventually(LIMIT, || server.open_sockets() == 2).await,
            "{reason}"
        );
        let count = receiver.intake.updates().len();
        for number in 0..20 {
            server.write(&says(ADA, GENERAL, &format!("{reason} {number}")));
        }
        receiver.wait_updates(count + 20).await;
        assert!(
            eventually(LIMIT, || server.open_sockets() == 1).await,
            "{reason}"
        );
        assert_eq!(server.opened_sockets(), opened + 1);
        assert_eq!(receiver.health.state(), ConnectionState::Connected);
        // And there was no gap.
        assert!(eventually(LIMIT, || receiver.health.announced_ends().pending == 0).await);
    }
    assert_eq!(receiver.health.announced_ends().count, 2);
    assert_eq!(receiver.health.connections(), 1);
    assert_eq!(server.lost_envelopes(), Vec::<serde_json::Value>::new());
    let mut texts = receiver.texts();
    assert_eq!(texts.len(), 40);
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 40);
    // Our own second socket is not another program.
    assert_eq!(receiver.health.warnings(), []);
}

#[tokio::test]
async fn a_mention_over_two_sockets_is_one_update() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.disconnect("warning", Duration::from_secs(20));
    assert!(eventually(LIMIT, || server.open_sockets() == 2).await);
    let ts = server.write(&says(ADA, GENERAL, "<@U0BOT0001> what is new?"));
    server.write(&says(ADA, GENERAL, "end"));
    receiver.wait_updates(2).await;
    assert!(eventually(LIMIT, || server.acknowledged().len() == 3).await);
    let messages = receiver.messages();
    assert_eq!(messages.len(), 2);
    let mention = messages.iter().find(|message| message.id == ts).unwrap();
    assert_eq!(mention.text, "what is new?");
    assert!(mention.mentions_bot);
}

#[tokio::test]
async fn a_redelivered_event_is_stored_once() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.write(&says(ADA, GENERAL, "hello"));
    server.redeliver_last();
    server.redeliver_last();
    assert!(eventually(LIMIT, || server.acknowledged().len() == 3).await);
    assert_eq!(receiver.texts(), ["hello"]);
}

#[tokio::test]
async fn a_time_without_a_socket_between_two_refreshes_counts_as_a_gap() {
    let server = workspace();
    let slow = SlackTimeouts {
        // A socket that is replaced so soon is not replaced at once.
        first_pause: Duration::from_secs(3),
        ..timeouts()
    };
    let receiver = SlackReceiver::start(client_with(&settings(&server), slow));
    receiver.wait_connected().await;
    let connections = receiver.health.watch_connections();
    assert_eq!(*connections.borrow(), 1);
    server.disconnect("refresh_requested", Duration::ZERO);
    assert!(eventually(LIMIT, || server.open_sockets() == 0).await);
    assert!(eventually(LIMIT, || server.opened_sockets() == 2).await);
    assert!(eventually(LIMIT, || *connections.borrow() == 2).await);
    assert_eq!(receiver.health.state(), ConnectionState::Connected);
}

#[tokio::test]
async fn a_socket_that_is_closed_while_the_next_one_is_opened_counts_as_a_gap() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let connections = receiver.health.watch_connections();
    tokio::time::sleep(timeouts().first_pause).await;
    server.disconnect("refresh_requested", Duration::from_millis(5));
    assert!(eventually(LIMIT, || server.opened_sockets() == 2).await);
    assert!(eventually(LIMIT, || *connections.borrow() == 2).await);
}

#[tokio::test]
async fn an_end_is_announced_until_it_is_known_that_it_left_a_gap() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let health = &receiver.health;
    // The next socket is opened after a while.
    let limit = PlatformFault::LimitedByHeader(5);
    server.fail("apps.connections.open", limit);
    server.disconnect("refresh_requested", LIMIT);
    assert!(eventually(LIMIT, || health.announced_ends().pending == 1).await);
    // The end of the first one is not read before this is stored.
    let held = CancellationToken::new();
    receiver.intake.hold_next(&held);
    let calls = receiver.intake.calls();
    server.write(&says(ADA, GENERAL, "before"));
    assert!(eventually(LIMIT, || receiver.intake.calls() > calls).await);
    server.cut_sockets();
    assert!(eventually(LIMIT, || server.opened_sockets() == 2).await);
    server.write(&says(ADA, GENERAL, "after"));
    let has_come = || receiver.texts().iter().any(|text| text == "after");
    assert!(eventually(LIMIT, has_come).await);
    assert_eq!(health.connections(), 1);
    assert_eq!(health.announced_ends().pending, 1);
    held.cancel();
    assert!(eventually(LIMIT, || health.announced_ends().pending == 0).await);
    assert_eq!(health.connections(), 2);
    assert_eq!(health.state(), ConnectionState::Connected);
}

#[tokio::test]
async fn a_cut_connection_is_made_again() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.cut_sockets();
    assert!(eventually(LIMIT, || server.opened_sockets() == 2).await);
    receiver.wait_connected().await;
    server.write(&says(ADA, GENERAL, "hello"));
    receiver.wait_updates(1).await;
}

#[tokio::test]
async fn a_dead_socket_is_noticed_and_replaced() {
    let server = workspace();
    server.set_ack_timeout(Duration::from_millis(300));
    let short = SlackTimeouts {
        ping_interval: Duration::from_millis(50),
        silence: Duration::from_millis(400),
        ..timeouts()
    };
    let receiver = SlackReceiver::start(client_with(&settings(&server), short));
    receiver.wait_connected().await;
    server.freeze_sockets();
    server.write(&says(ADA, GENERAL, "hello"));
    assert!(eventually(LIMIT, || server.opened_sockets() >= 2).await);
    // What went into the dead socket comes over the new one.
    receiver.wait_updates(1).await;
    assert_eq!(receiver.texts(), ["hello"]);
}

#[tokio::test]
async fn an_idle_socket_is_not_taken_for_dead() {
    let server = workspace();
    let short = SlackTimeouts {
        ping_interval: Duration::from_millis(20),
        silence: Duration::from_secs(5),
        ..timeouts()
    };
    let receiver = SlackReceiver::start(client_with(&settings(&server), short));
    receiver.wait_connected().await;
    let first = receiver.health.last_ok_at();
    // Answers to pings are heard, although nobody writes.
    assert!(eventually(LIMIT, || receiver.health.last_ok_at() > first).await);
    assert_eq!(server.opened_sockets(), 1);
}

#[tokio::test]
async fn after_an_outage_it_connects_by_itself() {
    let mut server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.stop();
    let is_lost = || {
        matches!(
            receiver.health.state(),
            ConnectionState::Reconnecting { .. }
        )
    };
    assert!(eventually(LIMIT, is_lost).await);
    assert!(receiver.health.lost_since().is_some());
    server.resume();
    receiver.wait_connected().await;
    server.write(&says(ADA, GENERAL, "hello"));
    receiver.wait_updates(1).await;
}

#[tokio::test]
async fn the_gateway_can_stop_it() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    receiver.stop.cancel();
    assert_eq!(receiver.ended().await, Ok(()));
    assert!(eventually(LIMIT, || server.open_sockets() == 0).await);
}

#[tokio::test]
async fn a_bad_token_is_fatal_and_names_its_variable() {
    let server = workspace();
    let wrong = |change: fn(&mut PlatformSettings)| {
        let mut settings = settings(&server);
        change(&mut settings);
        SlackReceiver::start(client_with(&settings, timeouts())).ended()
    };
    let bot = wrong(|settings| settings.token = Some(Secret::new("xoxb-wrong".into())))
        .await
        .unwrap_err();
    assert_eq!(bot.code, "bad_token");
    assert!(bot.message.contains("SLACK_BOT_TOKEN"), "{bot}");
    let app = wrong(|settings| settings.app_token = Some(Secret::new("xapp-wrong".into())))
        .await
        .unwrap_err();
    assert_eq!(app.code, "bad_token");
    assert!(app.message.contains("SLACK_APP_TOKEN"), "{app}");
    let swapped = wrong(|settings| settings.app_token.clone_from(&settings.token))
        .await
        .unwrap_err();
    assert!(
        swapped.message.contains("not an App-Level Token"),
        "{swapped}"
    );
    let none = wrong(|settings| settings.app_token = None)
        .await
        .unwrap_err();
    assert_eq!(none.code, "missing_app_token");
    assert!(none.message.contains("SLACK_APP_TOKEN"), "{none}");
    for error in [bot, app, swapped, none] {
        assert!(
            !format!("{error} {error:?}").contains("secret"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn the_variable_of_another_account_has_its_name() {
    let server = workspace();
    let mut settings = settings(&server);
    settings.app_token = None;
    let account = Account {
        platform: Platform::Slack,
        name: "work".into(),
    };
    let client =
        SlackClient::with_timeouts(account, &settings, &PolicyHandle::default(), timeouts())
            .unwrap();
    let error = SlackReceiver::start(client).ended().await.unwrap_err();
    assert!(error.message.contains("SLACK_APP_TOKEN_WORK"), "{error}");
}

#[tokio::test]
async fn a_token_that_is_revoked_meanwhile_ends_it() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.revoke_token();
    server.send_event(&json!({"type": "tokens_revoked", "tokens": {"bot": ["U0BOT0001"]}}));
    let error = receiver.ended().await.unwrap_err();
    assert_eq!(error.code, "bad_token");
    assert!(error.message.contains("token_revoked"), "{error}");
}

#[tokio::test]
async fn missing_scopes_are_named() {
    let server = workspace();
    server.remove_scope("assistant:write");
    server.remove_scope("im:history");
    server.remove_scope("users:read");
    let receiver = SlackReceiver::connect(&server).await;
    let (code, message) = receiver.health.warnings().remove(0);
    assert_eq!(code, "missing_scope");
    assert!(
        message.contains("assistant:write, im:history, users:read"),
        "{message}"
    );
    // Without names it works all the same.
    server.write(&says(ADA, GENERAL, "hello"));
    receiver.wait_updates(1).await;
    assert_eq!(receiver.events()[0].sender.as_ref().unwrap().name, None);
}

#[tokio::test]
async fn another_program_on_the_same_app_token_is_noticed() {
    let server = workspace();
    let first = SlackReceiver::connect(&server).await;
    let second = SlackReceiver::connect(&server).await;
    assert_eq!(first.health.warnings(), []);
    let (code, message) = second.health.warnings().remove(0);
    assert_eq!(code, "shared_app_token");
    assert!(
        message.contains("two programs on one Slack app token share its events"),
        "{message}"
    );
}

#[tokio::test]
async fn socket_mode_that_is_switched_off_is_said_and_tried_again() {
    let server = workspace();
    let mut slow = timeouts();
    slow.first_pause = Duration::from_secs(2);
    slow.longest_pause = Duration::from_secs(2);
    let receiver = SlackReceiver::start(client_with(&settings(&server), slow));
    receiver.wait_connected().await;
    server.disconnect("link_disabled", Duration::ZERO);
    let is_said = || match receiver.health.state() {
        ConnectionState::Reconnecting { code, .. } => code == "socket_mode_disabled",
        _ => false,
    };
    assert!(
        eventually(LIMIT, is_said).await,
        "{:?}",
        receiver.health.state()
    );
    receiver.wait_connected().await;
}

#[tokio::test]
async fn a_socket_that_is_closed_for_another_reason_is_opened_again_after_a_pause() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.disconnect("too_many_websockets", Duration::ZERO);
    assert!(eventually(LIMIT, || server.opened_sockets() == 2).await);
    receiver.wait_connected().await;
    server.write(&says(ADA, GENERAL, "hello"));
    receiver.wait_updates(1).await;
}

#[tokio::test]
async fn a_limit_on_opening_sockets_is_waited_for() {
    let server = workspace();
    server.fail("apps.connections.open", PlatformFault::LimitedByHeader(1));
    let begun = std::time::Instant::now();
    let _receiver = SlackReceiver::connect(&server).await;
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn unknown_kinds_and_members_do_no_harm() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.send_envelope(json!({"type": "news_of_2030"}));
    server.send_envelope(json!({"type": "news_of_2030", "envelope_id": "e1", "payload": [7]}));
    server.send_event(&json!({"type": "galaxy_joined", "galaxy": 7}));
    server.send_event(&json!({"type": "message", "channel": 7}));
    let post = says(ADA, GENERAL, "hello")
        .with_member("mood", json!({"colour": "green"}))
        .with_member("files", json!("none"));
    server.write(&post);
    assert!(eventually(LIMIT, || receiver.texts() == ["hello"]).await);
    assert!(eventually(LIMIT, || server.acknowledged().len() == 4).await);
}
