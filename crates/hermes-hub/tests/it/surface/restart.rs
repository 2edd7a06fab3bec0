//! What a Hub finds that did not end in order.

use std::sync::Arc;

use hermes_hub::{
    Hub, Opened,
    audit::NewEntry,
    runtime::mock::MockRuntime,
    settings::Settings,
    shapes::AuditPhase,
    state::{AuditQuery, FileIntent, Page},
};

#[tokio::test]
async fn a_change_of_files_that_was_cut_off_is_settled_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let open = || async {
        let settings = Settings::in_directory(&directory.path().join("hub")).unwrap();
        let runtime = Arc::new(MockRuntime::default());
        Hub::open(settings, runtime).await.unwrap()
    };
    let Opened { hub, lock, .. } = open().await;
    let intent = FileIntent {
        entry: NewEntry::by_hub("write_share_file").to("division1:notes/a.md"),
        reserve: None,
    };
    let begun = hub.state().begin_files(intent).await.unwrap();
    hub.close().await;
    drop(lock);

    let Opened { hub, lock, .. } = open().await;
    let query = AuditQuery {
        action: Some("write_share_file".into()),
        ..AuditQuery::default()
    };
    let entries = hub.state().audit(&query, &Page::default()).await.unwrap();
    let settled = entries
        .items
        .iter()
        .find(|entry| entry.intent == Some(begun.seq));
    assert_eq!(settled.unwrap().phase, Some(AuditPhase::Interrupted));
    hub.close().await;
    drop(lock);
}
