//! Checkpoints in a bucket that is not always there.

use std::{fs, time::Duration};

use hermes_hub::{
    Problem,
    settings::ObjectSettings,
    storage::{
        checkpoints::{CheckpointError, RestoreOutcome, SavedCheckpoint},
        objects::{ObjectTimeouts, Objects},
    },
};
use hermes_testkit::{ChaosProxy, MotoKeys, MotoServer, NetworkFault, eventually_some};

use super::CheckpointFixture;
use crate::{storage::state::StateFixture, test_hub::TIMEOUT};

/// A home whose checkpoints go to a bucket behind a proxy.
async fn with_bucket() -> (CheckpointFixture, ChaosProxy, MotoServer) {
    let moto = MotoServer::start("hub", MotoKeys::Any);
    let proxy = ChaosProxy::start(moto.address());
    let settings = ObjectSettings {
        endpoint: Some(format!("http://{}", proxy.address())),
        allow_http: true,
        access_key_id: Some("test".into()),
        secret_access_key: Some(String::from("test").into()),
        ..ObjectSettings::at("s3://hub/homes")
    };
    let timeouts = ObjectTimeouts {
        connect: Duration::from_secs(5),
        idle: Duration::from_secs(2),
        operation: Duration::from_secs(3),
    };
    let objects = Objects::open_with(&settings, timeouts).unwrap();
    let scene = CheckpointFixture::over(StateFixture::new().await, objects).await;
    (scene, proxy, moto)
}

/// Saves the home. A machine under load may need longer than the timeouts, for once.
async fn save(scene: &CheckpointFixture) -> SavedCheckpoint {
    let saved = eventually_some(TIMEOUT, async || scene.save().await.ok());
    saved.await.expect("it cannot be saved")
}

/// Restores the home on the disk of a node, in the same way.
async fn restore(scene: &CheckpointFixture, node: &str) -> RestoreOutcome {
    let state = &*scene.fixture.state;
    let restored = eventually_some(TIMEOUT, async || scene.restore_as(state, node).await.ok());
    restored.await.expect("it cannot be restored")
}

#[tokio::test]
async fn a_bucket_that_is_full_or_refuses_the_keys_fails_the_checkpoint_and_says_why() {
    let (scene, proxy, _moto) = with_bucket().await;
    fs::write(scene.path("a"), "old").unwrap();
    let first = save(&scene).await;
    fs::write(scene.path("a"), "new").unwrap();
    for (status, code, expected) in [
        ("507 Insufficient Storage", "QuotaExceeded", 507),
        ("403 Forbidden", "InvalidAccessKeyId", 503),
        ("500 Internal Server Error", "InternalError", 503),
    ] {
        let body = format!("<Error><Code>{code}</Code></Error>");
        let reply = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        proxy.answer_next(usize::MAX, reply);
        let error = scene.save().await.unwrap_err();
        assert!(matches!(error, CheckpointError::Objects(_)), "{error}");
        let problem = Problem::from(error);
        assert_eq!(problem.code.status(), expected, "{code}: {problem}");
    }
    proxy.answer_next(0, "");
    let rows = scene.fixture.state.checkpoint_rows().unwrap();
    let latest = rows.latest_checkpoint(&scene.uid).await.unwrap().unwrap();
    assert_eq!(latest.id, first.id);
    assert!(save(&scene).await.id > first.id);
}

#[tokio::test]
async fn a_bucket_that_is_away_fails_the_checkpoint_and_the_old_one_stays() {
    let (scene, proxy, _moto) = with_bucket().await;
    fs::write(scene.path("a"), "old").unwrap();
    let first = save(&scene).await;
    fs::write(scene.path("a"), "new").unwrap();
    for fault in [NetworkFault::Cut, NetworkFault::HalfOpen] {
        proxy.set(fault);
        proxy.cut_connections();
        let error = scene.save().await.unwrap_err();
        assert!(matches!(error, CheckpointError::Objects(_)), "{error}");
    }
    proxy.set(NetworkFault::None);
    proxy.cut_connections();
    let restored = restore(&scene, "n2").await;
    assert_eq!(restored, RestoreOutcome::Restored(first.id));
    assert_eq!(
        fs::read_to_string(scene.home("n2").join("a")).unwrap(),
        "old"
    );
    let second = save(&scene).await;
    assert!(second.id > first.id);
    let restored = restore(&scene, "n3").await;
    assert_eq!(restored, RestoreOutcome::Restored(second.id));
    assert_eq!(
        fs::read_to_string(scene.home("n3").join("a")).unwrap(),
        "new"
    );
}
