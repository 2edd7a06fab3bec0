//! Tenants as documents.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{tenant_fixture::skill_head, test_hub::TestHub};

const MANIFEST: &str = "/v1/tenants/acme/manifest";
const SECRET: &str = "sk-0123456789abcdef-acme";

/// The documented example, with what `hermes tenant apply` reads from files.
fn example() -> Value {
    json!({
        "id": "acme",
        "name": "Acme Ltd",
        "groups": {"division1": "write"},
        "env": {"OPENAI_API_KEY": SECRET, "TELEGRAM_BOT_TOKEN": "12345:abcdefghijklmnopqrstuvwxyz"},
        "model": {"model": "gpt-5", "provider": "openai", "baseUrl": null, "keyEnv": "OPENAI_API_KEY"},
        "mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "sandbox": {"network": "deny"}}},
        "skills": [{"name": "review", "files": [skill_head("review")]}, {"name": "minutes", "library": true}],
        "soul": "You work for Acme.",
        "files": [{"path": "notes/start.md", "content": "…"}, {"path": "data/prices.csv", "content": "a;1\n"}],
        "platforms": {"telegram": {"tokenEnv": "TELEGRAM_BOT_TOKEN", "allowFrom": ["12345"]}},
        "cron": [{"name": "week", "schedule": "0 9 * * 1", "prompt": "Plan the week", "deliver": "telegram"}],
        "limits": {"runsPerDay": 200, "tokensPerDay": 2_000_000},
        "storage": {"quotaBytes": 1_073_741_824}
    })
}

async fn prepared() -> TestHub {
    let site = TestHub::new().await;
    site.post("/v1/groups", &json!({"id": "division1"}))
        .await
        .expect(201);
    let skill = json!({"files": [skill_head("minutes")]});
    site.put("/v1/skills/minutes", &skill).await.expect(201);
    site
}

/// The outcome of each part.
fn outcomes(report: &Value) -> Vec<(String, String)> {
    let parts = report["parts"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    parts
        .map(|part| (text(&part["part"]), text(&part["outcome"])))
        .collect()
}

#[tokio::test]
async fn the_documented_example_makes_a_tenant_and_changes_nothing_the_second_time() {
    let site = prepared().await;
    let dry = site
        .put(&format!("{MANIFEST}?dryRun=true"), &example())
        .await
        .expect(200);
    assert!(
        outcomes(&dry)
            .iter()
            .all(|(_, outcome)| outcome == "created"),
        "{dry}"
    );
    site.get("/v1/tenants/acme").await.expect(404);
    let made = site.put(MANIFEST, &example()).await;
    assert!(!made.text.contains(SECRET), "{}", made.text);
    let made = made.expect(201);
    assert_eq!(outcomes(&made), outcomes(&dry), "{made}");
    let tenant = site.get("/v1/tenants/acme").await.expect(200);
    assert_eq!(tenant["displayName"], "Acme Ltd");
    assert_eq!(
        tenant["groups"],
        json!([{"id": "division1", "access": "write"}])
    );
    assert_eq!(tenant["storage"]["quotaBytes"], 1_073_741_824);
    let home = site.home("acme");
    let text = |path: &str| std::fs::read_to_string(home.join(path)).unwrap();
    assert_eq!(text("SOUL.md"), "You work for Acme.");
    assert_eq!(text("workspace/data/prices.csv"), "a;1\n");
    assert!(text("skills/minutes/SKILL.md").contains("name: minutes"));
    let config = text("config.yaml");
    assert!(
        config.contains("gpt-5") && config.contains("mcp-server-time"),
        "{config}"
    );
    let jobs = site.get("/v1/tenants/acme/agent-cron").await.expect(200);
    assert_eq!(jobs["jobs"][0]["name"], "week");
    let limits = site.get("/v1/tenants/acme/limits").await.expect(200);
    assert_eq!(limits["runsPerDay"], 200);

    let again = site.put(MANIFEST, &example()).await.expect(200);
    let changed: Vec<_> = outcomes(&again)
        .into_iter()
        .filter(|(_, outcome)| outcome != "unchanged")
        .collect();
    assert_eq!(changed, [], "{again}");
}

#[tokio::test]
async fn only_what_a_document_names_is_changed() {
    let site = prepared().await;
    site.put(MANIFEST, &example()).await.expect(201);
    let change = json!({"name": "Acme", "env": {"OPENAI_API_KEY": "another", "TELEGRAM_BOT_TOKEN": null},
        "soul": "You work for Acme.", "labels": {"plan": "gold"}, "groups": {"division1": null},
        "files": [{"path": "notes/start.md", "content": "new"}], "skills": [{"name": "review"}],
        "cron": [{"name": "week", "schedule": "0 9 * * 1", "prompt": "Plan it"}], "limits": {"runsPerDay": 10}});
    let dry = site
        .put(&format!("{MANIFEST}?dryRun=true"), &change)
        .await
        .expect(200);
    assert_eq!(
        site.get("/v1/tenants/acme").await.expect(200)["displayName"],
        "Acme Ltd"
    );
    let done = site.put(MANIFEST, &change).await.expect(200);
    assert_eq!(outcomes(&done), outcomes(&dry));
    let done = outcomes(&done);
    let outcome = |part: &str| {
        let found = done.iter().find(|(known, _)| known == part);
        found
            .unwrap_or_else(|| panic!("{part} in {done:?}"))
            .1
            .as_str()
    };
    assert_eq!(outcome("name"), "changed");
    assert_eq!(outcome("env.OPENAI_API_KEY"), "changed");
    assert_eq!(outcome("env.TELEGRAM_BOT_TOKEN"), "removed");
    assert_eq!(outcome("soul"), "unchanged");
    assert_eq!(outcome("skills.review"), "unchanged");
    assert_eq!(outcome("files.notes/start.md"), "changed");
    assert_eq!(outcome("cron.week"), "changed");
    let jobs = site.get("/v1/tenants/acme/agent-cron").await.expect(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(jobs["jobs"][0]["deliver"], "telegram");
    let limits = site.get("/v1/tenants/acme/limits").await.expect(200);
    assert_eq!(limits["tokensPerDay"], 2_000_000);
}

#[tokio::test]
async fn the_document_that_is_shown_has_no_secret_and_only_what_the_token_may_read() {
    let site = prepared().await;
    site.put(MANIFEST, &example()).await.expect(201);
    let shown = site.get(MANIFEST).await;
    assert!(
        !shown.text.contains(SECRET) && !shown.text.contains("abcdefghij"),
        "{}",
        shown.text
    );
    let shown = shown.expect(200);
    assert_eq!(shown["env"]["OPENAI_API_KEY"], "${env:OPENAI_API_KEY}");
    assert_eq!(shown["mcpServers"]["time"]["command"], "uvx");
    assert_eq!(shown["model"]["model"], "gpt-5");
    assert_eq!(shown["cron"][0]["schedule"], "0 9 * * 1");
    assert_eq!(
        shown["platforms"]["telegram"]["allowFrom"],
        json!(["12345"])
    );
    // What is shown is a document that changes nothing, once its references are resolved.
    let mut same = shown.clone();
    same.as_object_mut().unwrap().remove("env");
    let again = site.put(MANIFEST, &same).await.expect(200);
    let changed: Vec<_> = outcomes(&again)
        .into_iter()
        .filter(|(part, outcome)| outcome != "unchanged" && part != "storage")
        .collect();
    assert_eq!(changed, [], "{again}");
    let unresolved = site.put(MANIFEST, &json!({"env": shown["env"]})).await;
    assert_eq!(unresolved.status, 422, "{}", unresolved.text);
    let less = site
        .token(json!({"name": "less", "scopes": ["tenants:read"]}))
        .await;
    let less = site.send(site.request(&less, Method::GET, MANIFEST)).await;
    let less = less.expect(200);
    for member in ["env", "skills", "mcpServers", "cron"] {
        assert!(less.get(member).is_none(), "{member}: {less}");
    }
}

#[tokio::test]
async fn every_member_needs_the_right_of_its_own_route() {
    let site = prepared().await;
    site.tenant(json!({"id": "acme"})).await;
    let ask = async |token: &str, body: Value| {
        let request = site.request(token, Method::PUT, MANIFEST);
        let request = request.header("content-type", "application/json");
        site.send(request.body(body.to_string())).await
    };
    let writer = json!({"name": "writer", "scopes": ["tenants:write", "tenants:read"]});
    let writer = site.token(writer).await;
    for (member, value) in [
        ("env", json!({"A": "b"})),
        ("groups", json!({"division1": "read"})),
        ("skills", json!([])),
        ("files", json!([])),
        ("cron", json!([])),
        ("mcpServers", json!({})),
        // Who gets the key, and which token a bot has.
        ("model", json!({"keyEnv": "API_KEY"})),
        ("model", json!({"baseUrl": null})),
        ("platforms", json!({"telegram": {"token": "1:x"}})),
    ] {
        let refused = ask(&writer, json!({"name": "New", member: value})).await;
        assert_eq!(refused.status, 403, "{member}: {}", refused.text);
        assert_eq!(refused.json()["reason"], "scope", "{member}");
    }
    ask(&writer, json!({"name": "New", "soul": "x"}))
        .await
        .expect(200);
    let bound = json!({"name": "bound", "role": "admin", "tenants": ["acme", "later"]});
    let bound = site.token(bound).await;
    for member in ["flavor", "storage", "limits", "groups"] {
        let refused = ask(&bound, json!({member: {}})).await;
        assert_eq!(refused.status, 403, "{member}: {}", refused.text);
    }
    // A token with a list of tenants makes none, even of that list.
    let request = site.request(&bound, Method::PUT, "/v1/tenants/later/manifest");
    let request = request.header("content-type", "application/json");
    site.send(request.body("{}")).await.expect(403);
    let other = json!({"name": "other", "role": "admin", "tenants": ["other"]});
    let other = site.token(other).await;
    ask(&other, json!({"name": "theirs"})).await.expect(404);
    assert_eq!(
        site.get("/v1/tenants/acme").await.expect(200)["displayName"],
        "New"
    );
}

#[tokio::test]
async fn a_document_that_is_wrong_anywhere_changes_nothing() {
    let site = prepared().await;
    site.tenant(json!({"id": "acme"})).await;
    let before = site.get(MANIFEST).await.expect(200);
    for (body, status) in [
        (json!({"name": "New", "nmae": "x"}), 400),
        (json!({"name": "New", "id": "other"}), 422),
        (json!({"name": "New", "env": {"PATH": "x"}}), 422),
        (json!({"name": "New", "flavor": "none"}), 400),
        (json!({"name": "New", "groups": {"division1": "all"}}), 422),
        (json!({"name": "New", "groups": {"missing": "read"}}), 409),
        (json!({"name": "New", "skills": [{"name": "none"}]}), 422),
        (
            json!({"name": "New", "skills": [{"name": "none", "library": true}]}),
            422,
        ),
        (
            json!({"name": "New", "files": [{"path": "../x", "content": ""}]}),
            400,
        ),
        (json!({"name": "New", "files": [{"path": "x"}]}), 400),
        (
            json!({"name": "New", "cron": [{"schedule": "0 9 * * 1", "prompt": "x"}]}),
            422,
        ),
        (
            json!({"name": "New", "cron": [{"name": "a", "schedule": "whenever", "prompt": "x"}]}),
            400,
        ),
    ] {
        let refused = site.put(MANIFEST, &body).await;
        assert_eq!(refused.status, status, "{body}: {}", refused.text);
        assert_eq!(site.get(MANIFEST).await.expect(200), before, "{body}");
    }
    site.get("/v1/tenants/other").await.expect(404);
}

#[tokio::test]
async fn every_part_is_checked_before_the_first_is_made() {
    let site = prepared().await;
    let policy =
        json!({"cron": {"maxJobs": 1, "minIntervalMinutes": 60}, "models": {"allow": ["gpt-*"]}});
    site.put("/v1/agent-policy", &policy).await.expect(200);
    site.tenant(json!({"id": "acme"})).await;
    let before = site.get(MANIFEST).await.expect(200);
    let job =
        |name: &str, schedule: &str| json!({"name": name, "schedule": schedule, "prompt": "x"});
    let file = |path: &str| json!({"path": path, "content": "0123456789"});
    for (part, place) in [
        (json!({"name": "x".repeat(201)}), "/name"),
        (json!({"labels": {"": "x"}}), "/labels"),
        (json!({"groups": {"missing": "read"}}), "/groups/missing"),
        (json!({"model": {"keyEnv": "NOT_THERE"}}), "/model/keyEnv"),
        (json!({"model": {"baseUrl": "ftp://x"}}), "/model/baseUrl"),
        (json!({"model": {"contextLength": "many"}}), "/model"),
        (json!({"model": {"model": "other"}}), "/model/model"),
        (
            json!({"mcpServers": {"a b": {"command": "x"}}}),
            "/mcpServers/a b",
        ),
        (
            json!({"mcpServers": {"x": {"comand": "y"}}}),
            "/mcpServers/x/comand",
        ),
        (
            json!({"mcpServers": {"x": {"url": "https://x", "headers": {"A": "${NOT_THERE}"}}}}),
            "/mcpServers/x/headers/A",
        ),
        (json!({"soul": "x".repeat(20_001)}), "/soul"),
        (
            json!({"memory": {"user": "x".repeat(2000)}}),
            "/memory/user",
        ),
        (
            json!({"skills": [{"name": "minutes", "library": true}, {"name": "minutes", "library": true}]}),
            "/skills/1",
        ),
        (json!({"files": [file("a"), file("a")]}), "/files/1"),
        (json!({"files": [file("a"), file("/b")]}), "/files/1"),
        (
            json!({"files": [file("a")], "storage": {"quotaBytes": 9}}),
            "/storage/quotaBytes",
        ),
        (
            json!({"platforms": {"telgram": {"allowFrom": []}}}),
            "/platforms/telgram",
        ),
        (
            json!({"platforms": {"discord": {"tokenEnv": "NOT_THERE"}}}),
            "/platforms/discord/tokenEnv",
        ),
        (
            json!({"platforms": {"telegram": {"allowedRoles": ["1"]}}}),
            "/platforms/telegram/allowedRoles",
        ),
        (json!({"cron": [job("a", "* * * * *")]}), "/cron/0"),
        (
            json!({"cron": [job("a", "0 9 * * 1"), job("b", "0 9 * * 2")]}),
            "/cron/1",
        ),
        (json!({"limits": {"runsPerDay": -1}}), "/limits"),
    ] {
        let mut body = json!({"name": "New", "env": {"A": "b"}, "soul": "x"});
        for (member, value) in part.as_object().unwrap() {
            body[member] = value.clone();
        }
        // Of a tenant that is there, of a new one, and of one that is only compared.
        for route in [
            MANIFEST,
            "/v1/tenants/new/manifest",
            "/v1/tenants/new/manifest?dryRun=true",
        ] {
            let refused = site.put(route, &body).await;
            assert!(
                (400..500).contains(&refused.status) || refused.status == 507,
                "{part}: {}",
                refused.text
            );
            let named = refused.json()["details"][0]["field"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(named.starts_with(place), "{part}: {}", refused.text);
        }
        assert_eq!(site.get(MANIFEST).await.expect(200), before, "{part}");
        site.get("/v1/tenants/new").await.expect(404);
    }
    // What an earlier part makes, a later one can refer to.
    let body = json!({"env": {"KEY": "x"}, "model": {"model": "gpt-5", "keyEnv": "KEY"},
        "mcpServers": {"x": {"url": "https://x.example", "headers": {"A": "${KEY}"}}},
        "platforms": {"telegram": {"tokenEnv": "KEY"}}});
    site.put("/v1/tenants/new/manifest", &body)
        .await
        .expect(201);
}

#[tokio::test]
async fn what_was_made_before_a_part_failed_is_told_and_the_same_document_does_the_rest() {
    let site = prepared().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    // A file where the document has a directory: only writing shows it.
    let home = site.home("acme");
    let in_the_way = home.join("workspace/data");
    std::fs::write(&in_the_way, "x").unwrap();
    let failed = site.put(MANIFEST, &example()).await;
    assert!(!failed.text.contains(SECRET), "{}", failed.text);
    let failed = failed.expect(409);
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("was done before"), "{message}");
    let details = failed["details"].as_array().unwrap();
    let made: Vec<&str> = details
        .iter()
        .map(|detail| detail["field"].as_str().unwrap())
        .collect();
    for part in ["env.OPENAI_API_KEY", "soul", "skills.review"] {
        assert!(made.contains(&part), "{part} in {made:?}");
    }
    // It is true of each part that is named, and of no other.
    let start = home.join("workspace/notes/start.md");
    assert_eq!(made.contains(&"files.notes/start.md"), start.exists());
    let soul = std::fs::read_to_string(home.join("SOUL.md")).unwrap();
    assert_eq!(soul, "You work for Acme.");
    for part in ["files.data/prices.csv", "cron.week", "limits"] {
        assert!(!made.contains(&part), "{part} in {made:?}");
    }
    let jobs = site.get("/v1/tenants/acme/agent-cron").await.expect(200);
    assert_eq!(jobs["jobs"], json!([]));

    std::fs::remove_file(&in_the_way).unwrap();
    let done = site.put(MANIFEST, &example()).await.expect(200);
    let done = outcomes(&done);
    for (part, outcome) in &done {
        let is_left = !made.contains(&part.as_str());
        assert!(is_left || outcome == "unchanged", "{part}: {outcome}");
    }
    for part in ["files.data/prices.csv", "cron.week"] {
        let created = (part.to_owned(), "created".to_owned());
        assert!(done.contains(&created), "{part} in {done:?}");
    }
    let prices = std::fs::read_to_string(home.join("workspace/data/prices.csv")).unwrap();
    assert_eq!(prices, "a;1\n");
    let jobs = site.get("/v1/tenants/acme/agent-cron").await.expect(200);
    assert_eq!(jobs["jobs"][0]["name"], "week");
}

#[tokio::test]
async fn the_same_document_is_taken_as_yaml_and_mistakes_are_told_with_their_place() {
    let site = prepared().await;
    let put = async |media: &str, text: &str| {
        let request = site.request(&site.admin, Method::PUT, MANIFEST);
        let request = request.header("content-type", media);
        site.send(request.body(text.to_owned())).await
    };
    let text = "name: Acme Ltd\nsoul: You work for Acme.\nenv: { PORT: 8080 }\n";
    let made = put("application/yaml", text).await.expect(201);
    assert_eq!(made["id"], "acme");
    let shown = site.get(MANIFEST).await.expect(200);
    assert_eq!(
        (&shown["name"], &shown["soul"]),
        (&json!("Acme Ltd"), &json!("You work for Acme."))
    );
    for (text, place, field) in [
        ("name: New\nsoull: x\n", "line 2, column 1", "/soull"),
        (
            "name: New\nskills:\n  - { name: x, pth: y }\n",
            "line 3, column 16",
            "/skills/0/pth",
        ),
        ("name: New\nname: Other\n", "line 2", "line 2"),
        ("name: [New\n", "line", "line"),
        (
            "name: New\ncron:\n  - { name: a, schedule: whenever, prompt: x }\n",
            "line 3, column 16",
            "/cron/0/schedule",
        ),
    ] {
        let refused = put("application/yaml; charset=utf-8", text)
            .await
            .expect(400);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(place), "{text}: {message}");
        let named = refused["details"][0]["field"].as_str().unwrap();
        assert!(named.starts_with(field), "{text}: {refused}");
    }
    let json = json!({"name": "New", "skills": [{"name": "x"}, {"name": "y", "pth": "z"}]});
    let refused = put("application/json", &json.to_string()).await.expect(400);
    assert_eq!(refused["details"][0]["field"], "/skills/1/pth", "{refused}");
    assert_eq!(site.get(MANIFEST).await.expect(200), shown);
    // Only a tenant's document is YAML.
    let request = site.request(&site.admin, Method::PATCH, "/v1/tenants/acme");
    let request = request.header("content-type", "application/yaml");
    assert_eq!(site.send(request.body("labels: {}")).await.status, 415);
}
