//! What people do at the console, and what happens meanwhile.

use std::net::SocketAddr;

use hermes_testkit::{ChaosProxy, NetworkFault, ReservedPort};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ConsoleSite, HOSTILE, ProviderProcess, Visit, node};
use crate::embedded_hub::real_hub::{RealHub, tool_results};

/// Plays a scene whose steps need nothing done.
async fn play(site: &ConsoleSite, scene: &str) -> Option<Value> {
    Some(play_all(site, [scene]).await?.remove(0))
}

/// The same for several in one browser.
async fn play_all<const N: usize>(site: &ConsoleSite, scenes: [&str; N]) -> Option<Vec<Value>> {
    let mut visit = begin(site, &scenes, json!({})).await?;
    let mut results = Vec::new();
    for scene in scenes {
        let done = tokio::task::block_in_place(|| visit.expect("done"));
        assert_eq!(done["scene"], scene, "{done}");
        assert_eq!(done["faults"], json!([]), "{done}");
        results.push(done);
    }
    Some(results)
}

async fn begin(site: &ConsoleSite, scenes: &[&str], more: Value) -> Option<Visit> {
    let node = node()?;
    let token = site.token(json!({"name": "person", "role": "admin"})).await;
    let mut argument =
        json!({"scenes": scenes, "base": site.hub.url, "token": token, "hostile": HOSTILE});
    let more = more.as_object().cloned().unwrap_or_default();
    argument.as_object_mut().unwrap().extend(more);
    Some(Visit::start(&node, "scenes.mjs", &argument))
}

async fn create_tenant(hub: &RealHub, id: &str) {
    let tenant = json!({"id": id, "start": false});
    hub.request(Method::POST, "/v1/tenants", &tenant)
        .await
        .expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_watched_live_to_its_end_also_when_its_stream_is_refused() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let Some(done) = play_all(&site, ["watchRun", "refusedStream"]).await else {
        return;
    };
    let [watched, refused] = &done[..] else {
        panic!("{done:?}");
    };
    assert_eq!(watched["sawItGrow"], true, "{watched}");
    // Its end is read once more, whole.
    assert!(watched["reloads"].as_u64().unwrap() <= 1, "{watched}");
    let asked = &refused["asked"];
    let first = asked[0].as_u64().unwrap();
    assert_eq!(asked[1], first, "{refused}");
    assert_eq!(asked[2], first + 1, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_the_chat_is_read_while_it_is_written_and_a_question_decided_there() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let Some(done) = play_all(&site, ["chat", "chatAsks"]).await else {
        return;
    };
    let [chat, asks] = &done[..] else {
        panic!("{done:?}");
    };
    assert_eq!(chat["sawItGrow"], true, "{chat}");
    // What came live is not there twice when the page is read again.
    assert_eq!(chat["said"], 1, "{chat}");
    assert_eq!(asks["isInChat"], true, "{asks}");
    assert_eq!(asks["tool"], "terminal", "{asks}");
    let old = site.hub.tenant_home("acme").join("workspace/old");
    assert!(!old.exists(), "it was allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_a_real_server_is_filled_in_in_the_chat() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let _server = site.add_everything().await;
    let tools = "/v1/tenants/acme/mcp-servers/everything/tools";
    let is_there = |list: &Value| list["tools"].to_string().contains("elicitation");
    site.hub.wait_for(tools, is_there).await;
    let Some(done) = play(&site, "chatForm").await else {
        return;
    };
    let asked = done["asked"].as_str().unwrap();
    assert!(asked.contains("everything"), "{done}");
    assert!(asked.contains("Please provide inputs"), "{done}");
    assert_eq!(done["isInChat"], true, "{done}");
    assert_eq!(done["findings"], json!([]), "{done}");
    assert_eq!(done["scroll"], Value::Null, "{done}");
    let types =
        json!({"name": "textarea", "email": "email", "birthdate": "date", "integer": "number"});
    assert_eq!(done["types"], types, "{done}");
    assert_eq!(done["isHeld"], true, "{done}");
    // The server says what it got.
    let told = tool_results(&site.model);
    for answer in [
        "Name: Ada <b>Lovelace</b>",
        "Agreed to terms: true",
        "Email: ada@example.org",
        "Birthdate: 1815-12-10",
        "Favorite Integer: 7",
        "hero-2",
        "Piano",
    ] {
        assert!(told.contains(answer), "{answer}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_drawn_beside_its_table_and_a_conversation_is_named_and_deleted() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    site.hub.run("acme", "hello there").await;
    let more = json!({"database": site.hub.data().join("hub.db")});
    let Some(mut visit) = begin(&site, &["usageChart", "conversation"], more).await else {
        return;
    };
    let chart = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(chart["faults"], json!([]), "{chart}");
    for line in ["input", "output"] {
        let points = chart["drawn"][line].as_u64().unwrap();
        assert!(points > 100, "{line} is not drawn: {chart}");
    }
    let legend = chart["legend"].as_array().unwrap();
    assert_eq!(json!(legend[1..]), chart["heads"], "{chart}");
    let rows = chart["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "{chart}");
    assert!(rows.contains(&json!([5, 5000, 100])), "{chart}");
    assert_eq!(chart["isPlainHidden"], true, "{chart}");
    assert_eq!(chart["findings"], json!([]), "{chart}");
    assert_eq!(chart["scroll"], Value::Null, "{chart}");

    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    assert_eq!(done["title"], "A first <b>talk</b>", "{done}");
    assert_eq!(done["isHidden"], true, "{done}");
    let warning = done["warning"].as_str().unwrap();
    assert!(warning.contains("A first <b>talk</b>"), "{done}");
    assert_eq!(done["left"], 0, "{done}");
    let sessions = site.hub.get("/v1/tenants/acme/sessions").await;
    assert_eq!(sessions["sessions"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_dropped_on_the_page_is_sent() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    if play(&site, "dropFile").await.is_none() {
        return;
    }
    let dropped = site.hub.tenant_home("acme").join("workspace/dropped.txt");
    assert_eq!(
        std::fs::read_to_string(dropped).unwrap(),
        "this was dropped"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn several_files_are_dropped_and_what_has_no_room_is_not_sent() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let workspace = site.hub.tenant_home("acme").join("workspace");
    let quota = json!({"storage": {"quotaBytes": 2 << 20}});
    site.send(Method::PATCH, "/v1/tenants/acme", quota).await;
    let Some(done) = play(&site, "dropFiles").await else {
        return;
    };
    let reason = done["reason"].as_str().unwrap();
    assert!(reason.contains("Nothing was sent."), "{done}");
    assert_eq!(done["sentAtFirst"], 0, "{done}");
    assert_eq!(done["sent"], 1, "{done}");
    assert_eq!(done["progress"], "shown", "{done}");
    assert_eq!(
        std::fs::read_to_string(workspace.join("one.txt")).unwrap(),
        "x".repeat(10)
    );
    assert!(!workspace.join("small.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_pages_than_a_browser_has_connections_stay_current_and_load() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let run = site.start_waiting_run().await;
    let page = run.strip_prefix("/v1").unwrap_or(&run).to_owned();
    let mut visit = begin(&site, &["manyPages"], json!({"run": page}))
        .await
        .unwrap();
    tokio::task::block_in_place(|| visit.expect("open"));
    create_tenant(&site.hub, "meanwhile").await;
    visit.answer(&json!({}));
    tokio::task::block_in_place(|| visit.expect("closed"));
    create_tenant(&site.hub, "afterwards").await;
    visit.answer(&json!({}));
    tokio::task::block_in_place(|| visit.expect("watching"));
    site.send(Method::POST, &format!("{run}/stop"), json!({}))
        .await;
    visit.answer(&json!({}));
    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    assert_eq!(done["pages"], 8, "{done}");
}

/// Ends every session of the console.
async fn end_sessions(site: &ConsoleSite) {
    let listed = site.hub.get("/v1/console-sessions").await;
    for session in listed["sessions"].as_array().unwrap() {
        let id = session["sessionId"].as_str().unwrap();
        let path = format!("/v1/console-sessions/{id}");
        site.send(Method::DELETE, &path, Value::Null).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_types_is_there_when_they_have_signed_in_again() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let mut visit = begin(&site, &["sessionEnds"], json!({})).await.unwrap();
    for step in ["typed", "written"] {
        tokio::task::block_in_place(|| visit.expect(step));
        end_sessions(&site).await;
        visit.answer(&json!({}));
    }
    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    let typed = json!({"id": "half-typ", "labels": "plan = <b>gold</b>\nsecond"});
    assert_eq!(done["restored"], typed, "{done}");
    assert_eq!(done["address"], "/tenants/acme/chat", "{done}");
    let runs = site.hub.get("/v1/tenants/acme/runs").await;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_with_scripts_and_without() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let mut links = Vec::new();
    for _ in 0..2 {
        let made = site
            .send(Method::POST, "/v1/sign-in-links", json!({}))
            .await;
        links.push(made["url"].clone());
    }
    let mut visit = begin(&site, &["links"], json!({ "links": links }))
        .await
        .unwrap();
    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    for result in done["results"].as_array().unwrap() {
        // The code stays in no address.
        assert_eq!(result["address"], "/", "{done}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_signs_in_and_out_at_a_real_provider_in_a_browser() {
    let Some(node) = node() else {
        return;
    };
    let port = ReservedPort::reserve().unwrap();
    let base = format!("http://127.0.0.1:{}", port.number());
    let provider = ProviderProcess::start(&node, &base);
    let home = RealHub::fresh_home();
    let data = home.beside(".local/share/hermes-hub");
    std::fs::create_dir_all(&data).unwrap();
    let settings = json!({
        "public_url": base,
        "oidc": {
            "issuer": provider.issuer,
            "client_id": "hermes",
            "client_secret": "a secret: of/the hub+",
            "scopes": ["openid", "profile", "groups"],
            "roles": {"support": "operator", "*": "viewer"},
        },
    });
    std::fs::write(data.join("hub.yaml"), settings.to_string()).unwrap();
    let mut command = home.command(&["hub", "serve"]);
    command.env("HERMES_HUB_LISTEN", base.strip_prefix("http://").unwrap());
    let site = ConsoleSite::over(RealHub::by_command(home, command)).await;
    let more = json!({"issuer": provider.issuer, "base": base});
    let mut visit = begin(&site, &["provider"], more).await.unwrap();
    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    assert_eq!(done["address"], "/tenants?search=x", "{done}");
    assert_eq!(done["who"], "Ada Lovelace", "{done}");
    assert_eq!(done["mayCreate"], true, "{done}");
    assert_eq!(done["mayMint"], false, "{done}");
    assert_eq!(done["isOut"], true, "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_wait_for_and_their_end_are_announced_and_filled_forms_are_left_alone() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let Some(done) = play(&site, "announcements").await else {
        return;
    };
    let region = json!({"role": "status", "isThere": true});
    assert_eq!(done["region"], region, "{done}");
    // What is said is gone before the next is: the same words are announced again.
    assert_eq!(done["said"][1], "", "{done}");
    assert_eq!(done["reloads"], 0, "{done}");

    let first = site.start_waiting_run().await;
    let mut visit = begin(&site, &["sparedForms"], json!({})).await.unwrap();
    tokio::task::block_in_place(|| visit.expect("typed"));
    create_tenant(&site.hub, "meanwhile").await;
    visit.answer(&json!({}));
    tokio::task::block_in_place(|| visit.expect("reasoned"));
    let other = site.hub.start_run("acme", "clear others").await;
    visit.answer(&json!({}));
    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    let kept = json!({"value": "half-typ", "hasFocus": true, "isOpen": true});
    assert_eq!(done["tenant"], kept, "{done}");
    let kept = json!({"value": "not this one", "isSame": true});
    assert_eq!(done["approval"], kept, "{done}");
    assert_eq!(done["reloads"], 0, "{done}");
    // What was filled in is what was decided, and nothing else.
    site.hub.wait_for_end(&first).await;
    let waits = site.hub.get(&other).await;
    assert_eq!(waits["status"], "waiting_for_approval", "{waits}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_on_a_phone_and_the_run_goes_on() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let run = site.start_waiting_run().await;
    let Some(done) = play(&site, "approveOnPhone").await else {
        return;
    };
    assert!(
        done["shown"].as_str().unwrap().contains("rm -r old"),
        "{done}"
    );
    assert!(done["height"].as_f64().unwrap() >= 44.0, "{done}");
    assert!(done["right"].as_f64().unwrap() <= 360.0, "{done}");
    let ended = site.hub.wait_for_end(&run).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    let old = site.hub.tenant_home("acme").join("workspace/old");
    assert!(!old.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_a_real_server_is_called_by_form() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let _server = site.add_everything().await;
    let Some(done) = play(&site, "callTool").await else {
        return;
    };
    assert!(
        done["answers"]["imageWidth"].as_u64().unwrap() > 0,
        "{done}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clicks_are_one_run() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let Some(done) = play(&site, "submitTwice").await else {
        return;
    };
    assert_eq!(done["statuses"], json!([200, 200]), "{done}");
    let runs = site.hub.get("/v1/tenants/acme/runs").await;
    let runs = runs["runs"].as_array().unwrap().len();
    assert_eq!(runs, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_lead_everywhere_and_hostile_names_are_only_names() {
    if node().is_none() {
        return;
    }
    let site = ConsoleSite::start().await;
    let scenes = ["keyboard", "stillness", "times", "hostileForms"];
    let Some(done) = play_all(&site, scenes).await else {
        return;
    };
    let [keyboard, stillness, times, hostile] = &done[..] else {
        panic!("{done:?}");
    };
    assert_eq!(keyboard["focused"], "search", "{keyboard}");
    assert_eq!(keyboard["typed"], "g a /", "{keyboard}");
    assert_eq!(keyboard["stayed"], true, "{keyboard}");
    assert_eq!(keyboard["main"], "main", "{keyboard}");
    assert_eq!(keyboard["letters"], keyboard["distinct"], "{keyboard}");
    assert_eq!(keyboard["isHelped"], true, "{keyboard}");
    assert_eq!(stillness["still"], 0, "{stillness}");
    assert!(stillness["moving"].as_u64().unwrap() > 0, "{stillness}");
    for shown in times["shown"].as_array().unwrap() {
        assert_eq!(shown["isOwn"], true, "{times}");
    }
    let title = times["shown"][0]["title"].as_str().unwrap();
    assert!(title.contains("GMT+9"), "{times}");
    let done = hostile;
    assert_eq!(done["hacked"], Value::Null, "{done}");
    assert_eq!(done["search"], HOSTILE, "{done}");
    let title = done["title"].as_str().unwrap();
    assert!(title.contains("<script>"), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_says_that_the_hub_is_gone_and_goes_on_with_the_next() {
    if node().is_none() {
        return;
    }
    let port = ReservedPort::reserve().unwrap();
    let listen = format!("127.0.0.1:{}", port.number());
    let serve = |home: &crate::harness::test_home::TestHome| {
        let mut command = home.command(&["hub", "serve"]);
        command.env("HERMES_HUB_LISTEN", &listen);
        command
    };
    let home = RealHub::fresh_home();
    let command = serve(&home);
    let mut site = ConsoleSite::over(RealHub::by_command(home, command)).await;

    let proxy = ChaosProxy::start(listen.parse::<SocketAddr>().unwrap());
    let more = json!({"proxy": format!("http://{}", proxy.address())});
    let Some(mut visit) = begin(&site, &["cutStream"], more).await else {
        return;
    };
    tokio::task::block_in_place(|| visit.expect("open"));
    proxy.set(NetworkFault::Cut);
    visit.answer(&json!({}));
    tokio::task::block_in_place(|| visit.expect("cut"));
    create_tenant(&site.hub, "meanwhile").await;
    proxy.set(NetworkFault::None);
    visit.answer(&json!({}));
    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    assert_eq!(done["reloads"], 0, "{done}");

    let mut visit = begin(&site, &["restart"], json!({})).await.unwrap();
    tokio::task::block_in_place(|| visit.expect("open"));
    site.hub.kill();
    let home = site.hub.into_home();
    visit.answer(&json!({}));
    tokio::task::block_in_place(|| visit.expect("lost"));
    let command = serve(&home);
    site.hub = RealHub::by_command(home, command);
    visit.answer(&json!({}));
    tokio::task::block_in_place(|| visit.expect("back"));
    create_tenant(&site.hub, "after-the-restart").await;
    visit.answer(&json!({}));
    let done = tokio::task::block_in_place(|| visit.expect("done"));
    assert_eq!(done["faults"], json!([]), "{done}");
    assert_eq!(done["stale"], true, "{done}");
    let typed = json!(["half-typ", "are you there"]);
    assert_eq!(done["typed"], typed, "{done}");
    assert_eq!(done["reloads"], 0, "{done}");
    assert_ne!(done["banner"], "", "{done}");
}
