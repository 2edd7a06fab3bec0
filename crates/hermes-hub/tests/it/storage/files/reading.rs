use std::fmt::Write;

use hermes_hub::storage::files::{EntryType, FileLimits, LineRange, SharePath};
use serde_json::json;

use crate::storage::files::fixture::{AnyShare, path, problem_status};

#[tokio::test]
async fn a_listing_is_one_level_with_directories_first_in_byte_order() {
    let scene = AnyShare::new().await;
    for file in ["b.md", "a.md", "Z.md", "sub/deep/x", "alpha/x"] {
        scene.put(file, "text").await;
    }
    let listing = scene.files.list(&SharePath::root()).await.unwrap();
    let names: Vec<&str> = listing
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(names, ["alpha", "sub", "Z.md", "a.md", "b.md"]);
    assert!(!listing.truncated);

    let below = scene.files.list(&path("sub")).await.unwrap();
    assert_eq!(below.path, "sub");
    assert_eq!(below.entries[0].path, "sub/deep");
    assert_eq!(below.entries[0].entry_type, EntryType::Dir);
}

#[tokio::test]
async fn a_listing_is_cut_at_its_limit() {
    let scene = AnyShare::with_limits(FileLimits {
        list_entries: 2,
        ..FileLimits::default()
    })
    .await;
    for file in ["c", "a", "b"] {
        scene.put(file, "").await;
    }
    let listing = scene.files.list(&SharePath::root()).await.unwrap();
    let names: Vec<&str> = listing
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!((names, listing.truncated), (vec!["a", "b"], true));
}

#[tokio::test]
async fn an_entry_has_the_shape_that_clients_know() {
    let scene = AnyShare::new().await;
    scene
        .write("notes/report.md", "twelve bytes")
        .await
        .unwrap();
    let entry = scene.files.stat(&path("notes/report.md")).await.unwrap();
    let value = serde_json::to_value(&entry).unwrap();
    let etag = value["etag"].as_str().unwrap();
    assert!(etag.starts_with('"') && etag.ends_with('"'));
    let time: jiff::Timestamp = value["modifiedAt"].as_str().unwrap().parse().unwrap();
    assert!(time.duration_since(jiff::Timestamp::now()).abs().as_secs() < 3600);
    assert_eq!(
        value,
        json!({"name": "report.md", "path": "notes/report.md", "type": "file", "size": 12,
               "modifiedAt": value["modifiedAt"], "etag": value["etag"]})
    );
    let root = serde_json::to_value(scene.files.stat(&path("")).await.unwrap()).unwrap();
    assert_eq!(
        (&root["type"], &root["etag"]),
        (&json!("dir"), &json!(null))
    );
}

#[tokio::test]
async fn a_text_has_the_shape_that_clients_know() {
    let scene = AnyShare::new().await;
    scene.put("a.md", "one\ntwo\nthree\n").await;
    let lines = LineRange {
        offset: 1,
        limit: 1,
    };
    let text = scene.files.read(&path("a.md"), lines).await.unwrap();
    let value = serde_json::to_value(&text).unwrap();
    assert_eq!(
        value,
        json!({"path": "a.md", "content": "two\n", "offset": 1, "lines": 1, "totalLines": 3,
               "size": 14, "truncated": true, "nextOffset": 2, "etag": text.etag})
    );
    let entry = scene.files.stat(&path("a.md")).await.unwrap();
    assert_eq!(entry.etag, Some(text.etag));
}

#[tokio::test]
async fn reads_by_offset_and_limit_join_back_to_the_file() {
    let scene = AnyShare::with_limits(FileLimits {
        read_bytes: 1000,
        ..FileLimits::default()
    })
    .await;
    let mut content = String::new();
    for line in 0..950 {
        let end = if line % 7 == 0 { "\r\n" } else { "\n" };
        write!(content, "line {line} with ümlauts{end}").unwrap();
    }
    scene.put("big.txt", &content).await;
    for limit in [0, 1, 7, 200] {
        let mut joined = String::new();
        let mut next = Some(0);
        while let Some(offset) = next {
            let text = scene
                .files
                .read(&path("big.txt"), LineRange { offset, limit })
                .await
                .unwrap();
            assert_eq!(text.total_lines, 950);
            assert!(text.content.len() <= 1000);
            joined.push_str(&text.content);
            next = text.next_offset;
        }
        assert_eq!(joined, content, "limit {limit}");
    }
}

#[tokio::test]
async fn limit_zero_gives_all_up_to_the_cap() {
    let scene = AnyShare::new().await;
    let content = "x\n".repeat(1000);
    scene.put("a", &content).await;
    let text = scene
        .files
        .read(&path("a"), LineRange::default())
        .await
        .unwrap();
    assert_eq!((text.content, text.truncated), (content, false));
}

#[tokio::test]
async fn the_wrong_kind_of_thing_is_told_apart_from_nothing() {
    let scene = AnyShare::new().await;
    scene.put("dir/file", "text").await;
    scene.put("binary", b"\0\x01").await;
    let files = &scene.files;
    let all = LineRange::default();
    assert_eq!(problem_status(files.list(&path("dir/file")).await), 409);
    assert_eq!(problem_status(files.list(&path("none")).await), 404);
    assert_eq!(problem_status(files.list(&path("dir/file/x")).await), 404);
    assert_eq!(problem_status(files.read(&path("dir"), all).await), 409);
    assert_eq!(problem_status(files.read(&path(""), all).await), 409);
    assert_eq!(problem_status(files.read(&path("none"), all).await), 404);
    assert_eq!(
        problem_status(files.read(&path("dir/file/x"), all).await),
        404
    );
    assert_eq!(problem_status(files.read(&path("binary"), all).await), 415);
    assert_eq!(problem_status(files.stat(&path("none")).await), 404);
    assert_eq!(problem_status(files.stat(&path("dir/file/x")).await), 404);
}
