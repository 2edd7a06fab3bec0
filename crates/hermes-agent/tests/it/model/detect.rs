//! Models on this machine.

use std::time::{Duration, Instant};

use hermes_agent::model::{ModelOverrides, NoModel, ResolveError, SelectionOrigin};
use hermes_testkit::model::{ModelScript, ModelServer};

use super::{ModelFixture, error, send_prompt};

fn ollama(models: &[&str], loaded: &[&str]) -> ModelServer {
    ModelServer::start(ModelScript {
        ollama: true,
        loaded: loaded.iter().map(|name| (*name).to_owned()).collect(),
        context_length: Some(16384),
        ..ModelScript::echo().with_models(models.iter().copied())
    })
}

fn named(model: &str) -> ModelOverrides {
    ModelOverrides {
        model: Some(model.into()),
        ..ModelOverrides::default()
    }
}

#[tokio::test]
async fn a_running_ollama_is_found_and_used() {
    let server = ollama(
        &["old", "loaded", "new", "nomic-embed-text"],
        &["nomic-embed-text", "loaded"],
    );
    let mut setup = ModelFixture::new("", &[]);
    setup.local.ollama = server.port();
    let selection = setup.configured().await.unwrap();
    assert_eq!(selection.endpoint.model, "loaded");
    assert_eq!(selection.endpoint.context_length, Some(16384));
    assert_eq!(selection.origin, SelectionOrigin::Detection);
    assert_eq!(
        selection.notes,
        [format!(
            "using `loaded` from ollama on 127.0.0.1:{}",
            server.port()
        )]
    );
    let (reply, _) = send_prompt(&*selection.model, "hello").await;
    assert_eq!(reply.unwrap().text, "hello");
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn without_a_loaded_model_the_newest_is_used() {
    let server = ollama(&["old", "new", "nomic-embed-text"], &[]);
    let mut setup = ModelFixture::new("", &[]);
    setup.local.ollama = server.port();
    assert_eq!(setup.configured().await.unwrap().endpoint.model, "new");
}

#[tokio::test]
async fn the_first_server_with_a_model_wins() {
    let empty = ollama(&[], &[]);
    let lm_studio = ModelServer::start(ModelScript::echo().with_models(["text-embedding-x", "b"]));
    let vllm = ModelServer::start(ModelScript::echo().with_models(["c"]));
    let mut setup = ModelFixture::new("", &[]);
    setup.local.ollama = empty.port();
    setup.local.vllm = vllm.port();
    let selection = setup.configured().await.unwrap();
    assert_eq!(
        (
            selection.endpoint.model.as_str(),
            selection.endpoint.provider.as_str()
        ),
        ("c", "vllm")
    );
    setup.local.lm_studio = lm_studio.port();
    assert_eq!(setup.configured().await.unwrap().endpoint.model, "b");
    setup.local.llama_cpp = setup.local.vllm;
}

#[tokio::test]
async fn ollama_host_is_honoured_on_loopback_only() {
    let server = ollama(&["here"], &[]);
    let host = format!("127.0.0.1:{}", server.port());
    let setup = ModelFixture::new("", &[("OLLAMA_HOST", &host)]);
    assert_eq!(setup.configured().await.unwrap().endpoint.model, "here");

    let mut setup = ModelFixture::new("", &[("OLLAMA_HOST", "ollama.example.com:80")]);
    setup.local.ollama = server.port();
    assert_eq!(setup.configured().await.unwrap().endpoint.model, "here");
}

#[tokio::test]
async fn a_named_model_is_looked_for_too() {
    let server = ollama(&["a", "gpt-oss:20b", "b:latest"], &["a"]);
    let mut setup = ModelFixture::new("", &[("OPENAI_API_KEY", "k-1")]);
    setup.local.ollama = server.port();
    for (name, model) in [("gpt-oss:20b", "gpt-oss:20b"), ("b", "b:latest")] {
        let selection = setup.resolve(&named(name)).await.unwrap();
        assert_eq!(selection.endpoint.model, model);
        assert_eq!(selection.endpoint.key.value, None);
        assert_eq!(selection.origin, SelectionOrigin::Flag);
    }
    assert!(setup.resolve(&named("elsewhere")).await.is_err());
}

#[tokio::test]
async fn a_local_address_without_a_model_gets_the_same_choice() {
    let server = ollama(&["old", "new"], &["old"]);
    for url in [server.base_url(), format!("{}/", server.base_url())] {
        let setup = ModelFixture::new(&format!("model: {{base_url: '{url}'}}\n"), &[]);
        let selection = setup.configured().await.unwrap();
        assert_eq!(selection.endpoint.model, "old");
        let (reply, _) = send_prompt(&*selection.model, "hello").await;
        assert_eq!(reply.unwrap().text, "hello");
    }
    let plain = ModelServer::start(ModelScript::echo().with_models(["first", "second"]));
    let setup = ModelFixture::new(
        &format!("model: {{base_url: '{}'}}\n", plain.base_url()),
        &[],
    );
    assert_eq!(setup.configured().await.unwrap().endpoint.model, "first");
}

#[tokio::test]
async fn nothing_is_asked_when_something_is_configured_or_looking_is_off() {
    let server = ollama(&["a"], &[]);
    for config in [
        "model: {default: m, provider: openai}\n",
        "model: {autodetect: false}\n",
        "model: {provider: openai}\n",
    ] {
        let mut setup = ModelFixture::new(config, &[("OPENAI_API_KEY", "k-1")]);
        setup.local.ollama = server.port();
        let _ = setup.configured().await;
    }
    assert_eq!(server.paths().len(), 0);
}

#[tokio::test]
async fn silent_servers_cost_only_their_time() {
    // Connections are accepted, and nothing ever comes.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let mut setup = ModelFixture::new("", &[]);
    setup.local.ollama = port;
    setup.local.vllm = port;
    setup.local.timeout = Duration::from_millis(300);
    let begun = Instant::now();
    assert!(setup.configured().await.is_err());
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_millis(300));
    // Without a limit it would have waited for ever.
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}

#[tokio::test]
async fn without_any_model_everything_is_explained() {
    let setup = ModelFixture::new("", &[("ANTHROPIC_API_KEY", "k-1")]);
    let ResolveError::NoModel(explained) = error(setup.configured().await) else {
        panic!("another error");
    };
    let NoModel { keys, .. } = &*explained;
    assert_eq!(keys, &[("ANTHROPIC_API_KEY", "anthropic")]);
    let text = explained.to_string();
    for part in [
        setup.home.config_file().to_str().unwrap(),
        &format!("Ollama on port {}", setup.local.ollama),
        "`ANTHROPIC_API_KEY`",
        "`hermes model`",
        "`hermes chat --provider anthropic -m MODEL`",
        "a local server",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("k-1"), "{text}");
}
