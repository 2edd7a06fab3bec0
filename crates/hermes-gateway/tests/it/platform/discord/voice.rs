//! Answers that are spoken.

use hermes_gateway::platform::{
    AttachmentKind, OutboundFile, OutboundMessage, PlatformClient as _,
};

use super::DiscordFixture;

/// A page of an Ogg file with these packets, each smaller than 255 bytes.
fn page(position: u64, packets: &[&[u8]]) -> Vec<u8> {
    let mut page = b"OggS\0\0".to_vec();
    page.extend(position.to_le_bytes());
    page.extend([0; 12]);
    page.push(u8::try_from(packets.len()).unwrap());
    page.extend(
        packets
            .iter()
            .map(|packet| u8::try_from(packet.len()).unwrap()),
    );
    page.extend(packets.concat());
    page
}

/// Two seconds of Opus.
fn recording() -> Vec<u8> {
    let head = b"OpusHead\x01\x01\0\0\0\0\0\0\0\0\0";
    let mut bytes = page(0, &[head]);
    bytes.extend(page(0, &[b"OpusTags"]));
    let packet: &[u8] = &[7; 40];
    bytes.extend(page(96_000, &[packet; 100]));
    bytes
}

fn spoken(folder: &tempfile::TempDir, text: &str, content: &[u8]) -> OutboundMessage {
    let path = folder.path().join("answer.ogg");
    std::fs::write(&path, content).unwrap();
    OutboundMessage {
        files: vec![OutboundFile {
            path,
            kind: AttachmentKind::Voice,
            name: "answer.ogg".into(),
        }],
        nonce: Some("n-1".into()),
        ..OutboundMessage::text(text)
    }
}

#[tokio::test]
async fn a_recording_is_a_voice_message() {
    let place = DiscordFixture::new();
    let folder = tempfile::tempdir().unwrap();
    let message = spoken(&folder, "", &recording());
    let posted = place.client().post(&place.chat(), &message).await.unwrap();
    let seen = &place.server.answers(&place.channel)[0];
    assert_eq!(seen.id, posted.message_id);
    assert_eq!(seen.spoken_ms, Some(2000));
    assert_eq!(seen.files, ["answer.ogg"]);
}

#[tokio::test]
async fn what_cannot_be_a_voice_message_is_a_file() {
    let place = DiscordFixture::new();
    let folder = tempfile::tempdir().unwrap();
    let client = place.client();
    // A voice message has no text, and is Opus.
    let with_text = spoken(&folder, "Listen.", &recording());
    client.post(&place.chat(), &with_text).await.unwrap();
    let mut music = spoken(&folder, "", b"not a recording");
    music.nonce = Some("n-2".into());
    client.post(&place.chat(), &music).await.unwrap();
    place.server.forbid_voice(&place.channel);
    let mut forbidden = spoken(&folder, "", &recording());
    forbidden.nonce = Some("n-3".into());
    client.post(&place.chat(), &forbidden).await.unwrap();
    let seen = place.server.answers(&place.channel);
    assert_eq!(seen.len(), 3, "{seen:?}");
    for message in &seen {
        assert_eq!(message.spoken_ms, None, "{message:?}");
        assert_eq!(message.files, ["answer.ogg"]);
    }
    assert_eq!(seen[0].text, "Listen.");
}
