//! Discord as clients that others wrote see it, and the faults they have to live with.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use hermes_testkit::{
    platform::{DISCORD_BOT, DiscordDraft, DiscordMessage, DiscordServer},
    wait_until,
};
use serde_json::json;

const VARIABLE: &str = "HERMES_TEST_VENV_DISCORD";
/// Its first part is the bot's number, as in real ones.
const TOKEN: &str = "OTAwMA.G1.very-secret";
const LIMIT: Duration = Duration::from_secs(30);

fn python() -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some() {
        return None;
    }
    let Some(place) = std::env::var_os(VARIABLE) else {
        panic!(
            "{VARIABLE} is not set: `./test` installs the clients and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    Some(PathBuf::from(place).join("bin/python"))
}

/// A bot in Python, with the guild and the people it talks to.
struct ForeignBot {
    server: DiscordServer,
    process: Child,
    channel: String,
    user: String,
}

impl Drop for ForeignBot {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl ForeignBot {
    fn start(script: &str) -> Option<Self> {
        let server = DiscordServer::start(TOKEN);
        let guild = server.add_guild("Team");
        let channel = server.add_channel(&guild, "general");
        let user = server.add_user("ada");
        let script = format!(
            "{}/tests/it/discord/clients/{script}",
            env!("CARGO_MANIFEST_DIR")
        );
        let process = Command::new(python()?)
            .args([&script, &server.base_url(), TOKEN])
            .env("NO_PROXY", "*")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let bot = Self {
            server,
            process,
            channel,
            user,
        };
        bot.wait("a session", |bot| bot.server.ready_sockets() == 1);
        bot.wait("commands", |bot| bot.server.commands().len() == 2);
        Some(bot)
    }

    fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        if wait_until(LIMIT, || condition(self)) {
            return;
        }
        let seen = self.server.messages(&self.channel);
        let requests = self.server.requests();
        let paths: Vec<_> = requests
            .iter()
            .map(|request| (&request.method, &request.path))
            .collect();
        panic!("no {what}; messages {seen:#?}; requests {paths:#?}");
    }

    /// Says something, and waits for an answer in the channel.
    fn ask(&self, text: &str, answer: impl Fn(&DiscordMessage) -> bool) -> DiscordMessage {
        self.server.say(&self.channel, &self.user, text);
        self.await_answer(answer)
    }

    fn await_answer(&self, answer: impl Fn(&DiscordMessage) -> bool) -> DiscordMessage {
        let find = || {
            self.server
                .answers(&self.channel)
                .into_iter()
                .rev()
                .find(&answer)
        };
        self.wait("answer", |_| find().is_some());
        find().unwrap()
    }

    fn converse(&self) {
        let server = &self.server;
        let asked = server.say(&self.channel, &self.user, "ping");
        let pong = self.await_answer(|message| message.text == "pong");
        assert_eq!(pong.reply_to, Some(asked));

        let asked = server.say(&self.channel, &self.user, "thread");
        self.wait("thread", |bot| {
            bot.server.threads(&bot.channel) == [(asked.clone(), "topic".to_owned())]
        });
        self.wait("message in the thread", |bot| {
            bot.server
                .answers(&asked)
                .iter()
                .any(|message| message.text == "in the thread")
        });

        let edited = self.ask("edit", |message| message.text == "after");
        assert!(edited.is_edited);
        self.ask("type", |_| true);
        self.wait("reaction", |bot| {
            let messages = bot.server.messages(&bot.channel);
            messages.iter().any(|message| message.reactions == ["👍"])
        });
        assert!(server.typing_count(&self.channel) > 0);
        let uploaded = self.ask("upload", |message| !message.files.is_empty());
        assert_eq!(
            (uploaded.text.as_str(), &uploaded.files[..]),
            ("a file", &["a.txt".to_owned()][..])
        );
        assert_eq!(server.file("a.txt").unwrap(), b"content");
        server.write(
            &self.channel,
            &self.user,
            &DiscordDraft {
                files: vec![("in.txt".into(), b"something".to_vec())],
                ..DiscordDraft::default()
            },
        );
        self.await_answer(|message| message.text == "got something");
        self.ask("history", |message| {
            message.text.starts_with("history | got something")
        });

        // In a private chat as well.
        let direct = server.open_dm(&self.user);
        server.say(&direct, &self.user, "ping");
        self.wait("answer in private", |bot| {
            bot.server
                .answers(&direct)
                .iter()
                .any(|message| message.text == "pong")
        });
    }

    fn interact(&self) {
        let server = &self.server;
        let asked = self.ask("button", |message| !message.buttons.is_empty());
        assert_eq!(asked.buttons[0].label, "Yes");
        let token = server.press(&self.channel, &asked.id, "yes", &self.user);
        self.wait("notice", |bot| {
            bot.server.interaction(&token).notices == ["noted"]
        });
        assert_eq!(server.interaction(&token).callback, Some(7));
        let messages = server.answers(&self.channel);
        let changed = messages
            .iter()
            .find(|message| message.id == asked.id)
            .unwrap();
        assert_eq!(
            (changed.text.as_str(), changed.buttons.len()),
            ("pressed", 0)
        );

        assert_eq!(server.commands(), ["hello", "slow"]);
        let token = server.use_command(&self.channel, &self.user, "hello", &json!({"whom": "Ada"}));
        self.wait("reply to the command", |bot| {
            bot.server.interaction(&token).notices == ["hello Ada"]
        });
        let token = server.use_command(&self.channel, &self.user, "slow", &json!({}));
        self.await_answer(|message| message.text == "thought about it");
        assert_eq!(server.interaction(&token).callback, Some(5));
    }

    fn suffer(&self) {
        let server = &self.server;
        // Discord asks for another connection, and nothing is lost meanwhile.
        server.request_reconnect();
        self.wait("resumed session", |bot| {
            bot.server.resumes() == 1 && bot.server.ready_sockets() == 1
        });
        self.ask("ping", |message| message.text == "pong");
        server.cut_sockets();
        let asked = server.say(&self.channel, &self.user, "ping");
        self.await_answer(|message| message.reply_to.as_ref() == Some(&asked));
        assert_eq!(server.resumes(), 2);
        assert_eq!(server.identifies(), 1);

        // A limited channel gets its answer later.
        let path = format!("/channels/{}/messages", self.channel);
        let before = self.posts(&path);
        server.limit_requests(&path, 1, Duration::from_millis(300));
        let asked = server.say(&self.channel, &self.user, "ping");
        self.await_answer(|message| message.reply_to.as_ref() == Some(&asked));
        assert_eq!(self.posts(&path), before + 2);

        // Events that nobody knows, and events with members that nobody knows.
        server.dispatch("SOMETHING_NEW", &json!({"id": "1"}));
        let draft = DiscordDraft {
            extra: json!({"something_new": {"a": [1]}}),
            ..DiscordDraft::text("ping")
        };
        let asked = server.write(&self.channel, &self.user, &draft);
        self.await_answer(|message| message.reply_to.as_ref() == Some(&asked));

        // A session that is over is followed by another.
        server.invalidate_sessions(false);
        self.wait("second session", |bot| {
            bot.server.identifies() == 2 && bot.server.ready_sockets() == 1
        });
        let asked = server.say(&self.channel, &self.user, "ping");
        self.await_answer(|message| message.reply_to.as_ref() == Some(&asked));
    }

    fn posts(&self, path: &str) -> usize {
        let requests = self.server.requests();
        requests
            .iter()
            .filter(|request| request.method == "POST" && request.path == path)
            .count()
    }
}

#[test]
fn discord_py_converses() {
    let Some(bot) = ForeignBot::start("discord_py_bot.py") else {
        return;
    };
    bot.converse();
    bot.interact();
}

#[test]
fn discord_py_gets_over_faults() {
    let Some(bot) = ForeignBot::start("discord_py_bot.py") else {
        return;
    };
    bot.suffer();
}

#[test]
fn hikari_converses() {
    let Some(bot) = ForeignBot::start("hikari_bot.py") else {
        return;
    };
    bot.converse();
    bot.interact();
}

#[test]
fn hikari_gets_over_faults() {
    let Some(bot) = ForeignBot::start("hikari_bot.py") else {
        return;
    };
    bot.suffer();
}

#[test]
fn the_bot_has_the_number_of_its_token() {
    use base64::Engine as _;
    let first = TOKEN.split('.').next().unwrap();
    let number = base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(first)
        .unwrap();
    assert_eq!(number, DISCORD_BOT.as_bytes());
}
