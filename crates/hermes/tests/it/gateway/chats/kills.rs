//! A gateway that is killed again and again, at moments that nobody chose.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use super::{
    three_platforms::{ChatPlatform, ThreePlatformHome},
    *,
};

/// How often, unless `HERMES_KILLS` says otherwise.
const DEFAULT_KILLS: usize = 30;
/// Every so many answers grow so slowly that they are shown before they are complete.
const SLOW_EVERY: usize = 4;

fn kill_count() -> usize {
    let asked = std::env::var("HERMES_KILLS").ok();
    asked
        .and_then(|asked| asked.parse().ok())
        .unwrap_or(DEFAULT_KILLS)
}

fn is_slow(round: usize) -> bool {
    round % SLOW_EVERY == SLOW_EVERY - 1
}

fn answer_text(round: usize) -> String {
    format!("answer-{round}. and done")
}

/// The numbers of a generator, each below its limit.
struct RandomDelays(u64);

impl RandomDelays {
    fn next(&mut self, below: u64) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_micros(self.0 % (below * 1000))
    }
}

#[test]
fn killed_at_any_moment_every_message_is_answered_once() {
    let kills = kill_count();
    let mut script = ModelScript::default();
    for round in 0..kills {
        let text = answer_text(round);
        let pieces: Vec<&str> = text.split_inclusive(' ').collect();
        let answer = ScriptedAnswer::pieces(pieces).with(|reply| {
            reply.delay_ms = 20;
            reply.pause_ms = if is_slow(round) { 300 } else { 20 };
        });
        script = script.rule(&format!("task-{round}."), answer);
    }
    let places = ThreePlatformHome::new(script);
    let mut moments = RandomDelays(u64::from(std::process::id()) << 20 | 0x9e37);
    let mut gateway = places.start();
    let mut in_doubt = BTreeSet::new();
    for round in 0..kills {
        let task = format!("task-{round}.");
        for platform in ChatPlatform::ALL {
            places.say(platform, &task);
        }
        // Spread over the whole life of a turn.
        let life = if is_slow(round) { 1000 } else { 250 };
        std::thread::sleep(moments.next(life));
        gateway.process.kill();
        in_doubt.extend(unconfirmed_messages(&places));
        gateway = places.start();
        let answer = answer_text(round);
        for platform in ChatPlatform::ALL {
            wait_until(&format!("{answer} on {}", platform.label()), || {
                places.answers(platform).contains(&answer)
            });
        }
    }
    drop(gateway);
    let expected: Vec<String> = (0..kills).map(answer_text).collect();
    // Discord knows a message that it has.
    assert_eq!(places.answers(ChatPlatform::Discord), expected);
    for platform in [ChatPlatform::Telegram, ChatPlatform::Slack] {
        let answers = places.answers(platform);
        for answer in &expected {
            let count = answers.iter().filter(|it| *it == answer).count();
            assert!((1..=2).contains(&count), "{answer}: {count} of {answers:?}");
        }
        let lost = in_doubt.iter().filter(|(on, _)| *on == platform.label());
        let (lost, repeated) = (lost.count(), answers.len() - kills);
        println!(
            "{}: {kills} kills, {lost} lost acknowledgements, {repeated} messages repeated",
            platform.label()
        );
        assert!(repeated <= lost, "{repeated} of {lost}: {answers:?}");
    }
}

/// The messages that a platform has and the killed gateway does not know of: their acknowledgements were lost. Neither
/// Telegram nor Slack can tell that they have them, so that they are posted again.
fn unconfirmed_messages(places: &ThreePlatformHome) -> Vec<(&'static str, String)> {
    let database = places.home.gateway.home.path().join("runtime.db");
    let script = "import sqlite3, sys\n\
        rows = sqlite3.connect(sys.argv[1]).execute('SELECT platform || char(9) || platform_message_id FROM outbox \
        WHERE platform_message_id IS NOT NULL')\n\
        print('\\n'.join(row[0] for row in rows))";
    let mut python = std::process::Command::new("python3");
    let output = python.args(["-c", script]).arg(database).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let known = String::from_utf8(output.stdout).unwrap();
    let known: HashSet<&str> = known.lines().collect();
    let telegram = places.home.telegram.messages(ADA).into_iter();
    let telegram = telegram
        .filter(|message| message.is_from_bot)
        .map(|message| ("telegram", message.id.to_string()));
    let slack = places.slack.bot_messages(&places.slack_chat).into_iter();
    let slack = slack.map(|message| ("slack", message.ts));
    telegram
        .chain(slack)
        .filter(|(platform, id)| !known.contains(format!("{platform}\t{id}").as_str()))
        .collect()
}
