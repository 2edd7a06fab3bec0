use hermes_config::{Settings, Variables};

use super::*;
use crate::platform::{ButtonPress, CommandCall, QuotedMessage, Sender};

fn rules(platform: Platform, yaml: &str) -> MentionRules {
    let settings = Settings::parse(yaml, Variables::default()).unwrap();
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    MentionRules::new(platform, settings.gateway.platform(platform))
}

fn group() -> ChatAddress {
    ChatAddress::new("-100", ChatKind::Group)
}

fn topic(id: Option<&str>) -> ChatAddress {
    ChatAddress {
        thread_id: id.map(str::to_owned),
        ..ChatAddress::new("-100", ChatKind::Forum)
    }
}

fn event(chat: ChatAddress, message: InboundMessage) -> InboundEvent {
    InboundEvent {
        chat,
        sender: Some(Sender {
            id: "5".into(),
            ..Sender::default()
        }),
        sent_at: None,
        kind: InboundKind::Message(Box::new(message)),
    }
}

fn saying(chat: ChatAddress, text: &str) -> InboundEvent {
    event(
        chat,
        InboundMessage {
            text: text.into(),
            ..InboundMessage::default()
        },
    )
}

fn replying(chat: ChatAddress, is_from_bot: bool) -> InboundEvent {
    let quoted = Some(QuotedMessage {
        is_from_bot,
        ..QuotedMessage::default()
    });
    event(
        chat,
        InboundMessage {
            quoted,
            ..InboundMessage::default()
        },
    )
}

fn mentioning(chat: ChatAddress) -> InboundEvent {
    let message = InboundMessage {
        mentions_bot: true,
        ..InboundMessage::default()
    };
    event(chat, message)
}

fn of_bot(mut event: InboundEvent) -> InboundEvent {
    event.sender.as_mut().unwrap().is_bot = true;
    event
}

fn judge(rules: &MentionRules, event: &InboundEvent) -> Addressing {
    rules.judge(event, GroupContext::default())
}

use Addressing::{Addressed, Ignored, Observed};
use Platform::{Discord, Slack, Telegram};

#[test]
fn a_direct_message_is_always_meant_for_the_bot() {
    let rules = rules(Telegram, "telegram: {allowed_chats: [-7]}");
    let event = saying(ChatAddress::new("5", ChatKind::Dm), "hi");
    assert_eq!(judge(&rules, &event), Addressed(AddressedBy::DirectChat));
}

#[test]
fn in_a_group_only_what_addresses_the_bot_is_answered() {
    for platform in Platform::ALL {
        let rules = rules(platform, "");
        assert_eq!(judge(&rules, &saying(group(), "hi all")), Ignored);
        let mentioned = judge(&rules, &mentioning(group()));
        assert_eq!(mentioned, Addressed(AddressedBy::Mention));
        let replied = judge(&rules, &replying(group(), true));
        assert_eq!(replied, Addressed(AddressedBy::Reply));
        assert_eq!(judge(&rules, &replying(group(), false)), Ignored);
    }
}

#[test]
fn a_button_and_a_command_of_this_bot_are_meant_for_it() {
    let rules = rules(Telegram, "");
    let mut press = saying(group(), "");
    press.kind = InboundKind::ButtonPress(ButtonPress {
        data: "x".into(),
        message_id: None,
        token: String::new(),
    });
    assert_eq!(judge(&rules, &press), Addressed(AddressedBy::Command));
    let context = GroupContext {
        is_own_command: true,
        ..GroupContext::default()
    };
    let command = rules.judge(&saying(group(), "/status"), context);
    assert_eq!(command, Addressed(AddressedBy::Command));
}

#[test]
fn a_button_or_a_slash_command_does_nothing_where_the_bot_does_not_answer() {
    let rules = rules(
        Discord,
        "discord: {allowed_channels: ['7', '8'], chats: {'8': {enabled: false}}}",
    );
    let used_in = |chat| {
        let mut event = saying(chat, "");
        event.kind = InboundKind::Command(CommandCall {
            name: "background".into(),
            arguments: "work".into(),
            token: String::new(),
        });
        judge(&rules, &event)
    };
    let channel = |id: &str| ChatAddress::new(id, ChatKind::Group);
    assert_eq!(used_in(channel("7")), Addressed(AddressedBy::Command));
    assert_eq!(used_in(channel("8")), Ignored);
    assert_eq!(used_in(channel("9")), Ignored);
    let direct = ChatAddress::new("9", ChatKind::Dm);
    assert_eq!(used_in(direct), Addressed(AddressedBy::Command));
}

#[test]
fn a_pattern_addresses_the_bot_in_any_case() {
    let rules = rules(Telegram, r"telegram: {mention_patterns: ['^\s*jarvis\b']}");
    assert_eq!(
        judge(&rules, &saying(group(), "JARVIS, what is up?")),
        Addressed(AddressedBy::Pattern)
    );
    assert_eq!(judge(&rules, &saying(group(), "ask jarvis")), Ignored);
}

#[test]
fn free_chats_and_topics_need_no_mention() {
    let free = Addressed(AddressedBy::FreeResponse);
    let open = rules(Discord, "discord: {require_mention: false}");
    assert_eq!(judge(&open, &saying(group(), "hi")), free);
    let chats = rules(Slack, "slack: {free_response_channels: [C1]}");
    let channel = |id: &str| ChatAddress::new(id, ChatKind::Group);
    assert_eq!(judge(&chats, &saying(channel("C1"), "hi")), free);
    assert_eq!(judge(&chats, &saying(channel("C2"), "hi")), Ignored);
    let topics = rules(
        Telegram,
        "telegram: {free_response_topics: ['-100:7', '-100:1']}",
    );
    assert_eq!(judge(&topics, &saying(topic(Some("7")), "hi")), free);
    assert_eq!(judge(&topics, &saying(topic(Some("8")), "hi")), Ignored);
    // The first topic of a forum is not named in its messages.
    assert_eq!(judge(&topics, &saying(topic(None), "hi")), free);
    assert_eq!(judge(&topics, &saying(group(), "hi")), Ignored);
}

#[test]
fn only_the_listed_chats_and_topics_are_answered_even_when_mentioned() {
    let chats = rules(Telegram, "telegram: {allowed_chats: [-100]}");
    assert!(judge(&chats, &mentioning(group())).is_addressed());
    let other = ChatAddress::new("-200", ChatKind::Group);
    assert_eq!(judge(&chats, &mentioning(other)), Ignored);
    let topics = rules(Telegram, "telegram: {allowed_topics: [7]}");
    assert!(judge(&topics, &mentioning(topic(Some("7")))).is_addressed());
    assert_eq!(judge(&topics, &mentioning(topic(Some("8")))), Ignored);
    assert_eq!(judge(&topics, &mentioning(topic(None))), Ignored);
}

#[test]
fn a_thread_of_a_listed_channel_is_listed() {
    let rules = rules(Discord, "discord: {allowed_channels: ['7']}");
    let mut thread = ChatAddress::new("900", ChatKind::Thread);
    assert_eq!(judge(&rules, &mentioning(thread.clone())), Ignored);
    thread.parent_id = Some("7".into());
    assert!(judge(&rules, &mentioning(thread)).is_addressed());
}

#[test]
fn a_thread_in_which_the_bot_has_spoken_is_addressed_unless_mentions_are_strict() {
    let spoken = GroupContext {
        has_spoken_in_thread: true,
        ..GroupContext::default()
    };
    let mut thread = ChatAddress::new("C1", ChatKind::Group);
    thread.thread_id = Some("1700.1".into());
    let event = saying(thread, "and then?");
    let lenient = rules(Slack, "");
    assert_eq!(
        lenient.judge(&event, spoken),
        Addressed(AddressedBy::Thread)
    );
    assert_eq!(judge(&lenient, &event), Ignored);
    let strict = rules(Slack, "slack: {strict_mention: true}");
    assert_eq!(strict.judge(&event, spoken), Ignored);
    let strict_here = rules(Slack, "slack: {chats: {C1: {strict_mention: true}}}");
    assert_eq!(strict_here.judge(&event, spoken), Ignored);
    // The channel itself is not a thread, and neither is a topic of Telegram.
    let channel = saying(ChatAddress::new("C1", ChatKind::Group), "hi");
    assert_eq!(lenient.judge(&channel, spoken), Ignored);
    let telegram = rules(Telegram, "");
    let in_topic = saying(topic(Some("7")), "hi");
    assert_eq!(telegram.judge(&in_topic, spoken), Ignored);
    let discord = rules(Discord, "");
    let thread = saying(ChatAddress::new("900", ChatKind::Thread), "hi");
    assert!(discord.judge(&thread, spoken).is_addressed());
}

#[test]
fn bots_do_not_address_each_other_by_replies_or_threads() {
    let all = rules(Discord, "discord: {allow_bots: all}");
    let spoken = GroupContext {
        has_spoken_in_thread: true,
        ..GroupContext::default()
    };
    let thread = || ChatAddress::new("900", ChatKind::Thread);
    assert_eq!(
        all.judge(&of_bot(replying(thread(), true)), spoken),
        Ignored
    );
    assert_eq!(
        judge(&all, &of_bot(mentioning(group()))),
        Addressed(AddressedBy::Mention)
    );
    let mentions = rules(
        Discord,
        "discord: {allow_bots: mentions, require_mention: false}",
    );
    assert_eq!(judge(&mentions, &of_bot(saying(group(), "hi"))), Ignored);
    assert!(judge(&mentions, &of_bot(mentioning(group()))).is_addressed());
    // Even in a group in which everybody may use the bot.
    let none = rules(Discord, "discord: {require_mention: false}");
    assert_eq!(judge(&none, &of_bot(mentioning(group()))), Ignored);
}

#[test]
fn a_topic_has_its_own_rules_then_those_of_its_chat() {
    let rules = rules(
        Telegram,
        "
telegram:
  mention_patterns: [everywhere]
  chats:
    '-100': {require_mention: false, mention_patterns: [here]}
    '-100:7': {require_mention: true}
    '-100:8': {enabled: false}
    '-200': {observe_groups: true}
",
    );
    let free = Addressed(AddressedBy::FreeResponse);
    assert_eq!(judge(&rules, &saying(topic(Some("9")), "hi")), free);
    assert_eq!(judge(&rules, &saying(topic(Some("7")), "hi")), Ignored);
    assert_eq!(
        judge(&rules, &saying(topic(Some("7")), "here")),
        Addressed(AddressedBy::Pattern)
    );
    assert_eq!(judge(&rules, &mentioning(topic(Some("8")))), Ignored);
    let other = ChatAddress::new("-200", ChatKind::Group);
    assert_eq!(judge(&rules, &saying(other.clone(), "hi")), Observed);
    assert_eq!(
        judge(&rules, &saying(other, "everywhere")),
        Addressed(AddressedBy::Pattern)
    );
}

#[test]
fn what_is_not_addressed_is_observed_where_that_is_set() {
    let rules = rules(
        Telegram,
        "observe_groups: true\ntelegram: {allowed_chats: [-100]}",
    );
    assert_eq!(judge(&rules, &saying(group(), "hi")), Observed);
    let other = ChatAddress::new("-200", ChatKind::Group);
    assert_eq!(judge(&rules, &saying(other, "hi")), Ignored);
}

#[test]
fn threads_are_opened_on_discord_unless_the_channel_says_otherwise() {
    let discord = rules(Discord, "discord: {chats: {'-100': {auto_thread: false}}}");
    assert!(discord.opens_thread(&ChatAddress::new("1", ChatKind::Group)));
    assert!(!discord.opens_thread(&group()));
    assert!(!rules(Slack, "").opens_thread(&group()));
}
