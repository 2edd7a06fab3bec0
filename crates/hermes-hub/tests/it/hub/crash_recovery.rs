//! Recovery after a crash.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_hub::{
    GroupId, Hub, OpenedHub, TenantId,
    api_types::AuditPhase,
    settings::Settings,
    storage::{
        audit::NewAuditEntry,
        state::{AuditQuery, FileChange, NewFileOperation, Page},
    },
    tenants::runtime::mock::MockRuntime,
};
use hermes_testkit::eventually_some;

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
        change: share_change("notes/a.md"),
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

const DRAFT: &str = ".hub-tmp-0123456789abcdef";

fn share_change(path: &str) -> FileChange {
    FileChange::Share {
        group: GroupId::parse("division1").unwrap(),
        path: path.into(),
    }
}

/// How far a change of files has come when the Hub is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashStage {
    Begun,
    HalfWritten,
    /// The file is in place, and nobody has said so.
    Written,
    /// The Hub after it was killed as well, before it had cleaned up.
    Settled,
}

/// Begins a change of a share and leaves it at a stage; returns the temporary file and the file.
async fn interrupt_change(site: &TestHub, stage: CrashStage) -> [PathBuf; 2] {
    let notes = site.directory.path().join("hub/shares/division1/notes");
    let (draft, file) = (notes.join(DRAFT), notes.join("new.md"));
    let records = site.hub.state();
    let intent = NewFileOperation {
        entry: NewAuditEntry::by_hub("write_share_file").with_target("division1:notes/new.md"),
        change: share_change("notes/new.md"),
        reserve: None,
    };
    let begun = records.begin_file_operation(intent).await.unwrap();
    match stage {
        CrashStage::Begun => {}
        CrashStage::HalfWritten => fs::write(&draft, "half").unwrap(),
        CrashStage::Written => fs::write(&file, "whole").unwrap(),
        CrashStage::Settled => {
            fs::write(&draft, "half").unwrap();
            let settled = records.settle_file_operation(begun, AuditPhase::Interrupted);
            settled.await.unwrap();
        }
    }
    [draft, file]
}

async fn wait_until_clean(site: &TestHub) {
    let unfinished = async || site.hub.state().unfinished_file_operations().await.unwrap();
    let cleaned = eventually_some(TIMEOUT, async || {
        unfinished().await.is_empty().then_some(())
    });
    assert!(cleaned.await.is_some(), "{:?}", unfinished().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_whatever_stage_a_hub_is_killed_the_next_one_cleans_up() {
    for stage in [
        CrashStage::Begun,
        CrashStage::HalfWritten,
        CrashStage::Written,
        CrashStage::Settled,
    ] {
        let mut site = TestHub::new().await.with_examples().await;
        let [draft, file] = interrupt_change(&site, stage).await;
        let other = file.with_file_name("report.md");
        assert!(other.exists());
        site.restart().await;
        wait_until_clean(&site).await;
        assert!(!draft.exists(), "{stage:?}");
        assert_eq!(file.exists(), stage == CrashStage::Written, "{stage:?}");
        assert!(other.exists(), "{stage:?}");
        let query = AuditQuery {
            action: Some("write_share_file".into()),
            ..AuditQuery::default()
        };
        let entries = site.hub.state().audit(&query, &Page::default()).await;
        let interrupted = entries.unwrap().items.into_iter();
        let interrupted = interrupted.filter(|entry| entry.phase == Some(AuditPhase::Interrupted));
        assert_eq!(interrupted.count(), 1, "{stage:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_hub_left_half_written_in_a_home_is_removed() {
    let mut site = TestHub::new().await.with_examples().await;
    let draft = site.home("tenant_123").join("cron").join(DRAFT);
    let tenant = TenantId::parse("tenant_123").unwrap();
    let intent = NewFileOperation {
        entry: NewAuditEntry::by_hub("create_tenant_cron").for_tenant(&tenant),
        change: FileChange::Home { tenant },
        reserve: None,
    };
    let _ = site.hub.state().begin_file_operation(intent).await.unwrap();
    fs::write(&draft, "half").unwrap();
    site.restart().await;
    wait_until_clean(&site).await;
    assert!(!draft.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_hub_left_half_unpacked_is_removed() {
    let mut site = TestHub::new().await.with_examples().await;
    let home = site.home("tenant_123");
    let deep = home.join("workspace/a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join(DRAFT), "half").unwrap();
    fs::write(deep.join("whole.md"), "whole").unwrap();
    let staged = home.join("skills").join(DRAFT);
    fs::create_dir_all(staged.join("references")).unwrap();
    fs::write(staged.join("references/a.md"), "half").unwrap();
    let linked = site.directory.path().join("hub/reading/0123");
    fs::create_dir_all(&linked).unwrap();
    for directory in ["workspace", "skills"] {
        let tenant = TenantId::parse("tenant_123").unwrap();
        let intent = NewFileOperation {
            entry: NewAuditEntry::by_hub("upload_archive").for_tenant(&tenant),
            change: FileChange::HomeFiles {
                tenant,
                directory: directory.into(),
            },
            reserve: None,
        };
        let _ = site.hub.state().begin_file_operation(intent).await.unwrap();
    }
    site.restart().await;
    wait_until_clean(&site).await;
    assert!(!deep.join(DRAFT).exists() && deep.join("whole.md").exists());
    assert!(!staged.exists() && home.join("skills/content/writer").exists());
    assert!(!linked.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_without_work_ends_at_once() {
    const AT_ONCE: Duration = Duration::from_millis(500);
    let mut took = Duration::MAX;
    // A machine under load may be slow a few times, not every time.
    for _ in 0..20 {
        let site = TestHub::new().await;
        let began = Instant::now();
        site.hub.close().await;
        took = took.min(began.elapsed());
        if took < AT_ONCE {
            return;
        }
    }
    panic!("it took {took:?}");
}
