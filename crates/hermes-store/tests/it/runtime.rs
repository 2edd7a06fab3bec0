//! `runtime.db`: migrations and the life of an approval.

mod events;
mod inbox;
mod outbox;

use std::{fs, time::Duration};

use hermes_store::{
    StoreError,
    runtime::{
        AnswerReceipt, ApprovalAnswer, ApprovalOutcome, ApprovalState, NewApproval, RuntimeStore,
    },
};

use crate::empty_home;

fn new_approval(id: &str) -> NewApproval {
    NewApproval {
        id: id.into(),
        kind: "exec".into(),
        session_key: None,
        session: None,
        run_id: None,
        command: "rm -r x".into(),
        description: "removes files".into(),
        pattern_keys: vec!["rm".into()],
        allow_permanent: false,
        timeout: Some(Duration::from_mins(1)),
        owner_pid: std::process::id(),
        owner_start: Some(5),
    }
}

/// The pages of the log. They are in the database file afterwards.
async fn pages_of_log(home: &hermes_config::Home) -> i64 {
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(home.path().join("runtime.db"));
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let (_, pages, _): (i64, i64, i64) = sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    pages
}

#[tokio::test]
async fn a_pause_is_used_to_copy_the_log_back_and_to_begin_it_anew() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    let write = async |times: u32| {
        for number in 0..times {
            runtime.set_meta("n", &number.to_string()).await.unwrap();
        }
    };
    write(10).await;
    runtime.checkpoint_in_pause().await;
    // Too little was written to be worth it.
    assert!(pages_of_log(&home).await >= 10);
    write(50).await;
    runtime.checkpoint_in_pause().await;
    // What changes nothing was written: the next write does not wait for the disk.
    assert_eq!(pages_of_log(&home).await, 1);
    runtime.close().await;
    let runtime = RuntimeStore::open(&home).await.unwrap();
    assert_eq!(runtime.meta("n").await.unwrap().as_deref(), Some("49"));
    runtime.close().await;
}

#[tokio::test]
async fn a_new_database_has_every_table_and_opens_again() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    runtime.set_meta("cursor", "7").await.unwrap();
    runtime.set_meta("cursor", "8").await.unwrap();
    runtime.close().await;
    let (one, two) = tokio::join!(RuntimeStore::open(&home), RuntimeStore::open(&home));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.meta("cursor").await.unwrap().as_deref(), Some("8"));
    assert_eq!(two.meta("other").await.unwrap(), None);
    one.close().await;
    two.close().await;
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
        print(*[n for (n,) in c.execute(\"select name from sqlite_master where type = 'table' \
        and name not like 'sqlite%' order by name\")], *c.execute('pragma user_version').fetchone())";
    let output = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(home.path().join("runtime.db"))
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().trim(),
        "approvals bridge_events bridge_marks cursors inbox meta outbox replies run_events runs 4"
    );
}

#[tokio::test]
#[cfg(unix)]
async fn the_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    for entry in fs::read_dir(home.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
    }
    runtime.close().await;
}

#[tokio::test]
async fn the_first_answer_counts_and_the_owner_closes() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    runtime
        .publish_approval(&new_approval("ap_1"))
        .await
        .unwrap();
    runtime
        .publish_approval(&new_approval("ap_2"))
        .await
        .unwrap();
    let open = runtime.open_approvals().await.unwrap();
    assert_eq!(open.len(), 2);
    assert_eq!(open[0].id, "ap_1");
    assert_eq!(open[0].pattern_keys, ["rm"]);

    let answer = async |id, answer| {
        runtime
            .answer_approval(id, answer, "chat", None)
            .await
            .unwrap()
    };
    assert_eq!(
        answer("nobody", ApprovalAnswer::Once).await,
        AnswerReceipt::NotFound
    );
    assert_eq!(
        answer("ap_1", ApprovalAnswer::Always).await,
        AnswerReceipt::NotPermanent
    );
    let (one, two) = tokio::join!(
        answer("ap_1", ApprovalAnswer::Once),
        answer("ap_1", ApprovalAnswer::Deny)
    );
    assert!(
        matches!(
            (one, two),
            (AnswerReceipt::Accepted, AnswerReceipt::TooLate)
                | (AnswerReceipt::TooLate, AnswerReceipt::Accepted)
        ),
        "{one:?} {two:?}"
    );
    assert_eq!(runtime.open_approvals().await.unwrap().len(), 1);
    let answered = runtime.approval("ap_1").await.unwrap().unwrap();
    assert_eq!(answered.state, ApprovalState::Answered);

    assert!(runtime.reopen_approval("ap_1").await.unwrap());
    assert_eq!(
        answer("ap_1", ApprovalAnswer::Deny).await,
        AnswerReceipt::Accepted
    );
    let outcome = ApprovalOutcome::Answered(ApprovalAnswer::Deny);
    assert!(runtime.resolve_approval("ap_1", outcome).await.unwrap());
    assert!(
        !runtime
            .resolve_approval("ap_1", ApprovalOutcome::Cancelled)
            .await
            .unwrap()
    );
    let resolved = runtime.approval("ap_1").await.unwrap().unwrap();
    assert_eq!(resolved.answer, Some(ApprovalAnswer::Deny));
    assert_eq!(resolved.outcome.as_deref(), Some("deny"));
    assert_eq!(
        answer("ap_1", ApprovalAnswer::Once).await,
        AnswerReceipt::TooLate
    );
    runtime.close().await;
}

#[tokio::test]
async fn what_is_over_or_forsaken_expires() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    let late = NewApproval {
        timeout: Some(Duration::ZERO),
        ..new_approval("late")
    };
    let forsaken = NewApproval {
        owner_pid: 1,
        ..new_approval("forsaken")
    };
    for approval in [late, forsaken, new_approval("waiting")] {
        runtime.publish_approval(&approval).await.unwrap();
    }
    assert_eq!(runtime.open_approvals().await.unwrap().len(), 2);
    let answered = runtime
        .answer_approval("late", ApprovalAnswer::Once, "chat", None)
        .await
        .unwrap();
    assert_eq!(answered, AnswerReceipt::TooLate);
    let mut expired = runtime
        .expire_approvals(|approval| approval.owner_pid == 1)
        .await
        .unwrap();
    expired.sort();
    assert_eq!(expired, ["forsaken", "late"]);
    assert_eq!(runtime.open_approvals().await.unwrap().len(), 1);
    assert_eq!(
        runtime
            .prune_approvals(Duration::from_mins(1))
            .await
            .unwrap(),
        0
    );
    assert_eq!(runtime.prune_approvals(Duration::ZERO).await.unwrap(), 2);
    runtime.close().await;
}

#[tokio::test]
async fn ids_are_plain_and_unique() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    for bad in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
        let error = runtime
            .publish_approval(&new_approval(bad))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::BadApprovalId { .. }), "{bad}");
    }
    runtime
        .publish_approval(&new_approval("same"))
        .await
        .unwrap();
    assert!(
        runtime
            .publish_approval(&new_approval("same"))
            .await
            .is_err()
    );
    runtime.close().await;
}
