//! Sessions: making, finding, listing, naming, ending, counting and deleting.

use hermes_store::{
    Content, EndReason, NewMessage, NewSession, Origin, Role, Session, SessionId, SessionKey,
    SessionKeyPolicy, SessionListing, SessionOrder, SessionQuery, SessionUsage, Store, StoreError,
};
use jiff::Zoned;
use serde_json::json;

use crate::{assistant, id, open_store, user, with_session};

async fn create(store: &Store, session: &str, started_at: f64) -> SessionId {
    let new = NewSession {
        started_at: Some(started_at),
        ..NewSession::new(id(session), "cli")
    };
    store.create_session(&new).await.unwrap();
    new.id
}

async fn get(store: &Store, id: &SessionId) -> Session {
    store.session(id).await.unwrap().unwrap()
}

fn origin() -> Origin {
    Origin {
        platform: "telegram".into(),
        chat_id: Some("42".into()),
        chat_name: Some("Ann".into()),
        chat_type: "dm".into(),
        user_id: Some("7".into()),
        ..Origin::default()
    }
}

#[tokio::test]
async fn a_second_creation_fills_in_only_what_was_unknown() {
    let (_directory, _home, store) = open_store().await;
    let bare = NewSession {
        model: Some("first".into()),
        started_at: Some(10.0),
        ..NewSession::new(id("s"), "telegram")
    };
    store.create_session(&bare).await.unwrap();
    let key = origin().session_key(&SessionKeyPolicy::default());
    let full = NewSession {
        session_key: Some(key.clone()),
        origin: Some(origin()),
        model: Some("second".into()),
        model_config: Some(json!({"temperature": 1})),
        cwd: Some("/x".into()),
        started_at: Some(20.0),
        ..NewSession::new(id("s"), "unknown")
    };
    store.create_session(&full).await.unwrap();
    let session = get(&store, &id("s")).await;
    assert_eq!(session.source, "telegram");
    assert_eq!(session.model.as_deref(), Some("first"));
    assert_eq!(session.session_key, Some(key));
    assert_eq!(session.origin, Some(origin()));
    assert_eq!(session.chat_id.as_deref(), Some("42"));
    assert_eq!(session.display_name.as_deref(), Some("Ann"));
    assert_eq!(session.user_id.as_deref(), Some("7"));
    assert_eq!(session.model_config, Some(json!({"temperature": 1})));
    assert_eq!(session.cwd.as_deref(), Some("/x"));
    assert!((session.started_at - 10.0).abs() < 1e-9);
    store.close().await;
}

#[tokio::test]
async fn a_parent_must_be_there() {
    let (_directory, _home, store) = open_store().await;
    let orphan = NewSession {
        parent: Some(id("nobody")),
        ..NewSession::new(id("s"), "cli")
    };
    let error = store.create_session(&orphan).await.unwrap_err();
    assert!(matches!(error, StoreError::NoSuchSession { id } if id.as_str() == "nobody"));
    store.close().await;
}

#[tokio::test]
async fn sessions_are_found_by_what_people_type() {
    let (_directory, _home, store) = open_store().await;
    let one = create(&store, "20260101_000000_aaaaaa", 1.0).await;
    let two = create(&store, "20260101_000000_bbbbbb", 2.0).await;
    let three = create(&store, "20260102_000000_cccccc", 3.0).await;
    store.set_title(&one, "2026").await.unwrap();
    let find = async |text: &str| {
        let found = store.find_session(text).await?;
        Ok::<_, StoreError>(found.map(|session| session.id))
    };
    assert_eq!(find(one.as_str()).await.unwrap(), Some(one.clone()));
    assert_eq!(find("20260102").await.unwrap(), Some(three.clone()));
    assert_eq!(find("20260101_000000_b").await.unwrap(), Some(two));
    assert_eq!(find("2026").await.unwrap(), Some(one));
    assert!(matches!(
        find("20260101").await,
        Err(StoreError::AmbiguousSession { .. })
    ));
    assert_eq!(find("nothing").await.unwrap(), None);
    assert_eq!(find("").await.unwrap(), None);
    assert_eq!(find("2026010%").await.unwrap(), None);
    let newest = store.newest_session("cli").await.unwrap().unwrap();
    assert_eq!(newest.id, three);
    assert_eq!(store.newest_session("tui").await.unwrap(), None);
    // One that worked for another is not what somebody goes on with.
    let worker = NewSession {
        parent: Some(three.clone()),
        model_config: Some(json!({"_delegate_from": three.as_str()})),
        started_at: Some(4.0),
        ..NewSession::new(id("worker"), "cli")
    };
    store.create_session(&worker).await.unwrap();
    let newest = store.newest_session("cli").await.unwrap().unwrap();
    assert_eq!(newest.id, three);
    store.close().await;
}

#[tokio::test]
async fn a_first_title_does_not_replace_one_that_was_set_meanwhile() {
    let (_directory, _home, store) = open_store().await;
    let one = create(&store, "one", 1.0).await;
    let two = create(&store, "two", 2.0).await;
    assert!(store.set_first_title(&one, "made up").await.unwrap());
    assert_eq!(get(&store, &one).await.title.as_deref(), Some("made up"));
    let error = store.set_first_title(&two, "made up").await.unwrap_err();
    assert!(matches!(error, StoreError::TitleTaken { holder, .. } if holder == one));
    store.set_title(&two, "chosen").await.unwrap();
    assert!(!store.set_first_title(&two, "another").await.unwrap());
    assert_eq!(get(&store, &two).await.title.as_deref(), Some("chosen"));
    store.close().await;
}

#[tokio::test]
async fn titles_are_unique_but_pass_on_to_a_continuation() {
    let (_directory, _home, store) = open_store().await;
    let one = create(&store, "one", 1.0).await;
    let two = create(&store, "two", 2.0).await;
    assert_eq!(
        store
            .set_title(&one, "  my\ttitle ")
            .await
            .unwrap()
            .as_deref(),
        Some("my title")
    );
    store.set_title(&one, "my title").await.unwrap();
    let error = store.set_title(&two, "my title").await.unwrap_err();
    assert!(matches!(error, StoreError::TitleTaken { holder, .. } if holder == one));
    let error = store.set_title(&id("nobody"), "x").await.unwrap_err();
    assert!(matches!(error, StoreError::NoSuchSession { .. }));

    store
        .end_session(&one, EndReason::Compression)
        .await
        .unwrap();
    let next = NewSession {
        parent: Some(one.clone()),
        ..NewSession::new(id("next"), "cli")
    };
    store.create_session(&next).await.unwrap();
    store.set_title(&next.id, "my title").await.unwrap();
    assert_eq!(get(&store, &one).await.title, None);
    assert_eq!(store.set_title(&next.id, "").await.unwrap(), None);
    assert_eq!(get(&store, &next.id).await.title, None);
    store.close().await;
}

#[tokio::test]
async fn a_numbered_title_stands_for_the_latest_of_its_line() {
    let (_directory, _home, store) = open_store().await;
    for (session, title, at) in [
        ("a", "plan", 1.0),
        ("b", "plan #2", 2.0),
        ("c", "plan_x #9", 3.0),
    ] {
        let session = create(&store, session, at).await;
        store.set_title(&session, title).await.unwrap();
    }
    let found = store.session_by_title("plan").await.unwrap().unwrap();
    assert_eq!(found.id.as_str(), "b");
    let exact = store.session_by_title("plan #2").await.unwrap().unwrap();
    assert_eq!(exact.id.as_str(), "b");
    assert_eq!(store.session_by_title("pla%").await.unwrap(), None);
    store.close().await;
}

#[tokio::test]
async fn lists_show_conversations_newest_first_with_a_preview() {
    let (_directory, _home, store) = open_store().await;
    let old = create(&store, "old", 1.0).await;
    let new = create(&store, "new", 2.0).await;
    store
        .append_all(
            &old,
            &[
                assistant("hi"),
                NewMessage {
                    timestamp: Some(50.0),
                    ..user("what is\nthis?")
                },
            ],
        )
        .await
        .unwrap();
    let parts = json!([{"type": "image_url", "image_url": {"url": "x".repeat(5000)}}, {"type": "text", "text": "look"}]);
    let picture = NewMessage {
        timestamp: Some(3.0),
        ..NewMessage::new(Role::User, Content::Parts(parts))
    };
    store.append(&new, &picture).await.unwrap();
    for (session, source, parent, config) in [
        (
            "worker",
            "cli",
            Some(&new),
            Some(json!({"_delegate_from": "new"})),
        ),
        ("cron_x", "cron", None, None),
        ("squeezed", "cli", None, None),
    ] {
        store
            .create_session(&NewSession {
                parent: parent.cloned(),
                model_config: config,
                started_at: Some(0.5),
                ..NewSession::new(id(session), source)
            })
            .await
            .unwrap();
    }
    store
        .create_session(&NewSession {
            parent: Some(id("squeezed")),
            started_at: Some(0.6),
            ..NewSession::new(id("goes_on"), "cli")
        })
        .await
        .unwrap();
    store
        .end_session(&id("squeezed"), EndReason::Compression)
        .await
        .unwrap();

    let list = async |query: SessionQuery| {
        let found = store.list_sessions(&query).await.unwrap();
        let entry = |summary: hermes_store::SessionSummary| {
            (summary.session.id.to_string(), summary.preview)
        };
        found.into_iter().map(entry).collect::<Vec<_>>()
    };
    let cli = SessionQuery {
        sources: vec!["cli".into()],
        ..SessionQuery::default()
    };
    assert_eq!(
        list(cli.clone()).await,
        [
            ("new".into(), "look".into()),
            ("old".into(), "what is this?".into()),
            ("goes_on".to_owned(), String::new()),
        ]
    );
    let active = SessionQuery {
        order: SessionOrder::Active,
        limit: 1,
        ..cli.clone()
    };
    assert_eq!(list(active).await[0].0, "old");
    let page = SessionQuery {
        limit: 1,
        offset: 1,
        ..cli.clone()
    };
    assert_eq!(list(page).await[0].0, "old");
    let without_cli = SessionQuery {
        excluded_sources: vec!["cli".into()],
        ..SessionQuery::default()
    };
    let without_cli = list(without_cli).await;
    assert!(without_cli.iter().any(|(id, _)| id == "cron_x"));
    assert!(without_cli.iter().all(|(id, _)| id != "new"));
    let all = SessionQuery {
        listing: SessionListing::All,
        ..SessionQuery::default()
    };
    assert_eq!(list(all).await.len(), 6);
    assert_eq!(store.count_sessions(&[]).await.unwrap(), 6);
    assert_eq!(store.count_sessions(&["cron".into()]).await.unwrap(), 1);
    store.close().await;
}

#[tokio::test]
async fn the_first_end_stands_unless_it_was_an_accident() {
    let (_directory, _home, store, session) = with_session().await;
    assert!(
        store
            .end_session(&session, EndReason::AgentClose)
            .await
            .unwrap()
    );
    assert!(
        !store
            .end_session(&session, EndReason::CliClose)
            .await
            .unwrap()
    );
    assert!(
        store
            .end_session(&session, EndReason::SessionReset)
            .await
            .unwrap()
    );
    assert!(!store.end_session(&session, EndReason::Idle).await.unwrap());
    let ended = get(&store, &session).await;
    assert_eq!(ended.end_reason.as_deref(), Some("session_reset"));
    assert!(ended.ended_at.is_some());
    store.reopen_session(&session).await.unwrap();
    let open = get(&store, &session).await;
    assert_eq!((open.ended_at, open.end_reason), (None, None));
    assert!(store.reopen_session(&id("nobody")).await.is_err());
    store.close().await;
}

async fn create_keyed(store: &Store, session: &str, key: &SessionKey, at: f64) -> SessionId {
    let new = NewSession {
        session_key: Some(key.clone()),
        origin: Some(origin()),
        started_at: Some(at),
        ..NewSession::new(id(session), "telegram")
    };
    store.create_session(&new).await.unwrap();
    new.id
}

#[tokio::test]
async fn a_chat_is_in_its_newest_session_if_that_is_open() {
    let (_directory, _home, store) = open_store().await;
    let key = origin().session_key(&SessionKeyPolicy::default());
    assert_eq!(store.resume_key(&key).await.unwrap(), None);
    let first = create_keyed(&store, "first", &key, 1.0).await;
    let current = async || {
        let session = store.current_session(&key).await.unwrap();
        session.map(|session| session.id)
    };
    assert_eq!(current().await, Some(first.clone()));

    store
        .end_session(&first, EndReason::AgentClose)
        .await
        .unwrap();
    assert_eq!(current().await, None);
    let resumed = store.resume_key(&key).await.unwrap().unwrap();
    assert_eq!(resumed.id, first);

    store
        .end_session(&first, EndReason::SessionReset)
        .await
        .unwrap();
    assert_eq!(store.resume_key(&key).await.unwrap(), None);
    let now: Zoned = "2026-01-01T00:00:00[UTC]".parse().unwrap();
    let second = SessionId::for_gateway(&now);
    create_keyed(&store, second.as_str(), &key, 2.0).await;
    assert_eq!(current().await, Some(second.clone()));
    let chats = store.chats().await.unwrap();
    assert_eq!(chats.len(), 1);
    assert_eq!(chats[0].session, second);

    // An older open row does not come back when the newest ends.
    store.reopen_session(&first).await.unwrap();
    store.end_session(&second, EndReason::Daily).await.unwrap();
    assert_eq!(current().await, None);
    assert_eq!(store.chats().await.unwrap(), []);
    store.close().await;
}

#[tokio::test]
async fn usage_adds_up_in_all_and_by_model() {
    let (_directory, _home, store, session) = with_session().await;
    store.set_model(&session, "planned", None).await.unwrap();
    let call = |tokens, cost| SessionUsage {
        api_calls: 1,
        input_tokens: tokens,
        output_tokens: 1,
        estimated_cost_usd: cost,
        billing_provider: Some("p".into()),
        ..SessionUsage::default()
    };
    let record = async |model, task, usage| {
        store
            .record_usage(&session, model, task, &usage)
            .await
            .unwrap();
    };
    record("big", None, call(100, Some(0.5))).await;
    record("big", None, call(10, Some(0.25))).await;
    record("small", None, call(5, None)).await;
    record("eyes", Some("vision"), call(7, None)).await;
    let stored = get(&store, &session).await;
    assert_eq!(stored.usage.input_tokens, 115);
    assert_eq!(stored.usage.api_calls, 3);
    assert_eq!(stored.usage.estimated_cost_usd, Some(0.75));
    assert_eq!(stored.usage.actual_cost_usd, None);
    assert_eq!(stored.usage.billing_provider.as_deref(), Some("p"));
    assert_eq!(stored.model.as_deref(), Some("big"), "what answered first");
    let models = store.model_usage(&session).await.unwrap();
    let shares: Vec<_> = models
        .iter()
        .map(|share| {
            (
                share.model.as_str(),
                share.task.as_str(),
                share.usage.input_tokens,
            )
        })
        .collect();
    assert_eq!(
        shares,
        [("big", "", 110), ("eyes", "vision", 7), ("small", "", 5)]
    );
    for task in [None, Some("vision")] {
        let error = store
            .record_usage(&id("nobody"), "m", task, &call(1, None))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::NoSuchSession { .. }));
    }
    store.close().await;
}

#[tokio::test]
async fn deleting_takes_workers_along_and_leaves_branches() {
    let (_directory, _home, store, session) = with_session().await;
    let child = |name: &str, parent: &SessionId, worker: bool| NewSession {
        parent: Some(parent.clone()),
        model_config: worker.then(|| json!({"_delegate_from": parent.as_str()})),
        ..NewSession::new(id(name), "cli")
    };
    store
        .create_session(&child("worker", &session, true))
        .await
        .unwrap();
    store
        .create_session(&child("helper", &id("worker"), true))
        .await
        .unwrap();
    store
        .create_session(&child("branch", &session, false))
        .await
        .unwrap();
    assert_eq!(
        store.lineage(&id("helper")).await.unwrap(),
        [session.clone(), id("worker"), id("helper")]
    );
    assert_eq!(store.children(&session).await.unwrap().len(), 2);
    store.append(&id("worker"), &user("x")).await.unwrap();
    store.append(&session, &user("findme")).await.unwrap();
    store
        .record_usage(&session, "m", None, &SessionUsage::default())
        .await
        .unwrap();

    assert!(store.delete_session(&session).await.unwrap());
    assert!(!store.delete_session(&session).await.unwrap());
    for gone in [&session, &id("worker"), &id("helper")] {
        assert_eq!(store.session(gone).await.unwrap(), None);
        assert_eq!(store.active_messages(gone).await.unwrap(), []);
    }
    assert_eq!(get(&store, &id("branch")).await.parent, None);
    let hits = store
        .search(&hermes_store::SearchQuery::new("findme"))
        .await
        .unwrap();
    assert_eq!(hits, []);
    store.close().await;
}

#[tokio::test]
async fn a_circle_of_parents_ends() {
    let (_directory, home, store, session) = with_session().await;
    let other = NewSession {
        parent: Some(session.clone()),
        ..NewSession::new(id("other"), "cli")
    };
    store.create_session(&other).await.unwrap();
    crate::python_sql(
        &home,
        "UPDATE sessions SET parent_session_id = 'other' WHERE id != 'other'",
    );
    assert_eq!(store.lineage(&session).await.unwrap().len(), 2);
    store.close().await;
}
