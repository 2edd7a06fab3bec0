//! Web tools, against a small local server.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use hermes_agent::tools::{
    ToolDeps, built_in_tools,
    vision_analyze::VisionAnalyzeTool,
    web::{
        AddressScope, WebClient,
        extract::WebExtractTool,
        search::{SearchEngine, WebSearchTool},
    },
};
use hermes_config::Variables;
use serde_json::{Value, json};

use crate::{
    tool_session::ToolSession,
    turn::{ScriptedModel, Step},
};

/// Answers requests by their path, and remembers them.
struct PageServer {
    origin: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl PageServer {
    /// `pages` gives status line, further headers and body for a path.
    fn start(pages: fn(&str) -> (&'static str, String, Vec<u8>)) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", socket.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in socket.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut head = String::new();
                for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                    match line {
                        Ok(line) if !line.is_empty() => writeln!(head, "{line}").unwrap(),
                        _ => break,
                    }
                }
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                log.lock().unwrap().push(head);
                let (status, headers, body) = pages(&path);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                // The client may have closed the connection.
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body);
            }
        });
        Self { origin, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

const PNG: [u8; 12] = [0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 0];

fn site(path: &str) -> (&'static str, String, Vec<u8>) {
    let kind = |kind: &str| format!("Content-Type: {kind}\r\n");
    match path {
        "/page" => (
            "200 OK",
            kind("text/html; charset=utf-8"),
            "<title>Tea</title><h1>On tea</h1><p>Hot <a href='/cup'>cups</a>. Größe</p>".into(),
        ),
        "/latin" => ("200 OK", kind("text/plain"), b"Gr\xf6\xdfe".to_vec()),
        "/moved" => ("302 Found", "Location: /page\r\n".into(), Vec::new()),
        "/round" => ("302 Found", "Location: /round\r\n".into(), Vec::new()),
        "/file" => (
            "302 Found",
            "Location: file:///etc/passwd\r\n".into(),
            Vec::new(),
        ),
        "/huge" => ("200 OK", kind("text/plain"), vec![b'x'; 6 << 20]),
        "/picture" => ("200 OK", kind("image/png"), PNG.to_vec()),
        "/search?q=green+tea&format=json" => {
            let results: Vec<Value> = (1..=9)
                .map(|n| json!({"title": format!("t{n}"), "url": format!("https://x/{n}"), "content": "c"}))
                .collect();
            (
                "200 OK",
                kind("application/json"),
                json!({"results": results}).to_string().into(),
            )
        }
        "/search?q=html&format=json" => ("403 Forbidden", kind("text/html"), b"no".to_vec()),
        _ => ("404 Not Found", String::new(), Vec::new()),
    }
}

fn extract_any_network() -> WebExtractTool {
    WebExtractTool::new(WebClient::new(AddressScope::Any))
}

#[tokio::test]
async fn a_page_is_read_as_text() {
    let (session, server) = (ToolSession::new(), PageServer::start(site));
    let output = session
        .call(
            &extract_any_network(),
            json!({"urls": [server.url("/moved")]}),
        )
        .await;
    assert!(!output.is_error, "{}", output.text);
    assert_eq!(output.untrusted_source.as_deref(), Some("web_extract"));
    let expected = format!(
        "Address: {}\nTitle: Tea\n\n# On tea\n\nHot [cups]({}). Größe",
        server.url("/page"),
        server.url("/cup")
    );
    assert_eq!(output.text, expected);
}

#[tokio::test]
async fn a_page_that_fails_does_not_take_the_others_down() {
    let (session, server) = (ToolSession::new(), PageServer::start(site));
    let urls = json!({"urls": [server.url("/missing"), server.url("/latin")]});
    let text = session.succeed(&extract_any_network(), urls).await;
    assert!(text.contains("Not read") && text.contains("404"), "{text}");
    assert!(text.contains("Größe"), "{text}");
}

#[tokio::test]
async fn large_pages_are_cut_and_other_files_are_not_read() {
    let (session, server) = (ToolSession::new(), PageServer::start(site));
    let text = session
        .succeed(&extract_any_network(), json!({"urls": server.url("/huge")}))
        .await;
    assert!(text.len() < 101_000 && text.ends_with("left out]"));
    let error = session
        .fail(
            &extract_any_network(),
            json!({"urls": [server.url("/picture")]}),
        )
        .await;
    assert!(error.contains("image/png"), "{error}");
}

#[tokio::test]
async fn redirects_are_looked_at_one_by_one() {
    let (session, server) = (ToolSession::new(), PageServer::start(site));
    let error = session
        .fail(
            &extract_any_network(),
            json!({"urls": [server.url("/round")]}),
        )
        .await;
    assert!(error.contains("redirects more than 5 times"), "{error}");
    let error = session
        .fail(
            &extract_any_network(),
            json!({"urls": [server.url("/file")]}),
        )
        .await;
    assert!(error.contains("only http and https"), "{error}");
}

#[tokio::test]
async fn the_own_network_is_out_of_reach() {
    let (session, server) = (ToolSession::new(), PageServer::start(site));
    let public = WebExtractTool::new(WebClient::new(AddressScope::from_document(&json!({}))));
    let port = server.origin.rsplit(':').next().unwrap();
    for url in [
        server.url("/page"),
        format!("http://localhost:{port}/page"),
        format!("http://[::ffff:127.0.0.1]:{port}/page"),
    ] {
        let error = session.fail(&public, json!({"urls": [url]})).await;
        assert!(error.contains("private network"), "{error}");
    }
    for url in ["file:///etc/passwd", "ftp://example.org/", "no address"] {
        session.fail(&public, json!({"urls": [url]})).await;
    }
    assert!(server.seen().is_empty());
    for (flag, reach) in [
        (json!(true), AddressScope::Any),
        (json!("yes"), AddressScope::Any),
        (json!("no"), AddressScope::Public),
    ] {
        let document = json!({"security": {"allow_private_urls": flag}});
        assert_eq!(AddressScope::from_document(&document), reach);
    }
}

#[tokio::test]
async fn a_search_engine_is_asked() {
    let (session, server) = (ToolSession::new(), PageServer::start(site));
    let variables = Variables::from_pairs([("SEARXNG_URL", format!("{}/", server.origin))]);
    let search = WebSearchTool::new(SearchEngine::from_variables(&variables).unwrap());
    let text = session
        .succeed(&search, json!({"query": "green tea", "limit": 2}))
        .await;
    let found: Value = serde_json::from_str(&text).unwrap();
    let second = json!({"position": 2, "title": "t2", "url": "https://x/2", "description": "c"});
    assert_eq!(found["results"][1], second);
    assert_eq!(found["results"].as_array().unwrap().len(), 2);
    let error = session.fail(&search, json!({"query": "html"})).await;
    assert!(error.contains("403") && error.contains("json"), "{error}");
    let none = Variables::from_pairs([("SEARXNG_URL", " ")]);
    assert!(SearchEngine::from_variables(&none).is_none());
}

#[tokio::test]
async fn an_image_is_shown_to_a_model_with_the_question() {
    let (session, server) = (ToolSession::new(), PageServer::start(site));
    let file = session.write("cup.png", PNG);
    for place in [
        server.url("/picture"),
        "cup.png".into(),
        format!("MEDIA:{}", file.display()),
    ] {
        let model = Arc::new(ScriptedModel::new([Step::Say("a cup")]));
        let tool = VisionAnalyzeTool::new(model.clone(), WebClient::new(AddressScope::Any));
        let question = json!({"image_url": place, "question": "What is it?"});
        assert_eq!(session.succeed(&tool, question).await, "a cup");
        let asked = serde_json::to_value(&model.asked()[0].messages).unwrap();
        assert_eq!(asked[0]["content"][0]["text"], "What is it?");
        let image = asked[0]["content"][1]["image_url"]["url"].as_str().unwrap();
        assert!(
            image.starts_with("data:image/png;base64,iVBORw0KGgo"),
            "{image}"
        );
    }
}

#[tokio::test]
async fn only_images_that_may_be_read_are_shown() {
    let session = ToolSession::new();
    session.write("text.png", "no image");
    let tool = VisionAnalyzeTool::new(
        Arc::new(ScriptedModel::new([])),
        WebClient::new(AddressScope::Public),
    );
    let look = async |place: &str| {
        let question = json!({"image_url": place, "question": "?"});
        session.fail(&tool, question).await
    };
    assert!(look("text.png").await.contains("not a PNG"));
    assert!(look("missing.png").await.contains("missing.png"));
    let secret = session.root.join("home/.env");
    assert!(
        look(&secret.display().to_string())
            .await
            .contains("cannot be accessed")
    );
}

#[tokio::test]
async fn a_session_has_these_tools_if_it_has_the_means() {
    let means = ToolDeps {
        web: Some(WebClient::new(AddressScope::Public)),
        vision: Some(Arc::new(ScriptedModel::new([]))),
        ..ToolDeps::default()
    };
    let names: Vec<String> = built_in_tools(means)
        .iter()
        .map(|tool| tool.definition().name)
        .collect();
    assert!(names.contains(&"web_extract".to_owned()));
    assert!(names.contains(&"vision_analyze".to_owned()));
    assert!(!names.contains(&"web_search".to_owned()));
}
