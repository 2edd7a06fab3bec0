//! What the model is told, for every kind of answer.

use std::path::Path;

use hermes_mcp::CallOptions;
use hermes_testkit::{Behaviour, Era, TemporaryHome};
use serde_json::{Value, json};

use crate::setup::{ALL_TRANSPORTS, RecordedServer, Setup, TransportKind, stdio};

async fn one_server(wire: TransportKind, behaviour: Behaviour) -> (Setup, RecordedServer) {
    let home = TemporaryHome::new();
    let peer = RecordedServer::new(wire, behaviour, home.path());
    let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
    setup.assert_ready("s");
    (setup, peer)
}

/// Results as a server sends them, and what becomes of them.
fn results() -> Vec<(Value, Value)> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    vec![
        (
            json!({ "content": [text("Grüße, 世界 \"quoted\"\n")] }),
            json!({ "result": "Grüße, 世界 \"quoted\"\n" }),
        ),
        (
            json!({ "content": [text("one"), text("two")] }),
            json!({ "result": "one\ntwo" }),
        ),
        (json!({ "content": [] }), json!({ "result": "" })),
        (
            json!({ "structuredContent": { "a": 1 } }),
            json!({ "result": { "a": 1 } }),
        ),
        (
            json!({ "content": [], "structuredContent": { "a": [1, null] } }),
            json!({ "result": { "a": [1, null] } }),
        ),
        (
            json!({ "content": [text("sunny")], "structuredContent": { "sky": "clear" } }),
            json!({ "result": "sunny", "structuredContent": { "sky": "clear" } }),
        ),
        (
            json!({ "content": [text("{ \"sky\": \"clear\" }")], "structuredContent": { "sky": "clear" } }),
            json!({ "result": "{ \"sky\": \"clear\" }" }),
        ),
        (
            json!({ "content": [text("sunny")], "structuredContent": { "result": "sunny" } }),
            json!({ "result": "sunny" }),
        ),
        (
            json!({ "content": [text("out of memory")], "isError": true }),
            json!({ "error": "out of memory" }),
        ),
        (
            json!({ "content": [text("no")], "isError": true, "structuredContent": { "code": 7 } }),
            json!({ "error": "no", "structuredContent": { "code": 7 } }),
        ),
        (
            json!({ "content": [], "isError": true }),
            json!({ "error": "the tool reported an error without saying more" }),
        ),
    ]
}

#[tokio::test]
async fn text_structured_content_and_tool_errors_have_one_shape_each_on_every_wire() {
    for (wire, era) in ALL_TRANSPORTS {
        let (setup, _peer) = one_server(wire, Behaviour::new().era(era)).await;
        for (result, told) in results() {
            let call = setup.call("mcp_s_content", json!({ "result": result }));
            assert_eq!(call.await, told, "{wire:?}, {era:?}: {result}");
        }
    }
}

#[tokio::test]
async fn structured_content_may_be_any_json_in_the_stateless_era() {
    let (setup, _peer) =
        one_server(TransportKind::Stdio, Behaviour::new().era(Era::Stateless)).await;
    for structured in [json!([1, 2]), json!("plain"), json!(7), json!(false)] {
        let result = json!({ "content": [], "structuredContent": structured });
        let told = setup
            .call("mcp_s_content", json!({ "result": result }))
            .await;
        assert_eq!(told, json!({ "result": structured }));
    }
}

#[tokio::test]
async fn characters_beyond_ascii_are_not_escaped() {
    let (setup, _peer) = one_server(TransportKind::Stdio, Behaviour::new()).await;
    let arguments = crate::setup::object(json!({ "text": "Grüße 世界" }));
    let outcome = setup
        .host
        .call("mcp_s_echo", arguments, &CallOptions::default())
        .await;
    assert_eq!(outcome.to_json(), r#"{"result":"Grüße 世界"}"#);
}

#[tokio::test]
async fn a_protocol_error_is_an_error_with_the_servers_words() {
    for (wire, era) in ALL_TRANSPORTS {
        let (setup, _peer) = one_server(wire, Behaviour::new().era(era)).await;
        for code in [-32603, -32602, -32000, 42] {
            let arguments = json!({ "text": "the disk is full", "code": code });
            let told = setup.call("mcp_s_fail", arguments).await;
            assert_eq!(
                told,
                json!({ "error": "the disk is full" }),
                "{wire:?}, {era:?}"
            );
        }
        setup.assert_ready("s");
    }
}

#[tokio::test]
async fn a_result_of_no_known_shape_is_an_error() {
    let (setup, _peer) = one_server(TransportKind::Stdio, Behaviour::new().era(Era::Legacy)).await;
    for result in [
        json!({ "surprise": 1 }),
        json!([1]),
        json!("text"),
        json!({ "content": 5 }),
    ] {
        let error = setup
            .error("mcp_s_content", json!({ "result": result }))
            .await;
        assert!(error.contains("unknown format"), "{result}: {error}");
    }
}

#[tokio::test]
async fn a_result_type_nobody_knows_is_an_error_and_not_an_empty_answer() {
    for wire in [TransportKind::Stdio, TransportKind::Http] {
        let behaviour = Behaviour::new()
            .era(Era::Stateless)
            .calls(|calls| calls.result_type = Some("hologram".into()));
        let (setup, _peer) = one_server(wire, behaviour).await;
        let error = setup.error("mcp_s_echo", json!({ "text": "hi" })).await;
        assert!(error.contains("unknown format"), "{wire:?}: {error}");
    }
}

#[tokio::test]
async fn unknown_tools_are_named() {
    let (setup, _peer) = one_server(TransportKind::Stdio, Behaviour::new()).await;
    let told = setup.call("mcp_s_no_such_tool", json!({})).await;
    assert_eq!(told, json!({ "error": "Unknown tool: mcp_s_no_such_tool" }));
}

#[tokio::test]
async fn both_spellings_of_a_name_reach_the_tool() {
    let (setup, _peer) = one_server(TransportKind::Stdio, Behaviour::new()).await;
    let told = setup.call("mcp__s__echo", json!({ "text": "hi" })).await;
    assert_eq!(told, json!({ "result": "hi" }));
}

/// The file that a `MEDIA:` line names.
fn media(told: &Value) -> &Path {
    let text = told["result"].as_str().unwrap();
    Path::new(text.strip_prefix("MEDIA:").unwrap())
}

fn assert_name(path: &Path, prefix: &str, suffix: &str) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let hash = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_suffix(suffix));
    let hash = hash.unwrap_or_else(|| panic!("{name}"));
    assert!(
        hash.len() == 12 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
        "{name}"
    );
}

#[tokio::test]
async fn pictures_and_sounds_become_files_of_the_cache() {
    for (wire, era) in ALL_TRANSPORTS {
        let (setup, _peer) = one_server(wire, Behaviour::new().era(era)).await;
        let told = setup.call("mcp_s_image", json!({})).await;
        let image = media(&told);
        assert_eq!(image.parent().unwrap(), setup.path("cache/images"));
        assert_name(image, "img_", ".png");
        assert!(std::fs::read(image).unwrap().starts_with(b"\x89PNG"));

        let told = setup.call("mcp_s_audio", json!({})).await;
        let audio = media(&told);
        assert_eq!(audio.parent().unwrap(), setup.path("cache/audio"));
        assert_name(audio, "audio_", ".wav");
        assert!(std::fs::read(audio).unwrap().starts_with(b"RIFF"));
    }
}

#[tokio::test]
async fn an_embedded_document_becomes_a_file_and_a_note_and_an_embedded_text_stays_text() {
    let (setup, _peer) = one_server(TransportKind::Stdio, Behaviour::new()).await;
    let told = setup.call("mcp_s_blob", json!({})).await;
    let note = told["result"].as_str().unwrap();
    let path = note
        .strip_prefix("[resource saved: ")
        .and_then(|rest| rest.strip_suffix(" (application/pdf, 15 bytes)]"))
        .unwrap_or_else(|| panic!("{note}"));
    assert_eq!(
        Path::new(path).parent().unwrap(),
        setup.path("cache/documents")
    );
    assert_name(Path::new(path), "doc_", "_summary.pdf");
    assert_eq!(std::fs::read(path).unwrap(), b"%PDF-1.4\n%%EOF\n");

    let told = setup.call("mcp_s_embedded", json!({})).await;
    assert_eq!(told, json!({ "result": "an embedded note" }));
}

#[tokio::test]
async fn a_link_becomes_a_note_that_names_the_tool_which_reads_it() {
    let (setup, peer) = one_server(TransportKind::Stdio, Behaviour::new()).await;
    let told = setup.call("mcp_s_link", json!({})).await;
    let note = told["result"].as_str().unwrap();
    for part in ["test://text", "text/plain", "mcp_s_read_resource"] {
        assert!(note.contains(part), "{note}");
    }
    let reads = hermes_testkit::recorded(&peer.record, "resources/read");
    assert!(reads.is_empty(), "a link is not fetched: {reads:?}");
}

#[tokio::test]
async fn content_that_cannot_be_shown_leaves_a_note_and_its_neighbours_stay() {
    for (wire, era) in ALL_TRANSPORTS {
        let (setup, _peer) = one_server(wire, Behaviour::new().era(era)).await;
        let told = setup.call("mcp_s_unknown_content", json!({})).await;
        assert_eq!(
            told,
            json!({ "result": "[content of type `hologram` cannot be shown]\nafter the hologram" }),
            "{wire:?}, {era:?}"
        );
        let broken = json!({ "content": [
            { "type": "image", "data": "no base64!", "mimeType": "image/png" },
            { "type": "text", "text": "after" },
        ] });
        let told = setup
            .call("mcp_s_content", json!({ "result": broken }))
            .await;
        let text = told["result"].as_str().unwrap();
        assert!(text.starts_with("[image (image/png) not saved: "), "{text}");
        assert!(text.ends_with("]\nafter"), "{text}");
    }
}

#[tokio::test]
async fn a_large_result_arrives_whole() {
    for (wire, era) in ALL_TRANSPORTS {
        let (setup, _peer) = one_server(wire, Behaviour::new().era(era)).await;
        let told = setup.call("mcp_s_big", json!({ "bytes": 5_000_000 })).await;
        assert_eq!(told["result"].as_str().unwrap().len(), 5_000_000);
    }
}

#[tokio::test]
async fn structured_content_that_breaks_its_own_schema_is_returned_all_the_same() {
    let tool = hermes_testkit::Tool::named("liar")
        .with(
            "outputSchema",
            json!({ "type": "object", "required": ["sum"] }),
        )
        .acting_as("content");
    let setup = Setup::start(json!({ "s": stdio(&Behaviour::new().tools([tool])) })).await;
    let result = json!({ "content": [], "structuredContent": { "total": 3 } });
    let told = setup.call("mcp_s_liar", json!({ "result": result })).await;
    assert_eq!(told, json!({ "result": { "total": 3 } }));
}
