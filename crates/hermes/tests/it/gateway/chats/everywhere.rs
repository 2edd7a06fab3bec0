//! The same on Telegram, Discord and Slack: every command, and stopping.

use std::time::{Duration, Instant};

use hermes_testkit::{Behaviour, Era};

use super::{
    three_platforms::{ChatPlatform, ThreePlatformHome},
    *,
};
use crate::harness::program::entry;

impl ThreePlatformHome {
    /// Uses a command as people do there.
    fn command(&self, platform: ChatPlatform, name: &str, argument: &str) {
        match platform {
            ChatPlatform::Telegram => {
                let name = name.replace('-', "_");
                self.say(platform, format!("/{name} {argument}").trim());
            }
            ChatPlatform::Discord => {
                let options = match argument {
                    "" => json!({}),
                    argument => json!({"text": argument}),
                };
                let (chat, user) = (&self.discord_chat, &self.discord_user);
                let token = self.discord.use_command(chat, user, name, &options);
                wait_until("it is confirmed", || {
                    self.discord.interaction(&token).callback.is_some()
                });
            }
            ChatPlatform::Slack => self.say(platform, format!("!{name} {argument}").trim()),
        }
    }

    /// Does something, and waits until the bot says this because of it.
    #[track_caller]
    fn expect(&self, platform: ChatPlatform, expected: &str, act: impl FnOnce()) {
        let count = || {
            let answers = self.answers(platform);
            answers
                .iter()
                .filter(|answer| answer.contains(expected))
                .count()
        };
        let before = count();
        act();
        wait_until(&format!("{platform:?}: {expected}"), || count() > before);
    }

    /// Whoever talks with the bot there.
    fn person(&self, platform: ChatPlatform) -> String {
        match platform {
            ChatPlatform::Telegram => ADA.to_string(),
            ChatPlatform::Discord => self.discord_user.clone(),
            ChatPlatform::Slack => "U1".to_owned(),
        }
    }
}

#[test]
fn every_command_works_on_every_platform() {
    let script = ModelScript::default()
        .rule(
            "clean",
            ScriptedAnswer::call(
                "terminal",
                &json!({"command": "rm -r /tmp/none-of-the-tests"}),
            ),
        )
        .rule("none-of-the-tests", ScriptedAnswer::text("Finished."))
        .rule("not today", ScriptedAnswer::text("I leave it."));
    let all = ThreePlatformHome::new(script);
    let gateway = all.start();
    for place in ChatPlatform::ALL {
        let person = all.person(place);
        let label = place.label();
        let home = format!("This chat is the home channel of {label} now.");
        // Titles are unique in a home.
        let fruit = format!("Fruit on {label}");
        let (renamed, called) = (
            format!("called \"{fruit}\" now"),
            format!("is called \"{fruit}\"."),
        );
        let pears = format!("Pears on {label}");
        let begun = format!("This is a new conversation, \"{pears}\"");
        all.expect(place, "apples", || all.say(place, "apples"));
        // The model's title is there before the user gives another one.
        wait_until("a title", || {
            let sessions = gateway.get("/api/sessions");
            let mut sessions = sessions["sessions"].as_array().unwrap().iter();
            sessions.any(|session| session["source"] == label && session["title"].is_string())
        });
        let table: [(&str, &str, &str); 18] = [
            ("title", &fruit, &renamed),
            ("title", "", &called),
            ("status", "", "servers: none"),
            ("whoami", "", &person),
            ("help", "", "/stop"),
            ("start", "", "/stop"),
            ("usage", "", "in"),
            ("model", "", "m (custom)"),
            ("sessions", "", &fruit),
            ("retry", "", "apples"),
            ("undo", "", "Took back: \"apples\""),
            ("new", &pears, &begun),
            ("reset", "", "This is a new conversation (`"),
            ("resume", &fruit, &fruit),
            ("stop", "", "Nothing is running."),
            ("approve", "", "Nothing waits for approval."),
            ("reload-mcp", "", "No MCP server is configured."),
            ("sethome", "", &home),
        ];
        for (name, argument, expected) in table {
            all.expect(place, expected, || all.command(place, name, argument));
        }
        all.expect(place, "rm -r", || all.say(place, "clean up"));
        all.expect(place, "Finished.", || all.command(place, "approve", ""));
        all.expect(place, "rm -r", || all.say(place, "clean once more"));
        all.expect(place, "I leave it.", || {
            all.command(place, "deny", "not today");
        });
    }
    let env = std::fs::read_to_string(all.home.gateway.home.path().join(".env")).unwrap();
    for place in ChatPlatform::ALL {
        let variable = format!("{}_HOME_CHANNEL=", place.label().to_uppercase());
        assert!(env.contains(&variable), "{env}");
    }
}

#[test]
fn stop_ends_a_running_call_of_a_server_within_a_second_everywhere() {
    let kit = entry(&Behaviour::new().era(Era::Legacy));
    let script = ModelScript::default().rule(
        "work",
        ScriptedAnswer::call("mcp_kit_sleep", &json!({"ms": 600_000})),
    );
    let servers = format!("mcp_servers: {}", json!({"kit": kit}));
    let all = ThreePlatformHome::with_more(script, &servers);
    let gateway = all.start();
    for place in ChatPlatform::ALL {
        assert_once_within(Duration::from_secs(1), || {
            let before = all.home.turns().len();
            all.say(place, "work");
            wait_until("the call runs", || {
                all.home.turns().len() == before + 1
                    && gateway.get("/health/detailed")["queues"]["turns"] == 1
            });
            let asked = Instant::now();
            all.expect(place, "Stopped.", || all.command(place, "stop", ""));
            wait_until("no run", || {
                gateway.get("/health/detailed")["queues"]["runs"] == 0
            });
            asked.elapsed()
        });
    }
}
