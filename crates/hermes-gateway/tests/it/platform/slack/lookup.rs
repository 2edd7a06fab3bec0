//! Channels, and what was missed.

use std::sync::Arc;

use super::*;
use hermes_config::Home;
use hermes_gateway::{
    channel_directory::ChannelDirectoryWriter,
    platform::{
        ChatMark, MAX_MISSED_MESSAGES, OutboundMessage, RawUpdate, SharedClient, UpdateIntake as _,
    },
};
use hermes_store::mirror::ChannelDirectory;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn channels_are_listed_page_by_page() {
    let server = workspace();
    for number in 0..450 {
        server.add_channel(&format!("C1{number:07}"), &format!("channel-{number}"));
    }
    server.add_channel("G0SECRET1", "secret");
    server.add_channel("C0OLD0001", "old");
    server.archive_channel("C0OLD0001");
    server.direct_channel(ADA);
    let channels = client(&server).list_channels().await.unwrap();
    assert_eq!(channels.len(), 452);
    let find = |name: &str| channels.iter().find(|channel| channel.name == name);
    assert_eq!(find("general").unwrap().kind, "channel");
    assert_eq!(find("secret").unwrap().kind, "group");
    assert_eq!(find("secret").unwrap().id.as_deref(), Some("G0SECRET1"));
    assert!(find("old").is_none());
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn the_channels_of_an_account_are_in_the_directory_once_it_is_connected() {
    let server = workspace();
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    let writer = ChannelDirectoryWriter::new(&home);
    let stop = CancellationToken::new();
    // At the start no account is connected yet; the next round is minutes away.
    let running = writer.run(Vec::new, &stop);
    let check = async {
        let shared: SharedClient = Arc::new(client(&server));
        writer.note_connected(&shared);
        let is_listed = || {
            let listed = ChannelDirectory::load_listed(&home).ok().flatten();
            let listed = listed.map(|directory| directory.platform("slack").to_vec());
            listed.is_some_and(|channels| channels.iter().any(|it| it.name == "general"))
        };
        assert!(eventually(LIMIT, is_listed).await);
        stop.cancel();
    };
    tokio::join!(running, check);
}

#[tokio::test]
async fn what_was_said_in_a_gap_is_fetched_once() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let last = server.write(&says(ADA, GENERAL, "before"));
    receiver.wait_updates(1).await;
    server.cut_sockets();
    assert!(eventually(LIMIT, || server.open_sockets() == 0).await);
    let parent = server.write(&says(ADA, GENERAL, "<@U0BOT0001> during"));
    server.write(&says(BOB, GENERAL, "in the thread").in_thread(&parent));
    let answer = OutboundMessage::text("mine");
    receiver.client.post(&channel(None), &answer).await.unwrap();
    receiver.wait_connected().await;
    let known = [ChatMark {
        chat: channel(None),
        after: last,
    }];
    for _ in 0..2 {
        let further = receiver.client.find_missed_chats(&known).await.unwrap();
        assert_eq!(further.len(), 1, "{further:?}");
        for mark in known.iter().chain(&further) {
            let missed = receiver.client.fetch_missed(&mark.chat, &mark.after);
            let missed = missed.await.unwrap();
            receiver.intake.store(missed, None).await.unwrap();
        }
    }
    assert_eq!(receiver.texts(), ["before", "during", "in the thread"]);
    let events = receiver.events();
    assert_eq!(events[2].chat.thread_id.as_ref(), Some(&parent));
    assert_eq!(
        events[2].sender.as_ref().unwrap().name.as_deref(),
        Some("Bob")
    );
    assert!(receiver.messages()[1].mentions_bot);
    // Slack's own delivery of the same message has the same id.
    assert_eq!(
        receiver.intake.updates()[1].event_id,
        format!("msg:{GENERAL}:{parent}")
    );
}

/// What was missed beside these messages, and in which threads.
async fn missed_elsewhere(
    client: &SlackClient,
    known: &[ChatMark],
) -> Vec<(Option<String>, String)> {
    let mut missed = Vec::new();
    for mark in client.find_missed_chats(known).await.unwrap() {
        for update in client.fetch_missed(&mark.chat, &mark.after).await.unwrap() {
            let text = update.payload["payload"]["event"]["text"].as_str().unwrap();
            missed.push((mark.chat.thread_id.clone(), text.to_owned()));
        }
    }
    missed
}

#[tokio::test]
async fn the_channel_around_a_thread_and_older_threads_that_were_active_are_looked_at_too() {
    let server = workspace();
    let client = client(&server);
    let older = server.write(&says(ADA, GENERAL, "an older thread"));
    let quiet = server.write(&says(ADA, GENERAL, "a quiet thread"));
    server.write(&says(ADA, GENERAL, "long ago").in_thread(&quiet));
    let parent = server.write(&says(ADA, GENERAL, "first"));
    let seen = server.write(&says(ADA, GENERAL, "seen").in_thread(&parent));
    server.write(&says(BOB, GENERAL, "missed").in_thread(&parent));
    server.write(&says(BOB, GENERAL, "another question"));
    server.write(&says(BOB, GENERAL, "a late reply").in_thread(&older));
    let thread = ChatMark {
        chat: channel(Some(&parent)),
        after: seen.clone(),
    };
    let own = client.fetch_missed(&thread.chat, &seen).await.unwrap();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].payload["payload"]["event"]["text"], "missed");
    // A second thread of the channel is no reason to read it twice.
    let other = ChatMark {
        chat: channel(Some("17.5")),
        after: quiet,
    };
    assert_eq!(
        missed_elsewhere(&client, &[thread, other]).await,
        [
            (Some(older), "a late reply".to_owned()),
            (None, "another question".to_owned())
        ]
    );
}

#[tokio::test]
async fn missed_messages_are_read_page_by_page_and_of_too_many_the_newest() {
    let server = workspace();
    let client = client(&server);
    let first = server.write(&says(ADA, GENERAL, "first"));
    let say = |numbers: std::ops::Range<usize>, thread: Option<&str>| {
        for number in numbers {
            let mut post = says(ADA, GENERAL, &format!("{number}"));
            if let Some(thread) = thread {
                post = post.in_thread(thread);
            }
            server.write(&post);
        }
    };
    let texts = async |chat: ChatAddress| {
        let missed = client.fetch_missed(&chat, &first).await.unwrap();
        let text = |update: RawUpdate| {
            let text = update.payload["payload"]["event"]["text"].as_str();
            text.unwrap().to_owned()
        };
        missed.into_iter().map(text).collect::<Vec<_>>()
    };
    let expected = |numbers: std::ops::Range<usize>| -> Vec<String> {
        numbers.map(|number| number.to_string()).collect()
    };
    say(0..250, Some(&first));
    assert_eq!(texts(channel(Some(&first))).await, expected(0..250));
    say(0..MAX_MISSED_MESSAGES + 70, None);
    let newest = expected(70..MAX_MISSED_MESSAGES + 70);
    assert_eq!(texts(channel(None)).await, newest);
}

#[tokio::test]
async fn a_thread_begins_with_the_message_that_is_answered() {
    let server = workspace();
    let client = client(&server);
    let thread = client
        .open_thread(&channel(None), "17.5", "a name")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(thread, channel(Some("17.5")));
    assert_eq!(server.requests(), []);
    client.register_commands(&[]).await.unwrap();
}
