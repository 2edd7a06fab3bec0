//! Files that have no room, and archives that are unpacked.

use std::fs;

use serde_json::json;

use super::{FILES, hub_with_files, upload};
use crate::console::ConsoleBrowser;

#[tokio::test]
async fn what_has_no_room_is_refused_at_once_and_the_page_says_how_much_there_is() {
    let hub = hub_with_files().await;
    let quota = json!({"storage": {"quotaBytes": 1 << 20}});
    hub.patch("/v1/tenants/tenant_123", &quota)
        .await
        .expect(200);
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get(FILES).await.expect_status(200);
    let room: u64 = page.attributes("data-room")[0].parse().unwrap();
    assert!(room > 0 && room <= 1 << 20, "{room}");
    page.assert_shows("Nothing was sent.");
    let token = admin.csrf().to_owned();
    let content = vec![b'x'; 3 << 20];
    let fields = [("csrf", token.as_str())];
    let address = format!("{FILES}/upload");
    let answered = upload(&admin, &address, &fields, &[("x.bin", &content)]).await;
    assert_eq!(answered.status, 507, "{}", answered.text);
    answered.assert_shows("there is room for");
    let workspace = hub.home("tenant_123").join("workspace");
    let names = fs::read_dir(workspace).unwrap();
    assert!(
        !names
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with(".upload"))
    );
}

#[tokio::test]
async fn an_archive_is_unpacked_where_it_is_wanted() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let mut archive = tar::Builder::new(Vec::new());
    let mut head = tar::Header::new_gnu();
    head.set_size(5);
    head.set_mode(0o644);
    archive
        .append_data(&mut head, "inner/a.txt", &b"hello"[..])
        .unwrap();
    let archive = archive.into_inner().unwrap();
    let token = admin.csrf().to_owned();
    let fields = [("csrf", token.as_str()), ("directory", "docs")];
    let address = format!("{FILES}/upload");
    let kept = upload(&admin, &address, &fields, &[("kept.tar", &archive)]).await;
    assert_eq!(kept.status, 303, "{}", kept.text);
    let unpacking = [fields[0], fields[1], ("unpack", "on")];
    let sent = upload(&admin, &address, &unpacking, &[("sent.tar", &archive)]).await;
    assert_eq!(sent.status, 303, "{}", sent.text);
    let docs = hub.home("tenant_123").join("workspace/docs");
    assert!(docs.join("kept.tar").exists());
    assert!(!docs.join("sent.tar").exists());
    assert_eq!(
        fs::read_to_string(docs.join("inner/a.txt")).unwrap(),
        "hello"
    );
}
