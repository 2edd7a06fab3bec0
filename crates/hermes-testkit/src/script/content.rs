//! Results of tool calls, one of each kind of content.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// A PNG of one pixel.
const PNG: [u8; 70] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4,
    0x89, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x64, 0xf8, 0xcf, 0x50,
    0x0f, 0x00, 0x03, 0x86, 0x01, 0x80, 0x5a, 0x34, 0x7d, 0x6b, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45,
    0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// A WAV file without a single sample.
const WAV: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0";

pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }] })
}

pub(super) fn failure(message: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": message }], "isError": true })
}

/// JSON as text.
pub(super) fn document(value: &Value) -> Value {
    text(value.to_string())
}

pub(super) fn image() -> Value {
    json!({ "content": [{ "type": "image", "data": STANDARD.encode(PNG), "mimeType": "image/png" }] })
}

pub(super) fn audio() -> Value {
    json!({ "content": [{ "type": "audio", "data": STANDARD.encode(WAV), "mimeType": "audio/wav" }] })
}

pub(super) fn blob() -> Value {
    json!({ "content": [{ "type": "resource", "resource": {
        "uri": "file:///reports/summary.pdf",
        "mimeType": "application/pdf",
        "blob": STANDARD.encode(b"%PDF-1.4\n%%EOF\n"),
    } }] })
}

pub(super) fn embedded_text() -> Value {
    json!({ "content": [{ "type": "resource", "resource": {
        "uri": "file:///notes/today.txt",
        "mimeType": "text/plain",
        "text": "an embedded note",
    } }] })
}

pub(super) fn link() -> Value {
    json!({ "content": [{
        "type": "resource_link",
        "uri": "test://text",
        "name": "text",
        "description": "A text to read.",
        "mimeType": "text/plain",
    }] })
}

pub(super) fn unknown() -> Value {
    json!({ "content": [
        { "type": "hologram", "data": "AAAA", "depth": 3 },
        { "type": "text", "text": "after the hologram" },
    ] })
}
