//! Path traversal attempts, in every form in which a client could send them.

use std::fmt::Write;

use bytes::Bytes;
use hermes_hub::storage::files::{
    FindQuery, GrepQuery, LineRange, RemoveMode, SharePath, WriteMode,
};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::storage::files::fixture::{AnyShare, OUTSIDE_SECRET, path};

const ATTACKS: [&str; 48] = [
    "../outside/secret",
    "..",
    "../",
    "../../",
    "a/../../outside/secret",
    "./../outside/secret",
    "a/..",
    "a/../..",
    "a/./../../outside/secret",
    "....//outside/secret",
    "..../outside/secret",
    "..;/outside/secret",
    "/etc/passwd",
    "//etc/passwd",
    "///outside",
    "/proc/self/root/etc/passwd",
    "..\\outside\\secret",
    "a\\..\\..\\outside",
    "\\\\host\\share",
    "\\..\\secret",
    "C:\\windows",
    "c:/windows",
    "C:secret",
    "file:///etc/passwd",
    "a:stream",
    "a::$DATA",
    "a\0../secret",
    "secret\0.md",
    "a\n../secret",
    "a\r\nb",
    "\u{202e}../secret",
    "a\u{2066}b",
    "\u{200b}../secret",
    "..\u{200b}/outside",
    "\u{feff}../secret",
    "%2e%2e/outside/secret",
    "%2e%2e%2foutside%2fsecret",
    "..%2foutside%2fsecret",
    "..%5coutside",
    "%252e%252e%252foutside%252fsecret",
    "%c0%ae%c0%ae/outside/secret",
    "%e0%80%ae%e0%80%ae/outside",
    "..%c0%af../outside",
    "%2fetc%2fpasswd",
    "%00../secret",
    "\u{ff0e}\u{ff0e}/outside/secret",
    "\u{ff0e}\u{ff0e}\u{ff0f}outside\u{ff0f}secret",
    "\u{2025}/outside/secret",
];

/// The forms of an attack: as it is, decoded once as in a query, unescaped as in JSON.
fn attack_forms(attack: &str) -> Vec<String> {
    let mut forms = vec![attack.to_owned()];
    forms.extend(percent_decode_str(attack).decode_utf8().map(Into::into));
    let mut escaped = String::new();
    for unit in attack.encode_utf16() {
        write!(escaped, "\\u{unit:04x}").unwrap();
    }
    forms.push(serde_json::from_str(&format!("\"{escaped}\"")).unwrap());
    forms
}

#[tokio::test]
async fn no_path_leaves_the_share_in_any_encoding() {
    let scene = AnyShare::beside_a_secret().await;
    scene.put("a/file", "inside").await;
    scene.files.usage().await.unwrap();
    let mut refused = 0;
    for attack in ATTACKS.into_iter().flat_map(attack_forms) {
        let Ok(target) = SharePath::parse(&attack) else {
            refused += 1;
            continue;
        };
        assert!(
            !target.segments().any(|segment| segment == ".."),
            "{attack:?}"
        );
        try_all_operations(&scene, &target).await;
        scene.assert_outside_is_untouched().await;
    }
    assert!(refused > 70, "only {refused} were refused as paths");
}

/// The parsed path is a plain name: all operations on it stay within the share.
async fn try_all_operations(scene: &AnyShare, target: &SharePath) {
    let files = &scene.files;
    let content = Bytes::from_static(b"written");
    let _ = files
        .write(target, content.clone(), WriteMode::Append, None)
        .await;
    let _ = files
        .write(target, content, WriteMode::Overwrite, None)
        .await;
    if let Ok(text) = files.read(target, LineRange::default()).await {
        assert_ne!(text.content, OUTSIDE_SECRET);
    }
    let _ = files.stat(target).await;
    let _ = files.list(target).await;
    let search = GrepQuery {
        pattern: "SECRET".into(),
        path: Some(target.clone()),
        ..GrepQuery::default()
    };
    if let Ok(found) = files.grep(search, CancellationToken::new()).await {
        assert_eq!(found.matches, []);
    }
    let find = FindQuery {
        path: Some(target.clone()),
        ..FindQuery::default()
    };
    if let Ok(found) = files.find(find, CancellationToken::new()).await {
        assert!(found.paths.iter().all(|entry| entry.name != "secret"));
    }
    let _ = files.relocate(target, &path("moved"), None).await;
    let _ = files.relocate(&path("moved"), target, None).await;
    let _ = files.make_dir(target).await;
    let _ = files.remove(target, RemoveMode::Recursive, None).await;
    let _ = files
        .remove(&path("moved"), RemoveMode::Recursive, None)
        .await;
}

#[test]
fn a_path_in_json_is_checked_like_any_other() {
    #[derive(Debug, Deserialize)]
    struct Input {
        path: SharePath,
    }
    let parse = |json: &str| serde_json::from_str::<Input>(json);
    assert!(parse(r#"{"path":"\u002e\u002e/secret"}"#).is_err());
    assert!(parse(r#"{"path":"a\u0000b"}"#).is_err());
    assert!(parse(r#"{"path":"\ud800"}"#).is_err());
    assert_eq!(parse(r#"{"path":"./a//b"}"#).unwrap().path.as_str(), "a/b");
}
