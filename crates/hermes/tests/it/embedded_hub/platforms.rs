//! Bots of tenants: each is connected by its tenant's own process, with what the operator set in the tenant's variables.

mod discord_and_slack;

use std::{fs, time::Duration};

use hermes_testkit::{
    eventually, eventually_some,
    model::{ModelScript, ModelServer, ReplyEnding, ScriptedAnswer},
    platform::{PlatformFault, TelegramServer},
};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::{RealHub, TIMEOUT};
use crate::harness::test_home::assert_gone;

const TOKEN: &str = "123456:bot-of-acme";
/// Somebody who may use the bots.
const ADA: i64 = 7001;

fn telegram(token: &str) -> TelegramServer {
    let telegram = TelegramServer::start(token);
    telegram.add_user(ADA, "Ada");
    telegram
}

/// What an operator sets for a bot.
fn variables(telegram: &TelegramServer, token: &str) -> Value {
    json!({
        "TELEGRAM_BASE_URL": telegram.base_url(), "TELEGRAM_ALLOWED_USERS": ADA.to_string(),
        "TELEGRAM_HOME_CHANNEL": ADA.to_string(), "TELEGRAM_BOT_TOKEN": token,
    })
}

async fn set_variables(hub: &RealHub, tenant: &str, variables: Value) {
    let path = format!("/v1/tenants/{tenant}");
    hub.request(Method::PATCH, &path, &json!({"env": variables}))
        .await
        .expect(200);
}

async fn put_policy(hub: &RealHub, policy: Value) {
    hub.request(Method::PUT, "/v1/agent-policy", &policy)
        .await
        .expect(200);
}

/// A tenant that sleeps soon, unless something keeps it awake, and echoes what it is told.
async fn tenant(hub: &RealHub, id: &str) -> ModelServer {
    let soon = json!({"agent": {"idleStopSeconds": 1}});
    hub.tenant(id, soon, ModelScript::echo()).await
}

/// A tenant with a bot that is connected.
async fn tenant_with_bot(hub: &RealHub, id: &str, token: &str) -> (ModelServer, TelegramServer) {
    let model = tenant(hub, id).await;
    let telegram = telegram(token);
    set_variables(hub, id, variables(&telegram, token)).await;
    wait_for_platform(hub, id, |platform| platform["state"] == "connected").await;
    (model, telegram)
}

/// Waits until a tenant's process says this of its bot.
async fn wait_for_platform(hub: &RealHub, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let file = hub.tenant_home(id).join("gateway_state.json");
    let read = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let state: Value = serde_json::from_str(&text).unwrap_or_default();
        state["platforms"]["telegram"].clone()
    };
    let found = eventually_some(TIMEOUT, async || Some(read()).filter(&is_so)).await;
    found.unwrap_or_else(|| panic!("the bot of {id} stays {}", read()))
}

async fn wait_for_answer(telegram: &TelegramServer, text: &str) {
    let is_there = || telegram.answers(ADA).iter().any(|said| said.contains(text));
    assert!(
        eventually(TIMEOUT, is_there).await,
        "no `{text}` in {:?}",
        telegram.answers(ADA)
    );
}

async fn pid(hub: &RealHub, tenant: &str) -> u32 {
    let path = format!("/v1/tenants/{tenant}/agent");
    let agent = hub.wait_for(&path, |agent| !agent["pid"].is_null()).await;
    u32::try_from(agent["pid"].as_u64().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_wakes_its_tenant_answers_and_keeps_it_awake() {
    let hub = RealHub::start();
    let (_model, telegram) = tenant_with_bot(&hub, "acme", TOKEN).await;
    let first = pid(&hub, "acme").await;
    telegram.say(ADA, "hello acme");
    wait_for_answer(&telegram, "hello acme").await;

    // Another one, which has worked later, has been put to sleep meanwhile.
    let _other = tenant(&hub, "sleeper").await;
    assert_eq!(hub.run("sleeper", "hi").await["output"], "hi");
    let agent = "/v1/tenants/sleeper/agent";
    hub.wait_for(agent, |agent| agent["state"] == "sleeping")
        .await;
    assert_eq!(pid(&hub, "acme").await, first);
    telegram.say(ADA, "still there");
    wait_for_answer(&telegram, "still there").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_leads_to_a_connected_bot_by_link_and_by_qr_code() {
    let hub = RealHub::start();
    let (_model, _telegram) = tenant_with_bot(&hub, "acme", TOKEN).await;
    let page = hub.console_page("/tenants/acme/platforms").await;
    assert!(
        page.contains("href=\"https://t.me/hermes_test_bot?start=hello\""),
        "{page}"
    );
    assert!(page.contains("<svg class=\"qr\""), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_that_a_tenant_writes_into_its_own_files_keeps_it_awake_too() {
    let hub = RealHub::start();
    let stalled = ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled);
    let script = ModelScript::echo().rule("stall", stalled);
    let soon = json!({"agent": {"idleStopSeconds": 1}});
    let _model = hub.tenant("acme", soon, script).await;
    let run = hub.start_run("acme", "stall").await;
    hub.wait_for(&run, |run| run["lastEventId"].as_u64() > Some(1))
        .await;
    let first = pid(&hub, "acme").await;
    let telegram = telegram(TOKEN);
    let own = format!(
        "TELEGRAM_BOT_TOKEN_WORK={TOKEN}\nTELEGRAM_BASE_URL={}\nTELEGRAM_ALLOWED_USERS_WORK={ADA}\n",
        telegram.base_url()
    );
    fs::write(hub.tenant_home("acme").join(".env"), own).unwrap();
    telegram.say(ADA, "hello work");
    wait_for_answer(&telegram, "hello work").await;
    // From now on nothing but the bot keeps it awake.
    hub.request(Method::POST, &format!("{run}/stop"), &json!({}))
        .await
        .expect(202);
    hub.wait_for_end(&run).await;
    let _other = tenant(&hub, "sleeper").await;
    hub.run("sleeper", "hi").await;
    let agent = "/v1/tenants/sleeper/agent";
    hub.wait_for(agent, |agent| agent["state"] == "sleeping")
        .await;
    assert_eq!(pid(&hub, "acme").await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bot_of_a_blocked_tenant_is_silent_and_nothing_said_meanwhile_is_lost() {
    let hub = RealHub::start();
    let (model, telegram) = tenant_with_bot(&hub, "acme", TOKEN).await;
    let first = pid(&hub, "acme").await;
    let access = "/v1/tenants/acme/access";
    hub.request(Method::PUT, access, &json!({"status": "blocked"}))
        .await
        .expect(200);
    assert_gone(&[first], TIMEOUT);
    telegram.say(ADA, "meanwhile");
    let polls = telegram.polls();
    // Whoever asks the Hub meanwhile is refused; no process is started for the bot.
    hub.wait_for("/v1/tenants/acme/agent", |agent| agent["pid"].is_null())
        .await;
    assert_eq!(telegram.polls(), polls);
    assert!(model.requests().is_empty());

    hub.request(Method::PUT, access, &json!({"status": "active"}))
        .await
        .expect(200);
    wait_for_answer(&telegram, "meanwhile").await;
    assert_eq!(telegram.answers(ADA).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_revoked_is_told_and_another_one_is_taken_at_once() {
    let hub = RealHub::start();
    let (_model, first) = tenant_with_bot(&hub, "acme", TOKEN).await;
    let unauthorized = json!({"ok": false, "error_code": 401, "description": "Unauthorized"});
    // The poll that is under way returns with the update; the next one is refused. Each bot counts its own updates.
    first.fail("getUpdates", PlatformFault::Status(401, unauthorized));
    let ada = json!({"id": ADA, "is_bot": false, "first_name": "Ada"});
    let chat = json!({"id": ADA, "type": "private", "first_name": "Ada"});
    let date = Timestamp::now().as_second();
    first.deliver(json!({"update_id": 900_000_000, "message": {
        "message_id": 5, "date": date, "chat": chat, "from": ada, "text": "one last time",
    }}));
    let told = wait_for_platform(&hub, "acme", |platform| platform["state"] == "fatal").await;
    assert_eq!(told["error_code"], "bad_token", "{told}");
    assert!(!told.to_string().contains(TOKEN), "{told}");

    let next = "654321:next-bot-of-acme";
    let second = telegram(next);
    set_variables(&hub, "acme", variables(&second, next)).await;
    second.say(ADA, "hello again");
    wait_for_answer(&second, "hello again").await;

    // Without a token there is nothing to stay awake for.
    set_variables(&hub, "acme", json!({"TELEGRAM_BOT_TOKEN": null})).await;
    let agent = "/v1/tenants/acme/agent";
    hub.wait_for(agent, |agent| agent["state"] == "sleeping")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_without_messaging_or_the_host_disconnects_the_bot_and_says_why() {
    let hub = RealHub::start();
    let (_model, telegram) = tenant_with_bot(&hub, "acme", TOKEN).await;
    // What keeps it awake is gone with the bot.
    let awake = json!({"agent": {"idleStopSeconds": 3600}});
    hub.request(Method::PATCH, "/v1/tenants/acme", &awake)
        .await
        .expect(200);
    for (policy, code, word) in [
        (
            json!({"features": {"enabled": ["mcp"]}}),
            "messaging_off",
            "features.enabled",
        ),
        (
            json!({"egress": {"allowHosts": ["api.telegram.org"]}}),
            "egress_denied",
            "egress.allowHosts",
        ),
    ] {
        put_policy(&hub, policy).await;
        let told = wait_for_platform(&hub, "acme", |platform| platform["error_code"] == code).await;
        assert_eq!(told["state"], "stopped", "{told}");
        let message = told["error_message"].as_str().unwrap();
        assert!(message.contains(word), "{told}");
        put_policy(&hub, json!({})).await;
        wait_for_platform(&hub, "acme", |platform| platform["state"] == "connected").await;
        telegram.say(ADA, code);
        wait_for_answer(&telegram, code).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_with_two_bots_do_not_see_each_other() {
    let hub = RealHub::start();
    let (acme, telegram) = tenant_with_bot(&hub, "acme", TOKEN).await;
    let (umbra, other) = tenant_with_bot(&hub, "umbra", "654321:bot-of-umbra").await;
    telegram.say(ADA, "apples of acme");
    other.say(ADA, "pears of umbra");
    wait_for_answer(&telegram, "apples of acme").await;
    wait_for_answer(&other, "pears of umbra").await;
    for (model, said, not_said) in [(&acme, "apples", "pears"), (&umbra, "pears", "apples")] {
        let asked = model.requests().into_iter();
        let asked: String = asked.map(|request| request.body.to_string()).collect();
        assert!(asked.contains(said) && !asked.contains(not_said), "{asked}");
    }
    assert!(!telegram.answers(ADA).concat().contains("pears"));
    assert!(!other.answers(ADA).concat().contains("apples"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_is_for_one_tenant_and_the_next_one_gets_it_when_it_is_free() {
    let hub = RealHub::start();
    let (_acme, telegram) = tenant_with_bot(&hub, "acme", TOKEN).await;
    let umbra = tenant(&hub, "umbra").await;
    set_variables(&hub, "umbra", variables(&telegram, TOKEN)).await;
    let told = wait_for_platform(&hub, "umbra", |platform| !platform["error_code"].is_null()).await;
    assert_eq!(told["error_code"], "token_in_use", "{told}");
    let message = told["error_message"].as_str().unwrap();
    assert!(message.contains("a bot of its own"), "{told}");
    assert!(!message.contains("acme"), "{told}");
    telegram.say(ADA, "who is there");
    wait_for_answer(&telegram, "who is there").await;
    assert!(umbra.requests().is_empty());

    set_variables(&hub, "acme", json!({"TELEGRAM_BOT_TOKEN": null})).await;
    wait_for_platform(&hub, "umbra", |platform| platform["state"] == "connected").await;
    telegram.say(ADA, "and now");
    wait_for_answer(&telegram, "and now").await;
    assert!(!umbra.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_by_the_hubs_clock_and_their_messages_reach_the_tenants_chat() {
    let hub = RealHub::start();
    let script = ModelScript::default().rule("water the plants", ScriptedAnswer::text("watered"));
    let _model = hub.tenant("acme", json!({}), script).await;
    let telegram = telegram(TOKEN);
    set_variables(&hub, "acme", variables(&telegram, TOKEN)).await;
    // A bot cannot write to somebody who never wrote to it.
    telegram.say(ADA, "hello");
    wait_for_answer(&telegram, "hello").await;
    let job = json!({
        "schedule": Timestamp::now().to_string(), "prompt": "water the plants", "deliver": "telegram",
    });
    hub.request(Method::POST, "/v1/tenants/acme/agent-cron", &job)
        .await
        .expect(201);
    wait_for_answer(&telegram, "watered").await;
    let is_over = |all: &Value| all["runs"][0]["status"] == "completed";
    let all = hub.wait_for("/v1/tenants/acme/runs", is_over).await;
    assert_eq!(all["runs"][0]["trigger"], "cron", "{all}");
    assert_eq!(all["runs"].as_array().unwrap().len(), 1, "{all}");
    // The chat is answered by the same process, and the job has not run once more.
    telegram.say(ADA, "thanks");
    wait_for_answer(&telegram, "thanks").await;
    let watered = telegram.answers(ADA).into_iter();
    assert_eq!(watered.filter(|said| said.contains("watered")).count(), 1);
}

/// An operator sets up a bot and lets somebody in, all over REST.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_gets_a_code_for_the_operator_who_lets_them_in_and_out_again() {
    let hub = RealHub::start();
    let _model = tenant(&hub, "acme").await;
    let telegram = telegram(TOKEN);
    let base = json!({"TELEGRAM_BASE_URL": telegram.base_url()});
    set_variables(&hub, "acme", base).await;
    let platform = "/v1/tenants/acme/platforms/telegram";
    let body = json!({"token": TOKEN});
    let set = hub.request(Method::PUT, platform, &body).await;
    assert_eq!(set.expect(200)["enabled"], true);
    let connected = hub
        .wait_for(platform, |platform| {
            platform["bots"][0]["state"] == "connected"
        })
        .await;
    // By this name, people find it.
    assert!(connected["bots"][0]["name"].is_string(), "{connected}");
    telegram.say(ADA, "hello");
    wait_for_answer(&telegram, "I do not know you yet").await;
    let told = telegram.answers(ADA).pop().unwrap();
    let begin = "hermes tenant pairing acme approve telegram ";
    let (_, rest) = told.split_once(begin).expect("the operator's command");
    let code = json!({"account": "telegram", "code": &rest[..8]});
    let listed = hub.wait_for("/v1/tenants/acme/pairing", |_| true).await;
    assert_eq!(listed["pending"][0]["userId"], ADA.to_string());
    let approve = "/v1/tenants/acme/pairing/approve";
    hub.request(Method::POST, approve, &code).await.expect(200);
    telegram.say(ADA, "hello again");
    wait_for_answer(&telegram, "hello again").await;
    let count = telegram.answers(ADA).len();
    let revoke = format!("/v1/tenants/acme/pairing/telegram/{ADA}");
    hub.request(Method::DELETE, &revoke, &json!({}))
        .await
        .expect(204);
    // An allow-list is taken soon, without a restart of the agent. What is said before is not answered.
    let first = pid(&hub, "acme").await;
    let list = json!({"allowFrom": [ADA.to_string()]});
    hub.request(Method::PUT, platform, &list).await.expect(200);
    let answered = eventually_some(TIMEOUT, async || {
        telegram.say(ADA, "by the list");
        let is_there = || telegram.answers(ADA).len() > count;
        eventually(Duration::from_secs(2), is_there)
            .await
            .then_some(())
    });
    assert!(answered.await.is_some(), "{:?}", telegram.answers(ADA));
    assert_eq!(pid(&hub, "acme").await, first);
    hub.request(Method::DELETE, platform, &json!({}))
        .await
        .expect(204);
    // Nothing keeps it awake any more.
    hub.wait_for("/v1/tenants/acme/agent", |agent| {
        agent["state"] == "sleeping"
    })
    .await;
}
