//! Files in both directions.

use hermes_gateway::platform::{
    AttachmentKind, OutboundFile, OutboundMessage, PlatformClient as _, PostError,
};
use hermes_testkit::platform::TelegramFile;

use super::*;

fn write(
    folder: &tempfile::TempDir,
    name: &str,
    kind: AttachmentKind,
    content: &[u8],
) -> OutboundFile {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    OutboundFile {
        path,
        kind,
        name: name.to_owned(),
    }
}

fn with_files(text: &str, files: Vec<OutboundFile>) -> OutboundMessage {
    OutboundMessage {
        files,
        ..OutboundMessage::text(text)
    }
}

#[tokio::test]
async fn each_kind_of_file_is_sent_as_what_it_is() {
    let server = telegram();
    server.say(ANN, "hi");
    let bot = client(&server);
    let folder = tempfile::tempdir().unwrap();
    let kinds = [
        (AttachmentKind::Image, "photo"),
        (AttachmentKind::Video, "video"),
        (AttachmentKind::Audio, "audio"),
        (AttachmentKind::Voice, "voice"),
        (AttachmentKind::Document, "document"),
    ];
    for (kind, shown) in kinds {
        let file = write(&folder, "a \"file\".bin", kind, b"its content");
        let message = with_files("**See.**", vec![file]);
        let posted = bot.post(&private(ANN), &message).await.unwrap();
        let sent = server.messages(ANN).pop().unwrap();
        assert_eq!(sent.file, Some(shown));
        assert_eq!(sent.text, "See.");
        assert_eq!(sent.id.to_string(), posted.message_id);
        assert_eq!(server.file_content(ANN, sent.id).unwrap(), b"its content");
    }
}

#[tokio::test]
async fn a_picture_that_is_too_large_for_a_photo_is_a_document() {
    let server = telegram();
    server.say(ANN, "hi");
    let folder = tempfile::tempdir().unwrap();
    let large = vec![0; (10 << 20) + 1];
    let file = write(&folder, "large.png", AttachmentKind::Image, &large);
    let message = with_files("", vec![file]);
    client(&server).post(&private(ANN), &message).await.unwrap();
    assert_eq!(server.messages(ANN)[1].file, Some("document"));
}

#[tokio::test]
async fn several_files_are_one_album() {
    let server = telegram();
    server.say(ANN, "hi");
    let bot = client(&server);
    let folder = tempfile::tempdir().unwrap();
    let image = |name| write(&folder, name, AttachmentKind::Image, b"x");
    let message = with_files("Both.", vec![image("a.png"), image("b.png")]);
    bot.post(&private(ANN), &message).await.unwrap();
    let shown = server.messages(ANN);
    assert_eq!(
        (shown[1].file, shown[2].file),
        (Some("photo"), Some("photo"))
    );
    assert_eq!(shown[1].album, shown[2].album);
    assert_eq!(
        (shown[1].text.as_str(), shown[2].text.as_str()),
        ("Both.", "")
    );

    let note = write(&folder, "c.txt", AttachmentKind::Document, b"x");
    let mixed = with_files("", vec![image("a.png"), note]);
    bot.post(&private(ANN), &mixed).await.unwrap();
    assert_eq!(server.messages(ANN)[3].file, Some("document"));
}

#[tokio::test]
async fn a_file_that_is_missing_is_refused() {
    let server = telegram();
    server.say(ANN, "hi");
    let file = OutboundFile {
        path: "/nonexistent/a.txt".into(),
        kind: AttachmentKind::Document,
        name: "a.txt".into(),
    };
    let message = with_files("", vec![file]);
    let posted = client(&server).post(&private(ANN), &message).await;
    let refused = posted.unwrap_err();
    assert!(matches!(refused, PostError::Refused { .. }), "{refused:?}");
}

#[tokio::test]
async fn received_files_are_downloaded_within_the_limit() {
    let server = telegram();
    let bot = ReceivingClient::start(client(&server));
    server
        .message(ANN, ANN)
        .file(TelegramFile::Document, "../../x", &[7; 5000])
        .send();
    server
        .message(ANN, ANN)
        .file(TelegramFile::Photo, "huge.jpg", b"x")
        .claimed_size(200 << 20)
        .send();
    bot.wait_updates(2).await;
    let messages = bot.messages();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("received");
    let document = &messages[0].attachments[0];
    assert_eq!(document.name.as_deref(), Some("../../x"));
    let bot = &bot.client;
    bot.download(document, &path, 1 << 20).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [7; 5000]);
    // What is larger than it said is cut off, and nothing is left.
    let mut liar = document.clone();
    liar.size = None;
    let refused = bot.download(&liar, &path, 4999).await.unwrap_err();
    assert!(matches!(refused, PostError::Refused { .. }));
    assert!(!path.exists());
    let huge = &messages[1].attachments[0];
    let refused = bot.download(huge, &path, 128 << 20).await.unwrap_err();
    assert!(refused.to_string().contains("larger"), "{refused}");
    let refused = bot.download(huge, &path, 1 << 40).await.unwrap_err();
    assert!(refused.to_string().contains("20 MB"), "{refused}");
}
