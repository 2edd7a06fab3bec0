//! Recovery after a crash.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_hub::{
    Hub, OpenedHub, TenantId,
    api_types::AuditPhase,
    settings::Settings,
    storage::{
        audit::NewAuditEntry,
        state::{AuditQuery, NewFileOperation, Page},
    },
    tenants::runtime::mock::MockRuntime,
};

use crate::test_hub::{TIMEOUT, TestHub};

#[tokio::test]
async fn a_change_of_files_that_was_cut_off_is_settled_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let open = || async {
        let settings = Settings::for_directory(&directory.path().join("hub")).unwrap();
        let runtime = Arc::new(MockRuntime::default());
        Hub::open(settings, runtime).await.unwrap()
    };
    let OpenedHub { hub, lock, .. } = open().await;
    let intent = NewFileOperation {
        entry: NewAuditEntry::by_hub("write_share_file").with_target("division1:notes/a.md"),
        reserve: None,
    };
    let begun = hub.state().begin_file_operation(intent).await.unwrap();
    hub.close().await;
    drop(lock);

    let OpenedHub { hub, lock, .. } = open().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_hub_left_half_written_is_cleared_at_the_next_start() {
    let mut site = TestHub::new().await.with_examples().await;
    let draft = ".hub-tmp-0123456789abcdef";
    let share = site.directory.path().join("hub/shares/division1/notes");
    let drafts = [
        share.join(draft),
        site.home("tenant_123").join("cron").join(draft),
    ];
    let tenant = TenantId::parse("tenant_123").unwrap();
    for (action, target, draft) in [
        ("write_share_file", "division1:notes/new.md", &drafts[0]),
        ("create_tenant_cron", "job", &drafts[1]),
    ] {
        let entry = NewAuditEntry::by_hub(action)
            .for_tenant(&tenant)
            .with_target(target);
        let intent = NewFileOperation {
            entry,
            reserve: None,
        };
        let _ = site.hub.state().begin_file_operation(intent).await.unwrap();
        fs::write(draft, "half").unwrap();
    }
    let kept = share.join("report.md");
    assert!(kept.exists());
    site.restart().await;
    let patience = Instant::now() + TIMEOUT;
    while drafts.iter().any(|draft| draft.exists()) {
        assert!(Instant::now() < patience, "a draft is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(kept.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_without_work_ends_at_once() {
    let mut took = Duration::MAX;
    // A machine under load may be slow once, not every time.
    for _ in 0..5 {
        let site = TestHub::new().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        site.hub.close().await;
        took = took.min(began.elapsed());
    }
    assert!(took < Duration::from_millis(500), "{took:?}");
}
