//! Groups: who is meant.

use hermes_testkit::platform::{
    DiscordServer, SLACK_BOT_USER, SlackPost, SlackServer, TelegramFile,
};

use super::{three_platforms::ThreePlatformHome, *};

const GROUP: i64 = -5001;

#[test]
fn in_a_group_a_mention_is_answered_and_talk_is_not() {
    let home = ChatHome::new(ModelScript::echo());
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    home.telegram
        .message(GROUP, ADA)
        .text("just talking")
        .send();
    let asked = home
        .telegram
        .message(GROUP, ADA)
        .text(&format!("@{name} what now"))
        .send();
    let answers = home.wait_for_answers(GROUP, 1);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains("what now"), "{answers:?}");
    let shown = home.telegram.messages(GROUP);
    let answer = shown.iter().find(|message| message.is_from_bot).unwrap();
    assert_eq!(answer.reply_to, Some(asked));
    assert!(!home.last_turn().to_string().contains("just talking"));
}

#[test]
fn the_messages_of_an_answer_are_replies_as_the_setting_says() {
    let long = "word ".repeat(1000);
    for (mode, replies) in [
        ("off", [false, false]),
        ("first", [true, false]),
        ("all", [true, true]),
    ] {
        let script = ModelScript::default().rule("what now", ScriptedAnswer::text(&long));
        let more = format!("telegram: {{reply_to_mode: {mode}, streaming: false}}");
        let home = ChatHome::with_more(script, &more);
        home.telegram.set_privacy_mode(false);
        home.telegram.add_group(GROUP, "Team");
        let _gateway = home.start();
        let text = format!("@{} what now", home.telegram.bot_username());
        let asked = home.telegram.message(GROUP, ADA).text(&text).send();
        home.wait_for_answers(GROUP, 2);
        let shown = home.telegram.messages(GROUP).into_iter();
        let own = shown.filter(|message| message.is_from_bot);
        let replied: Vec<bool> = own.map(|message| message.reply_to == Some(asked)).collect();
        assert_eq!(replied, replies, "{mode}");
    }
}

#[test]
fn what_is_only_overheard_is_known_later_where_that_is_wanted() {
    let home = ChatHome::with_more(ModelScript::echo(), "observe_groups: true");
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    home.telegram
        .message(GROUP, ADA)
        .text("the door is red")
        .send();
    home.telegram
        .message(GROUP, ADA)
        .text(&format!("@{name} which colour"))
        .send();
    home.wait_for_answers(GROUP, 1);
    assert_eq!(home.turns().len(), 1);
    assert!(home.last_turn().to_string().contains("the door is red"));
}

#[test]
fn a_group_that_becomes_a_supergroup_keeps_its_conversation() {
    let home = ChatHome::new(ModelScript::echo());
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let gateway = home.start();
    let name = home.telegram.bot_username();
    home.telegram
        .message(GROUP, ADA)
        .text(&format!("@{name} apples"))
        .send();
    home.wait_for_answers(GROUP, 1);
    let new = home.telegram.migrate_group(GROUP);
    home.telegram
        .message(new, ADA)
        .text(&format!("@{name} pears"))
        .send();
    home.wait_for_answers(new, 1);
    let asked = home.last_turn().to_string();
    assert!(
        asked.contains("apples") && asked.contains("pears"),
        "{asked}"
    );
    let sessions = gateway.get("/api/sessions");
    assert_eq!(
        sessions["sessions"].as_array().unwrap().len(),
        1,
        "{sessions}"
    );
}

#[test]
fn an_answer_lands_in_the_topic_it_was_asked_in() {
    let home = ChatHome::new(ModelScript::echo());
    let forum = -1_001_234;
    home.telegram.set_privacy_mode(false);
    home.telegram.add_forum(forum, "Board");
    let topic = home.telegram.add_topic(forum, "Plans");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    let message = home
        .telegram
        .message(forum, ADA)
        .text(&format!("@{name} what now"));
    message.topic(topic).send();
    home.wait_for_answers(forum, 1);
    let shown = home.telegram.messages(forum);
    let answer = shown.iter().find(|message| message.is_from_bot).unwrap();
    assert_eq!(answer.topic, Some(topic));
}

#[test]
fn a_command_that_names_another_bot_is_not_for_this_one() {
    let home = ChatHome::new(ModelScript::echo());
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    let say = |text: &str| home.telegram.message(GROUP, ADA).text(text);
    say("/whoami@other_bot").send();
    say("/stop@other_bot now").send();
    // Without the mark of a command, as other programs write it.
    let unmarked = say("/whoami@other_bot").with_member("entities", json!([]));
    unmarked.send();
    home.telegram.say(ADA, "/whoami@other_bot");
    let asked = say(&format!("/whoami@{name}")).send();
    let answers = home.wait_for_answers(GROUP, 1);
    assert!(answers[0].contains(&ADA.to_string()), "{answers:?}");
    let shown = home.telegram.messages(GROUP);
    let answer = shown.iter().find(|message| message.is_from_bot).unwrap();
    assert_eq!(answer.reply_to, Some(asked));
    say("/whoami").send();
    let answers = home.wait_for_answers(GROUP, 2);
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(home.telegram.answers(ADA), Vec::<String>::new());
    assert_eq!(home.turns().len(), 0);
}

#[test]
fn a_thread_that_was_only_observed_is_no_thread_of_the_bot() {
    let home = ChatHome::with_more(ModelScript::echo(), "observe_groups: true");
    let slack = SlackServer::start("xoxb-of-the-tests", "xapp-of-the-tests");
    slack.add_user("U1", "carol");
    slack.add_channel("C1", "general");
    let env = format!(
        "SLACK_BOT_TOKEN=xoxb-of-the-tests\nSLACK_APP_TOKEN=xapp-of-the-tests\nSLACK_BASE_URL={}\nSLACK_ALLOWED_USERS=U1\n",
        slack.base_url()
    );
    std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    let start = || {
        let gateway = home.start();
        wait_until("Slack", || {
            gateway.platform("slack")["state"] == "connected"
        });
        gateway
    };
    let gateway = start();
    let root = slack.write(&SlackPost::new("U1", "C1", "the door is red"));
    let say = |text: &str| slack.write(&SlackPost::new("U1", "C1", text).in_thread(&root));
    say("and the roof is green");
    say("I like both");
    wait_until("it is stored", || {
        let stored = home.stored_messages();
        stored.iter().any(|message| {
            let content = message.body.content.as_ref();
            content.is_some_and(|content| content.text().contains("I like both"))
        })
    });
    // Neither is the thread one of the bot's after a restart.
    drop(gateway);
    let gateway = start();
    say("still talking");
    say(&format!("<@{SLACK_BOT_USER}> which colours"));
    wait_until("an answer", || slack.bot_messages("C1").len() == 1);
    assert_eq!(home.turns().len(), 1);
    let told = home.last_turn().to_string();
    for overheard in [
        "the door is red",
        "the roof is green",
        "I like both",
        "still talking",
    ] {
        assert!(told.contains(overheard), "{told}");
    }
    say("thanks");
    wait_until("another answer", || slack.bot_messages("C1").len() == 2);
    drop(gateway);
    let _gateway = start();
    say("bye");
    wait_until("a last answer", || slack.bot_messages("C1").len() == 3);
}

#[test]
fn what_was_overheard_in_a_channel_is_known_in_the_thread_of_an_answer() {
    let places = ThreePlatformHome::with_more(ModelScript::echo(), "observe_groups: true");
    places.slack.add_channel("C1", "general");
    let guild = places.discord.add_guild("Team");
    let channel = places.discord.add_channel(&guild, "general");
    let _gateway = places.start();
    let says = |text: &str| SlackPost::new("U1", "C1", text);
    places.slack.write(&says("the door is red"));
    places
        .slack
        .write(&says(&format!("<@{SLACK_BOT_USER}> which colour")));
    wait_until("an answer", || !places.slack.bot_messages("C1").is_empty());
    let told = places.home.last_turn().to_string();
    assert!(told.contains("> [carol] the door is red"), "{told}");

    let say = |text: &str| {
        let discord = &places.discord;
        discord.say(&channel, &places.discord_user, text)
    };
    say("the roof is green");
    say(&format!("{} and the roof", DiscordServer::mention_of_bot()));
    wait_until("another turn", || places.home.turns().len() == 2);
    let told = places.home.last_turn().to_string();
    assert!(told.contains("> [bob] the roof is green"), "{told}");
    assert!(!told.contains("the door is red"), "{told}");
}

#[test]
fn all_pictures_of_an_album_are_for_the_bot_that_one_of_them_addresses() {
    let home = ChatHome::new(ModelScript::echo());
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    let send = |album: &str, caption: &str| {
        let message = home.telegram.message(GROUP, ADA).text(caption).album(album);
        message
            .file(TelegramFile::Photo, "p.png", b"\x89PNG\r\n\x1a\n")
            .send();
    };
    // Nobody asked for these.
    send("a1", "one");
    send("a1", "two");
    send("a2", "red");
    send("a2", &format!("@{name} which colours"));
    send("a2", "green");
    home.wait_for_answers(GROUP, 1);
    let told = home.last_turn().to_string();
    for caption in ["red", "which colours", "green"] {
        assert!(told.contains(caption), "{caption}: {told}");
    }
    assert!(!told.contains("two"), "{told}");
    assert_eq!(home.turns().len(), 1);
}
