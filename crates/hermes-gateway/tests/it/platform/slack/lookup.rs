//! Channels, and what was missed.

use std::sync::Arc;

use super::*;
use hermes_config::Home;
use hermes_gateway::{
    channel_directory::ChannelDirectoryWriter,
    platform::{OutboundMessage, SharedClient, UpdateIntake as _},
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
    for _ in 0..2 {
        let missed = receiver
            .client
            .fetch_missed(&channel(None), &last, 2)
            .await
            .unwrap();
        assert_eq!(missed.len(), 2);
        receiver.intake.store(missed, None).await.unwrap();
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

#[tokio::test]
async fn a_thread_is_looked_up_with_its_channel_once() {
    let server = workspace();
    let client = client(&server);
    let parent = server.write(&says(ADA, GENERAL, "first"));
    let seen = server.write(&says(ADA, GENERAL, "seen").in_thread(&parent));
    server.write(&says(BOB, GENERAL, "missed").in_thread(&parent));
    server.write(&says(BOB, GENERAL, "another question"));
    let missed = async |gap| {
        let updates = client
            .fetch_missed(&channel(Some(&parent)), &seen, gap)
            .await
            .unwrap();
        let texts = updates
            .into_iter()
            .map(|update| update.payload["payload"]["event"]["text"].clone());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(missed(1).await, ["missed", "another question"]);
    // The channel has many threads, and one history.
    assert_eq!(missed(1).await, ["missed"]);
    // The next gap may follow at once.
    assert_eq!(missed(2).await, ["missed", "another question"]);
}

#[tokio::test]
async fn of_very_many_missed_messages_the_newest_count() {
    let server = workspace();
    let client = client(&server);
    let first = server.write(&says(ADA, GENERAL, "first"));
    for number in 0..130 {
        server.write(&says(ADA, GENERAL, &format!("{number}")));
    }
    let missed = client
        .fetch_missed(&channel(None), &first, 1)
        .await
        .unwrap();
    assert_eq!(missed.len(), 100);
    assert_eq!(missed[0].payload["payload"]["event"]["text"], "30");
    assert_eq!(missed[99].payload["payload"]["event"]["text"], "129");
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
