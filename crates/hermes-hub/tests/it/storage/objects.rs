//! Object storage: a directory, and a bucket on a server of others, also when that misbehaves.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use hermes_hub::{
    Problem,
    settings::ObjectSettings,
    storage::objects::{ObjectError, ObjectTimeouts, Objects},
};
use hermes_testkit::{ChaosProxy, MotoKeys, MotoServer, NetworkFault, eventually_some};

fn settings(address: std::net::SocketAddr, url: &str) -> ObjectSettings {
    ObjectSettings {
        endpoint: Some(format!("http://{address}")),
        region: Some("us-east-1".into()),
        allow_http: true,
        access_key_id: Some("AKIDTESTONLY".into()),
        secret_access_key: Some(String::from("hunter2hunter2").into()),
        ..ObjectSettings::at(url)
    }
}

fn short_timeouts() -> ObjectTimeouts {
    ObjectTimeouts {
        connect: Duration::from_secs(5),
        idle: Duration::from_millis(300),
        operation: Duration::from_secs(2),
    }
}

fn content(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// What holds for any storage.
async fn check_contract(objects: &Objects) {
    objects.check().await.unwrap();
    assert!(matches!(
        objects.get("a/none").await.unwrap_err(),
        ObjectError::Missing { .. }
    ));
    objects.create("a/one", content("one")).await.unwrap();
    assert_eq!(objects.get("a/one").await.unwrap(), content("one"));
    // The reply may have been lost.
    objects.create("a/one", content("one")).await.unwrap();
    let other = objects.create("a/one", content("two")).await.unwrap_err();
    assert!(matches!(other, ObjectError::Exists { .. }), "{other}");
    objects.create_blob("a/one", content("two")).await.unwrap();
    assert_eq!(objects.get("a/one").await.unwrap(), content("one"));

    let racing = join_all((0..8).map(|_| objects.create_blob("a/blob", content("blob"))));
    assert!(racing.await.iter().all(Result::is_ok));
    let texts = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let racing = join_all(texts.map(|text| objects.create("a/won", content(text)))).await;
    let winners: Vec<usize> = (0..8).filter(|at| racing[*at].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{racing:?}");
    assert_eq!(
        objects.get("a/won").await.unwrap(),
        content(texts[winners[0]])
    );

    objects.create("b/empty", Bytes::new()).await.unwrap();
    assert_eq!(objects.get("b/empty").await.unwrap(), Bytes::new());
    let mut names: Vec<String> = objects
        .list("a", 100)
        .await
        .unwrap()
        .into_iter()
        .map(|object| object.name)
        .collect();
    names.sort();
    assert_eq!(names, ["a/blob", "a/one", "a/won"]);
    assert_eq!(objects.list("a", 2).await.unwrap().len(), 2);
    objects.delete("a/one").await.unwrap();
    objects.delete("a/one").await.unwrap();
    assert!(objects.get("a/one").await.is_err());
}

#[tokio::test]
async fn a_directory_keeps_objects() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}", directory.path().join("new/objects").display());
    let objects = Objects::open(&ObjectSettings::at(url)).unwrap();
    check_contract(&objects).await;
}

#[tokio::test]
async fn a_bucket_keeps_objects_below_its_prefix() {
    let moto = MotoServer::start("hub", MotoKeys::Any);
    let objects = Objects::open(&settings(moto.address(), "s3://hub/some/prefix")).unwrap();
    check_contract(&objects).await;
    let whole = Objects::open(&settings(moto.address(), "s3://hub")).unwrap();
    assert!(whole.get("some/prefix/a/won").await.is_ok());
    let missing = Objects::open(&settings(moto.address(), "s3://none")).unwrap();
    for error in [
        missing.check().await.unwrap_err(),
        missing.create("a", content("a")).await.unwrap_err(),
    ] {
        assert!(matches!(error, ObjectError::MissingBucket), "{error:?}");
    }
}

#[tokio::test]
async fn wrong_keys_are_told_from_other_failures_and_never_shown() {
    let moto = MotoServer::start("hub", MotoKeys::None);
    let objects = Objects::open(&settings(moto.address(), "s3://hub")).unwrap();
    for error in [
        objects.check().await.unwrap_err(),
        objects.create("a", content("a")).await.unwrap_err(),
    ] {
        assert!(matches!(error, ObjectError::Denied { .. }), "{error:?}");
        let shown = format!("{error} {error:?} {objects:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("AKIDTEST"),
            "{shown}"
        );
        assert_eq!(Problem::from(error).code.status(), 503);
    }
}

#[tokio::test]
async fn plain_http_needs_to_be_allowed() {
    let mut plain = settings(([127, 0, 0, 1], 9).into(), "s3://hub");
    plain.allow_http = false;
    let error = Objects::open(&plain).unwrap_err().to_string();
    assert!(error.contains("objects.allow_http"), "{error}");
}

fn reply(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_server_that_conflicts_fails_or_is_full_is_asked_again_or_told() {
    let moto = MotoServer::start("hub", MotoKeys::Any);
    let proxy = ChaosProxy::start(moto.address());
    let objects = Objects::open(&settings(proxy.address(), "s3://hub")).unwrap();

    let conflict = "<Error><Code>ConditionalRequestConflict</Code></Error>";
    proxy.answer_next(2, reply("409 Conflict", conflict));
    objects.create("conflict", content("a")).await.unwrap();
    assert_eq!(proxy.answers_left(), 0);
    assert_eq!(objects.get("conflict").await.unwrap(), content("a"));

    let busy = "<Error><Code>SlowDown</Code></Error>";
    proxy.answer_next(2, reply("503 Slow Down", busy));
    objects.create("busy", content("b")).await.unwrap();
    proxy.answer_next(2, reply("500 Internal Server Error", ""));
    assert_eq!(objects.get("busy").await.unwrap(), content("b"));

    proxy.answer_next(usize::MAX, reply("500 Internal Server Error", ""));
    let error = objects.get("busy").await.unwrap_err();
    assert!(matches!(error, ObjectError::Failing { .. }), "{error:?}");
    let full = "<Error><Code>XMinioStorageFull</Code><Message>hunter2</Message></Error>";
    proxy.answer_next(usize::MAX, reply("507 Insufficient Storage", full));
    let error = objects.create("full", content("c")).await.unwrap_err();
    assert!(matches!(error, ObjectError::Full { .. }), "{error:?}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert_eq!(Problem::from(error).code.status(), 507);
    proxy.answer_next(0, "");
    objects.create("full", content("c")).await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_or_stops_half_way_costs_a_limited_time() {
    let moto = MotoServer::start("hub", MotoKeys::Any);
    let proxy = ChaosProxy::start(moto.address());
    let settings = settings(proxy.address(), "s3://hub");
    let patient = Objects::open(&settings).unwrap();
    let large = Bytes::from(vec![b'x'; 300_000]);
    patient.create("large", large.clone()).await.unwrap();
    let objects = Objects::open_with(&settings, short_timeouts()).unwrap();

    proxy.set(NetworkFault::BlackHole);
    let start = Instant::now();
    let error = objects.get("large").await.unwrap_err();
    assert!(matches!(error, ObjectError::Slow { .. }), "{error:?}");
    let error = objects.create("new", content("a")).await.unwrap_err();
    assert!(matches!(error, ObjectError::Slow { .. }), "{error:?}");
    // Each attempt has two seconds, and there are seven; machines that test are slow.
    assert!(
        start.elapsed() < Duration::from_mins(2),
        "{:?}",
        start.elapsed()
    );

    proxy.set(NetworkFault::None);
    proxy.cut_connections();
    proxy.set(NetworkFault::Truncate(100_000));
    match objects.get("large").await {
        // The rest was asked for again.
        Ok(content) => assert_eq!(content, large),
        Err(error) => assert!(
            matches!(
                error,
                ObjectError::Failing { .. }
                    | ObjectError::Slow { .. }
                    | ObjectError::Damaged { .. }
            ),
            "{error:?}"
        ),
    }
    proxy.set(NetworkFault::Cut);
    let error = objects.get("large").await.unwrap_err();
    assert!(
        matches!(
            error,
            ObjectError::Failing { .. } | ObjectError::Slow { .. }
        ),
        "{error:?}"
    );
    proxy.set(NetworkFault::None);
    // A machine under load may need longer than these timeouts, for once.
    let back = eventually_some(Duration::from_mins(1), async || {
        let read = objects.get("large").await.ok()?;
        objects.create("new", content("a")).await.ok()?;
        Some(read)
    });
    assert_eq!(back.await.expect("it does not come back"), large);
}
