//! Files in messages.

use hermes_gateway::send::MediaPolicy;
use hermes_testkit::platform::PlatformFault;
use serde_json::json;

use super::SendFixture;

/// A file, and the message that sends it.
fn picture() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan b.png");
    std::fs::write(&path, [0, 159, 146, 150, 13, 10]).unwrap();
    let message = format!("The plan.\nMEDIA:{}", path.display());
    (directory, message)
}

#[tokio::test]
async fn where_media_is_literal_it_is_text() {
    let place = SendFixture::discord();
    let (_directory, message) = picture();
    let message = format!("{message} [[as_document]]");
    let sender = place.sender();
    sender
        .send("discord:42", &message, MediaPolicy::Literal)
        .await
        .unwrap();
    assert_eq!(place.fields("content"), [message]);
}

#[tokio::test]
async fn telegram_shows_a_picture_with_its_caption() {
    let place = SendFixture::telegram();
    let (_directory, message) = picture();
    place.send("telegram:-100:7", &message).await;
    let requests = place.server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].last_segment(), "sendPhoto");
    assert_eq!(
        requests[0].body,
        json!({
            "chat_id": "-100",
            "message_thread_id": "7",
            "caption": r"The plan\.",
            "parse_mode": "MarkdownV2",
        })
    );
    let file = &requests[0].files[0];
    assert_eq!(
        (file.name.as_str(), file.file_name.as_str()),
        ("photo", "plan b.png")
    );
    assert_eq!(file.content, [0, 159, 146, 150, 13, 10]);
    assert!(requests[0].content_length.is_some(), "sent in chunks");

    place
        .send("telegram:5", &format!("{message} [[as_document]]"))
        .await;
    assert_eq!(place.server.requests()[1].last_segment(), "sendDocument");
}

#[tokio::test]
async fn a_file_is_sent_again_when_the_platform_asks_to_wait() {
    let place = SendFixture::telegram();
    let (_directory, message) = picture();
    place
        .server
        .fail("sendPhoto", PlatformFault::LimitedByHeader(0));
    place.send("telegram:5", &message).await;
    let requests = place.server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.files[0].content, [0, 159, 146, 150, 13, 10]);
    }
}

#[tokio::test]
async fn a_caption_that_is_too_long_is_a_message_of_its_own() {
    let place = SendFixture::telegram();
    let (_directory, message) = picture();
    place
        .send("telegram:5", &format!("{} {message}", "word ".repeat(300)))
        .await;
    assert_eq!(place.paths(), ["/bot…/sendMessage", "/bot…/sendPhoto"]);
    assert_eq!(place.fields("caption"), [""; 0]);
}

#[tokio::test]
async fn several_files_follow_the_text() {
    let place = SendFixture::telegram();
    let directory = tempfile::tempdir().unwrap();
    let tags = ["a.ogg", "b.mp3", "c.mp4", "d.csv"].map(|name| {
        let path = directory.path().join(name);
        std::fs::write(&path, name).unwrap();
        format!("MEDIA:{}", path.display())
    });
    let message = format!("[[audio_as_voice]] All of it: {}", tags.join(" "));
    let sent = place.send("telegram:5", &message).await;
    assert_eq!(
        place.paths(),
        [
            "sendMessage",
            "sendVoice",
            "sendAudio",
            "sendVideo",
            "sendDocument"
        ]
        .map(|method| format!("/bot…/{method}"))
    );
    assert_eq!(sent["message_id"], "105");
}

/// Three pictures, and the message that sends them.
fn pictures() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let tags = ["a.png", "b.jpg", "c.mp4"].map(|name| {
        let path = directory.path().join(name);
        std::fs::write(&path, name).unwrap();
        format!("MEDIA:{}", path.display())
    });
    let message = format!("All of it.\n{}", tags.join("\n"));
    (directory, message)
}

#[tokio::test]
async fn several_pictures_are_one_album_on_every_platform() {
    let (_directory, message) = pictures();
    let place = SendFixture::telegram();
    place.send("telegram:5", &message).await;
    assert_eq!(place.paths(), ["/bot…/sendMediaGroup"]);
    let request = place.server.requests().remove(0);
    let media: serde_json::Value = serde_json::from_str(&request.field("media")).unwrap();
    assert_eq!(
        media,
        json!([
            {"type": "photo", "media": "attach://file0", "caption": r"All of it\.", "parse_mode": "MarkdownV2"},
            {"type": "photo", "media": "attach://file1"},
            {"type": "video", "media": "attach://file2"},
        ])
    );
    let contents: Vec<&[u8]> = request.files.iter().map(|file| &*file.content).collect();
    assert_eq!(contents, [b"a.png", b"b.jpg", b"c.mp4"]);

    let place = SendFixture::discord();
    place.send("discord:42", &message).await;
    let request = place.server.requests().pop().unwrap();
    let names: Vec<&str> = request.files.iter().map(|file| &*file.name).collect();
    assert_eq!(names, ["files[0]", "files[1]", "files[2]"]);

    let place = SendFixture::slack();
    place.send("slack:C12345678", &message).await;
    let shared = place.server.requests().pop().unwrap();
    assert_eq!(shared.last_segment(), "files.completeUploadExternal");
    assert_eq!(shared.body["files"].as_array().unwrap().len(), 3);
    assert_eq!(shared.body["initial_comment"], "All of it.");
}

#[tokio::test]
async fn discord_gets_the_file_beside_the_message() {
    let place = SendFixture::discord();
    let (_directory, message) = picture();
    place.send("discord:42", &message).await;
    let request = place.server.requests().pop().unwrap();
    let payload: serde_json::Value = serde_json::from_str(&request.field("payload_json")).unwrap();
    assert_eq!(
        payload,
        json!({"content": "The plan.", "attachments": [{"id": 0, "filename": "plan b.png"}]})
    );
    assert_eq!(request.files[0].name, "files[0]");
    // A forum takes it with the thread.
    let sent = place
        .send("discord:150", &message.replace("The plan.", ""))
        .await;
    let request = place.server.requests().pop().unwrap();
    assert!(
        request
            .field("payload_json")
            .contains(r#""name":"plan b.png""#),
        "{request:?}"
    );
    assert_eq!(sent["thread_id"], sent["message_id"]);
}

#[tokio::test]
async fn slack_gets_it_in_three_steps_and_the_token_in_two() {
    let place = SendFixture::slack();
    let (_directory, message) = picture();
    let sent = place.send("slack:C12345678:17.5", &message).await;
    assert_eq!(sent["message_id"], "F101");
    let requests = place.server.requests();
    assert_eq!(
        place.paths(),
        [
            "/files.getUploadURLExternal",
            "/upload/101",
            "/files.completeUploadExternal"
        ]
    );
    assert_eq!(
        requests[0].body,
        json!({"filename": "plan b.png", "length": "6"})
    );
    assert_eq!(requests[1].bytes, [0, 159, 146, 150, 13, 10]);
    assert_eq!(requests[1].authorization, None);
    assert_eq!(
        requests[2].body,
        json!({
            "files": [{"id": "F101", "title": "plan b.png"}],
            "channel_id": "C12345678",
            "initial_comment": "The plan.",
            "thread_ts": "17.5",
        })
    );
}

#[tokio::test]
async fn a_file_that_may_not_be_sent_is_a_warning_and_the_text_goes() {
    let mut place = SendFixture::telegram();
    let user = tempfile::tempdir().unwrap();
    place.set("HOME", user.path().to_str().unwrap());
    std::fs::create_dir(user.path().join(".ssh")).unwrap();
    std::fs::write(user.path().join(".ssh/key.txt"), "private").unwrap();
    place.home.write("config.yaml", "{}\n");
    let config = place.home.path().join("config.yaml");
    let message = format!(
        "Text MEDIA:~/.ssh/key.txt MEDIA:{} MEDIA:/etc/hosts.txt MEDIA:/no/such.png",
        config.display()
    );
    let sent = place.send("telegram:5", &message).await;
    assert_eq!(sent["warnings"].as_array().unwrap().len(), 4, "{sent}");
    assert_eq!(place.fields("text"), ["Text"]);
    let error = place.refused("telegram:5", "MEDIA:/no/such.png").await["error"].clone();
    let error = error.as_str().unwrap();
    assert!(
        error.starts_with("No deliverable text or media remained: "),
        "{error}"
    );
    assert!(error.contains("/no/such.png"), "{error}");
    assert_eq!(place.server.requests().len(), 1);
}

#[tokio::test]
async fn a_directory_can_be_allowed() {
    let mut place = SendFixture::telegram();
    let user = tempfile::tempdir().unwrap();
    place.set("HOME", user.path().to_str().unwrap());
    std::fs::create_dir_all(user.path().join(".config/out")).unwrap();
    std::fs::write(user.path().join(".config/out/a.png"), "x").unwrap();
    place
        .refused("telegram:5", "MEDIA:~/.config/out/a.png")
        .await;
    let allowed = user.path().join(".config/out");
    place.set("HERMES_MEDIA_ALLOW_DIRS", allowed.to_str().unwrap());
    place.send("telegram:5", "MEDIA:~/.config/out/a.png").await;
    assert_eq!(place.paths(), ["/bot…/sendPhoto"]);
}
