//! A home that has no workspace yet, as one that was linked.

use std::{fs, os::unix::fs::MetadataExt};

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const FILES: &str = "/tenants/tenant_123/files";

#[tokio::test]
async fn a_home_without_a_workspace_gets_one_with_its_first_file_or_folder() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let workspace = hub.home("tenant_123").join("workspace");
    fs::create_dir_all(&workspace).unwrap();
    let own = fs::metadata(hub.home("tenant_123")).unwrap();
    let path = ("tenant_id", "tenant_123");
    for (operation, fields) in [
        (
            "write_file",
            vec![path, ("path", "notes/new.txt"), ("content", "hello")],
        ),
        ("make_directory", vec![path, ("path", "plans")]),
    ] {
        fs::remove_dir_all(&workspace).unwrap();
        let removed = [path, ("path", "notes"), ("next", FILES)];
        let gone = admin.submit("/do/remove_file", &removed).await;
        assert_eq!(gone.status, 404, "{}", gone.text);
        assert!(!workspace.exists(), "what is not there is not made");
        let mut fields = fields;
        fields.push(("next", FILES));
        let page = admin.submit(&format!("/do/{operation}"), &fields).await;
        let shown = fields[1].1.split('/').next().unwrap();
        page.expect_status(200).assert_shows(shown);
        let made = fs::metadata(&workspace).unwrap();
        assert_eq!(made.uid(), own.uid(), "it belongs to the tenant");
    }
}
