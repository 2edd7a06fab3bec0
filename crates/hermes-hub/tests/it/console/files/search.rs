//! Searching a workspace or a share.

use std::fs;

use serde_json::json;

use super::{super::ConsoleBrowser, FILES, SHARE, hub_with_files};

#[tokio::test]
async fn a_share_is_searched_by_names_texts_and_patterns() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    for (query, found) in [
        ("search=report", true),
        ("search=*.md", true),
        ("search=RECEIPT&in=text", true),
        ("search=inv.*e&in=pattern", true),
        ("search=inv.*e&in=text", false),
        ("search=nothing-of-that", false),
    ] {
        let page = admin.get(&format!("{SHARE}&{query}")).await;
        let page = page.expect_status(200);
        assert_eq!(page.shows("notes/report.md"), found, "{query}");
    }
    let bad = admin.get(&format!("{SHARE}&search=%5B&in=pattern")).await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn a_workspace_is_searched_like_a_share() {
    let hub = hub_with_files().await;
    let workspace = hub.home("tenant_123").join("workspace");
    let outside = hub.directory.path().join("outside.txt");
    fs::write(&outside, "second").unwrap();
    std::os::unix::fs::symlink(&outside, workspace.join("docs/link.txt")).unwrap();
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let folder = viewer.get(FILES).await.expect_status(200);
    folder.assert_shows("role=\"search\"");
    for (query, found) in [
        ("search=note", true),
        ("search=*.md", true),
        ("search=SECOND&in=text", true),
        ("search=sec.nd&in=pattern", true),
        ("search=sec.nd&in=text", false),
        ("search=second&in=text&path=docs", true),
        ("search=second&in=text&path=docs/deep", false),
        ("search=nothing-of-that", false),
    ] {
        let page = viewer.get(&format!("{FILES}?{query}")).await;
        let page = page.expect_status(200);
        assert_eq!(page.shows("docs/note.md"), found, "{query}");
        assert_eq!(page.shows("Nothing was found"), !found, "{query}");
        page.assert_lacks("docs/link.txt");
    }
    let bad = viewer.get(&format!("{FILES}?search=%5B&in=pattern")).await;
    assert_eq!(bad.status, 400);
    let narrow = ConsoleBrowser::with_rights(&hub, json!({"scopes": ["runs:read"]})).await;
    let refused = narrow.get(&format!("{FILES}?search=note")).await;
    assert_eq!(refused.status, 404);
}
