//! What a reply is cut into.

use std::{path::PathBuf, time::Duration};

use proptest::prelude::*;

use super::*;

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn limits(message: usize) -> ClientLimits {
    ClientLimits {
        message,
        caption: 20,
        measure: characters,
        edit_interval: (Duration::from_secs(1), Duration::from_secs(3)),
        typing_interval: Duration::from_secs(4),
        album: 3,
    }
}

fn file(name: &str, kind: AttachmentKind) -> OutboundFile {
    OutboundFile {
        path: PathBuf::from("/tmp").join(name),
        kind,
        name: name.into(),
    }
}

fn texts(text: &str, message: usize) -> Vec<String> {
    let planned = plan_messages(text, Vec::new(), &limits(message), CaptionUse::Allowed);
    planned.into_iter().map(|message| message.text).collect()
}

#[test]
fn control_characters_are_no_part_of_a_message() {
    let text = "a\u{0}b\u{1b}[31m\tc\r\nd\u{85}\u{200d}é";
    assert_eq!(remove_controls(text), "ab[31m\tc\nd\u{200d}é");
    assert_eq!(visible_text("x\u{7}y"), "xy");
    assert!(matches!(remove_controls("plain\n"), Cow::Borrowed(_)));
}

#[test]
fn only_a_reply_that_is_nothing_else_is_silence() {
    for text in ["[SILENT]", " NO_REPLY\n"] {
        assert!(is_silence(text), "{text:?}");
    }
    for text in ["", "silent", "[SILENT] really", "I said NO_REPLY"] {
        assert!(!is_silence(text), "{text:?}");
    }
}

#[test]
fn a_growing_answer_does_not_show_files() {
    for (growing, shown) in [
        ("Here: MEDIA:/tmp/a.png and", "Here:  and"),
        ("Here:\nMEDIA:/tmp/rep", "Here:"),
        ("a MEDIA", "a MEDIA"),
        ("text \n\n", "text"),
    ] {
        assert_eq!(visible_text(growing), shown, "{growing:?}");
    }
}

#[test]
fn the_number_behind_a_code_block_does_not_keep_it_open() {
    let text = format!("```rust\n{}\n```", "let x = 1;\n".repeat(20));
    let parts = texts(&text, 80);
    assert!(parts.len() > 2);
    for part in &parts {
        assert!(part.contains("\n```\n("), "{part}");
        assert!(characters(part) <= 80, "{part}");
    }
}

#[test]
fn one_album_takes_a_short_text_along_and_a_long_one_goes_before() {
    let album = || vec![vec![file("a.png", AttachmentKind::Image)]];
    let one = plan_messages("look", album(), &limits(100), CaptionUse::Allowed);
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].text, "look");
    let shown = plan_messages("look", album(), &limits(100), CaptionUse::Never);
    assert_eq!(shown.len(), 2);
    assert!(shown[0].files.is_empty());
    let long = "a text that is longer than captions may be";
    let long = plan_messages(long, album(), &limits(100), CaptionUse::Allowed);
    assert_eq!(long.len(), 2);
    assert_eq!(long[1].files.len(), 1);
}

#[test]
fn pictures_become_albums_and_voices_stand_alone() {
    use MediaKind::{Document, Image, Video, Voice};
    let kinds = [Image, Video, Image, Image, Document, Document, Voice, Voice];
    let albums = join_albums(kinds, |kind| *kind, 3);
    let sizes: Vec<usize> = albums.iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 1, 2, 1, 1]);
}

proptest! {
    /// Nothing but white space at the cuts is lost, and every message is within the limit.
    #[test]
    fn the_messages_joined_are_the_text(text in "[a-z日本語👍é ]{1,400}( |\n)[a-z]{0,30}", limit in 30_usize..120) {
        let parts = texts(&text, limit);
        let count = parts.len();
        let mut joined = String::new();
        for (index, part) in parts.iter().enumerate() {
            prop_assert!(characters(part) <= limit, "{part}");
            let number = part_number(index + 1, count);
            joined.push_str(part.strip_suffix(&number).unwrap());
        }
        let words = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(words(&joined), words(&text));
    }
}
