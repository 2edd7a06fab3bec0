//! Search: words, parts of words, signs without spaces; filters, order and what must not be found.

use hermes_store::{
    Content, NewMessage, NewSession, Role, SearchMatching, SearchOrder, SearchQuery, SessionId,
    Store,
};
use serde_json::json;

use crate::{assistant, id, user, with_session};

async fn search_ids(store: &Store, search: SearchQuery) -> Vec<i64> {
    let hits = store.search(&search).await.unwrap();
    hits.iter().map(|hit| hit.message.0).collect()
}

async fn store_with(texts: &[&str]) -> (tempfile::TempDir, Store, SessionId) {
    let (directory, _home, store, session) = with_session().await;
    for text in texts {
        store.append(&session, &user(text)).await.unwrap();
    }
    (directory, store, session)
}

#[tokio::test]
async fn all_words_must_occur_and_phrases_stay_together() {
    let (_directory, store, _) = store_with(&[
        "deploy the docker image",
        "the image of a docker",
        "Docker only",
        "a chat-send.tool call",
    ])
    .await;
    for (text, expected) in [
        ("docker image", vec![2, 1]),
        ("\"docker image\"", vec![1]),
        ("DOCKER", vec![3, 2, 1]),
        ("docker missing", vec![]),
        ("chat-send", vec![4]),
        ("send.tool", vec![4]),
        ("docker OR chat", vec![]),
        ("", vec![]),
        ("   ", vec![]),
        ("\"", vec![]),
    ] {
        assert_eq!(
            search_ids(&store, SearchQuery::new(text)).await,
            expected,
            "{text}"
        );
    }
    store.close().await;
}

#[tokio::test]
async fn nothing_that_is_typed_is_an_error() {
    let (_directory, store, _) = store_with(&["x"]).await;
    for text in [
        "\"",
        "'",
        "*",
        "a*",
        "a AND",
        "NOT",
        "NEAR(a b)",
        "content:x",
        "^x",
        "-x",
        "(",
        ")",
        "{x}",
        "x:",
        "+",
        "a\"b",
        "\"\"\"",
        "\0",
        "😀",
        "%",
        "_",
        "\\",
    ] {
        store.search(&SearchQuery::new(text)).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn signs_without_spaces_are_found_inside_a_text() {
    let (_directory, store, session) = store_with(&[
        "我们讨论了大别山项目的进展",
        "广西的天气",
        "日本語のテキスト検索",
        "한국어 검색입니다",
    ])
    .await;
    for (text, expected) in [
        ("大别山", vec![1]),
        ("大别山项目", vec![1]),
        ("别山", vec![1]),
        ("广西", vec![2]),
        ("西", vec![2]),
        ("テキスト", vec![3]),
        ("검색입", vec![4]),
        ("검색", vec![4]),
        ("大别山 广西", vec![]),
        ("桂林", vec![]),
    ] {
        assert_eq!(
            search_ids(&store, SearchQuery::new(text)).await,
            expected,
            "{text}"
        );
    }
    let parts = json!([{"type": "text", "text": "图片里的大别山"}]);
    let picture = NewMessage::new(Role::User, Content::Parts(parts));
    store.append(&session, &picture).await.unwrap();
    assert_eq!(search_ids(&store, SearchQuery::new("大别山")).await, [5, 1]);
    assert_eq!(search_ids(&store, SearchQuery::new("图片")).await, [5]);
    let hit = store
        .search(&SearchQuery::new("图片"))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(hit.snippet, ">>>图片<<<里的大别山");
    store.close().await;
}

#[tokio::test]
async fn parts_of_words_are_found_where_no_word_is() {
    let (_directory, store, _) = store_with(&["deployment failed", "=>=> arrow", "ploy"]).await;
    assert_eq!(search_ids(&store, SearchQuery::new("ploy")).await, [3]);
    assert_eq!(search_ids(&store, SearchQuery::new("eploymen")).await, [1]);
    assert_eq!(search_ids(&store, SearchQuery::new("=>=>")).await, [2]);
    let substrings = SearchQuery {
        matching: SearchMatching::Substrings,
        ..SearchQuery::new("ploy")
    };
    assert_eq!(search_ids(&store, substrings).await, [3, 1]);
    let words = SearchQuery {
        matching: SearchMatching::Words,
        ..SearchQuery::new("eploymen")
    };
    assert_eq!(search_ids(&store, words).await, [0; 0]);
    store.close().await;
}

#[tokio::test]
async fn tool_names_and_calls_are_searched_too() {
    let (_directory, store, session) = store_with(&[]).await;
    let call = NewMessage {
        tool_calls: Some(
            json!([{"function": {"name": "read_weather", "arguments": "{\"town\":\"Oslo\"}"}}]),
        ),
        ..NewMessage::without_content(Role::Assistant)
    };
    let result = NewMessage {
        tool_name: Some("barometer".into()),
        ..NewMessage::new(Role::Tool, "sunny")
    };
    store.append_all(&session, &[call, result]).await.unwrap();
    assert_eq!(search_ids(&store, SearchQuery::new("oslo")).await, [1]);
    assert_eq!(search_ids(&store, SearchQuery::new("barometer")).await, [2]);
    store.close().await;
}

#[tokio::test]
async fn filters_and_order_are_kept() {
    let (_directory, store, session) = store_with(&["apple one", "apple two"]).await;
    store
        .append(&session, &assistant("apple apple apple"))
        .await
        .unwrap();
    let other = id("other");
    store
        .create_session(&NewSession::new(other.clone(), "telegram"))
        .await
        .unwrap();
    store.set_title(&other, "Fruit").await.unwrap();
    store
        .append(&other, &user(&format!("apple {}", "pear ".repeat(50))))
        .await
        .unwrap();
    let apple = || SearchQuery::new("apple");
    assert_eq!(search_ids(&store, apple()).await, [4, 3, 2, 1]);
    let oldest = SearchQuery {
        order: SearchOrder::Oldest,
        ..apple()
    };
    assert_eq!(search_ids(&store, oldest).await, [1, 2, 3, 4]);
    let best = SearchQuery {
        order: SearchOrder::Relevance,
        ..apple()
    };
    let ranked = search_ids(&store, best).await;
    assert_eq!((ranked[0], ranked[3]), (3, 4));
    let users = SearchQuery {
        roles: vec![Role::User],
        ..apple()
    };
    assert_eq!(search_ids(&store, users).await, [4, 2, 1]);
    let one = SearchQuery {
        session: Some(session.clone()),
        ..apple()
    };
    assert_eq!(search_ids(&store, one).await, [3, 2, 1]);
    let not = SearchQuery {
        exclude_session: Some(session),
        ..apple()
    };
    assert_eq!(search_ids(&store, not).await, [4]);
    let elsewhere = SearchQuery {
        excluded_sources: vec!["telegram".into()],
        ..apple()
    };
    assert_eq!(search_ids(&store, elsewhere).await, [3, 2, 1]);
    let source = SearchQuery {
        sources: vec!["telegram".into()],
        ..apple()
    };
    let hit = store.search(&source).await.unwrap().remove(0);
    assert_eq!((hit.message.0, hit.session), (4, other));
    assert_eq!(hit.title.as_deref(), Some("Fruit"));
    assert!(
        hit.snippet.starts_with(">>>apple<<< pear"),
        "{}",
        hit.snippet
    );
    assert!(hit.snippet.ends_with("..."), "{}", hit.snippet);
    let page = SearchQuery {
        limit: 2,
        offset: 1,
        ..apple()
    };
    assert_eq!(search_ids(&store, page).await, [3, 2]);
    store.close().await;
}

#[tokio::test]
async fn what_a_compaction_retains_is_found_once() {
    let (_directory, store, session) =
        store_with(&["a rare heron", "something long", "another heron"]).await;
    let rows = store.active_messages(&session).await.unwrap();
    let lease = std::time::Duration::from_mins(5);
    assert!(store.lock_compaction(&session, "me", lease).await.unwrap());
    let kept = |row: &hermes_store::StoredMessage| row.body.clone();
    let shorter = [kept(&rows[0]), user("a summary"), kept(&rows[2])];
    store
        .compact(&session, "me", rows[2].id, &shorter)
        .await
        .unwrap();
    let hits = store.search(&SearchQuery::new("heron")).await.unwrap();
    let texts: Vec<&str> = hits.iter().map(|hit| hit.snippet.as_str()).collect();
    assert_eq!(texts, ["another >>>heron<<<", "a rare >>>heron<<<"]);
    // What was summed up is found where it was.
    assert_eq!(
        search_ids(&store, SearchQuery::new("something long")).await,
        [2]
    );
    store.close().await;
}
