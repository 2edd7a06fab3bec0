use hermes_config::{GatewaySettings, Platform, Settings, Variables};

use super::*;
use crate::platform::{ButtonPress, ChatKind, InboundMessage};

fn settings(yaml: &str, variables: &[(&str, &str)]) -> GatewaySettings {
    let variables = Variables::from_pairs(variables.iter().copied());
    Settings::parse(yaml, variables).unwrap().gateway
}

fn message_in(chat: ChatAddress, sender: Option<Sender>) -> InboundEvent {
    InboundEvent {
        chat,
        sender,
        sent_at: None,
        kind: InboundKind::Message(Box::default()),
    }
}

fn direct(user: &str) -> InboundEvent {
    message_in(ChatAddress::new(user, ChatKind::Dm), Some(person(user)))
}

fn in_group(chat: &str, user: &str) -> InboundEvent {
    message_in(ChatAddress::new(chat, ChatKind::Group), Some(person(user)))
}

fn person(id: &str) -> Sender {
    Sender {
        id: id.into(),
        ..Sender::default()
    }
}

fn bot(id: &str) -> Sender {
    Sender {
        id: id.into(),
        is_bot: true,
        ..Sender::default()
    }
}

fn mentioning(mut event: InboundEvent) -> InboundEvent {
    event.kind = InboundKind::Message(Box::new(InboundMessage {
        mentions_bot: true,
        ..InboundMessage::default()
    }));
    event
}

/// Decides with the rules of Telegram, unless another platform is asked for; nobody is paired.
fn decide(gateway: &GatewaySettings, platform: Platform, event: &InboundEvent) -> AccessDecision {
    decide_paired(gateway, platform, event, "")
}

fn decide_paired(
    gateway: &GatewaySettings,
    platform: Platform,
    event: &InboundEvent,
    paired: &str,
) -> AccessDecision {
    let rules = AccessRules {
        gateway,
        account: gateway.platform(platform),
        is_paired: &|user| user == paired,
    };
    authorize(event, &rules)
}

use AccessDecision::{Allowed, OfferCode, Refused};
use Platform::{Discord, Telegram};

#[test]
fn nobody_is_let_in_by_default_and_a_stranger_gets_a_code_in_a_direct_chat_only() {
    let none = settings("", &[]);
    assert_eq!(decide(&none, Telegram, &direct("5")), OfferCode);
    assert_eq!(decide(&none, Telegram, &in_group("-100", "5")), Refused);
}

#[test]
fn a_group_on_the_list_admits_everybody_in_it_even_posts_that_nobody_signs() {
    let listed = settings("", &[("TELEGRAM_GROUP_ALLOWED_CHATS", "-100, -200")]);
    let expected = Allowed(AccessGrant::GroupChat);
    assert_eq!(decide(&listed, Telegram, &in_group("-100", "5")), expected);
    let unsigned = message_in(ChatAddress::new("-200", ChatKind::Channel), None);
    assert_eq!(decide(&listed, Telegram, &unsigned), expected);
    assert_eq!(decide(&listed, Telegram, &in_group("-300", "5")), Refused);
    let every = settings("telegram: {group_allowed_chats: '*'}", &[]);
    assert_eq!(decide(&every, Telegram, &in_group("-300", "5")), expected);
    // The list is about groups: a direct chat of that id is not one.
    let chat = ChatAddress::new("-100", ChatKind::Dm);
    let event = message_in(chat, Some(person("-100")));
    assert_eq!(decide(&listed, Telegram, &event), Refused);
}

#[test]
fn a_thread_belongs_to_the_channel_that_is_on_the_list() {
    let listed = settings("discord: {group_allowed_chats: [77]}", &[]);
    let mut thread = ChatAddress::new("900", ChatKind::Thread);
    thread.parent_id = Some("77".into());
    let event = message_in(thread, Some(person("1")));
    assert_eq!(
        decide(&listed, Discord, &event),
        Allowed(AccessGrant::GroupChat)
    );
}

#[test]
fn a_bot_is_judged_by_the_policy_for_bots_and_by_nothing_after_it() {
    let group = || ChatAddress::new("-1", ChatKind::Group);
    let event = message_in(group(), Some(bot("9")));
    for (policy, plain, mentioned) in [
        ("none", Refused, Refused),
        ("mentions", Refused, Allowed(AccessGrant::BotPolicy)),
        (
            "all",
            Allowed(AccessGrant::BotPolicy),
            Allowed(AccessGrant::BotPolicy),
        ),
    ] {
        let rules = settings(
            "",
            &[
                ("TELEGRAM_ALLOW_BOTS", policy),
                ("TELEGRAM_ALLOW_ALL_USERS", "true"),
                ("TELEGRAM_ALLOWED_USERS", "9"),
            ],
        );
        assert_eq!(decide(&rules, Telegram, &event), plain, "{policy}");
        let event = mentioning(event.clone());
        assert_eq!(decide(&rules, Telegram, &event), mentioned, "{policy}");
    }
}

#[test]
fn whoever_has_no_id_is_refused_even_where_all_are_allowed() {
    let all = settings(
        "",
        &[
            ("TELEGRAM_ALLOW_ALL_USERS", "true"),
            ("GATEWAY_ALLOW_ALL_USERS", "true"),
        ],
    );
    let group = ChatAddress::new("-1", ChatKind::Group);
    for sender in [None, Some(person(""))] {
        let event = message_in(group.clone(), sender);
        assert_eq!(decide(&all, Telegram, &event), Refused);
    }
    assert_eq!(
        decide(&all, Telegram, &direct("5")),
        Allowed(AccessGrant::PlatformAllowAll)
    );
}

#[test]
fn all_users_of_one_platform_are_not_all_of_another() {
    let all = settings("", &[("DISCORD_ALLOW_ALL_USERS", "yes")]);
    assert!(decide(&all, Discord, &direct("5")).is_allowed());
    assert!(!decide(&all, Telegram, &direct("5")).is_allowed());
}

#[test]
fn a_role_lets_its_holders_in() {
    let roles = settings("", &[("DISCORD_ALLOWED_ROLES", "11,12")]);
    let with_role = |role: &str| {
        let mut event = in_group("1", "5");
        event.sender.as_mut().unwrap().roles = vec!["1".into(), role.into()];
        event
    };
    assert_eq!(
        decide(&roles, Discord, &with_role("12")),
        Allowed(AccessGrant::Role)
    );
    assert_eq!(decide(&roles, Discord, &with_role("13")), Refused);
    // An empty list grants no role.
    let none = settings("", &[]);
    assert_eq!(decide(&none, Discord, &with_role("12")), Refused);
}

#[test]
fn a_paired_user_is_let_in_beside_an_allow_list() {
    let listed = settings("", &[("TELEGRAM_ALLOWED_USERS", "1")]);
    let event = direct("5");
    assert_eq!(
        decide_paired(&listed, Telegram, &event, "5"),
        Allowed(AccessGrant::Paired)
    );
    assert_eq!(decide_paired(&listed, Telegram, &event, "6"), Refused);
}

#[test]
fn lists_of_the_platform_and_of_the_gateway_count_and_a_star_is_everybody() {
    let expected = Allowed(AccessGrant::AllowList);
    for (variable, value) in [
        ("TELEGRAM_ALLOWED_USERS", "4, 5"),
        ("TELEGRAM_ALLOWED_USERS", "*"),
        ("GATEWAY_ALLOWED_USERS", "5"),
        ("GATEWAY_ALLOWED_USERS", "*"),
    ] {
        let rules = settings("", &[(variable, value)]);
        assert_eq!(
            decide(&rules, Telegram, &direct("5")),
            expected,
            "{variable}"
        );
    }
    let yaml = settings("telegram: {allow_from: [4, 5]}", &[]);
    assert_eq!(decide(&yaml, Telegram, &direct("5")), expected);
}

#[test]
fn who_may_only_in_groups_may_not_in_direct_chats() {
    let rules = settings("", &[("TELEGRAM_GROUP_ALLOWED_USERS", "5")]);
    assert_eq!(
        decide(&rules, Telegram, &in_group("-1", "5")),
        Allowed(AccessGrant::AllowList)
    );
    assert_eq!(decide(&rules, Telegram, &direct("5")), Refused);
}

#[test]
fn the_gateway_may_be_open_to_all() {
    let open = settings("", &[("GATEWAY_ALLOW_ALL_USERS", "1")]);
    assert_eq!(
        decide(&open, Telegram, &in_group("-1", "5")),
        Allowed(AccessGrant::GatewayAllowAll)
    );
}

#[test]
fn an_allow_list_or_a_setting_means_that_no_code_is_offered() {
    for (yaml, variable) in [
        ("", ("TELEGRAM_ALLOWED_USERS", "1")),
        ("", ("TELEGRAM_GROUP_ALLOWED_USERS", "1")),
        ("", ("TELEGRAM_GROUP_ALLOWED_CHATS", "-1")),
        ("", ("GATEWAY_ALLOWED_USERS", "1")),
        ("unauthorized_dm_behavior: ignore", ("X", "")),
        ("telegram: {unauthorized_dm_behavior: ignore}", ("X", "")),
        ("gateway: {unauthorized_dm_behavior: ignore}", ("X", "")),
    ] {
        let rules = settings(yaml, &[variable]);
        let decision = decide(&rules, Telegram, &direct("5"));
        assert_eq!(decision, Refused, "{yaml} {variable:?}");
    }
    // The lists of another platform say nothing about this one.
    let rules = settings("", &[("DISCORD_ALLOWED_USERS", "1")]);
    assert_eq!(decide(&rules, Telegram, &direct("5")), OfferCode);
}

#[test]
fn a_pressed_button_or_a_bot_gets_no_code() {
    let none = settings("", &[]);
    let mut press = direct("5");
    press.kind = InboundKind::ButtonPress(ButtonPress {
        data: "ea:once:ap_1".into(),
        message_id: None,
        token: String::new(),
    });
    assert_eq!(decide(&none, Telegram, &press), Refused);
    let of_bot = message_in(ChatAddress::new("9", ChatKind::Dm), Some(bot("9")));
    assert_eq!(decide(&none, Telegram, &of_bot), Refused);
}

#[test]
fn without_administrators_everybody_may_use_every_command() {
    let rules = settings("telegram: {user_allowed_commands: [status]}", &[]);
    let access = &rules.platform(Telegram).access;
    let chat = ChatAddress::new("5", ChatKind::Dm);
    assert!(may_use_command(access, &chat, "5", "model"));
}

#[test]
fn administrators_may_use_all_commands_and_others_those_on_the_list() {
    let rules = settings(
        "telegram: {allow_admin_from: [1], user_allowed_commands: [/status, reload_mcp], group_allow_admin_from: '2'}",
        &[],
    );
    let access = &rules.platform(Telegram).access;
    let chat = ChatAddress::new("5", ChatKind::Dm);
    let group = ChatAddress::new("-5", ChatKind::Group);
    for (chat, user, command, expected) in [
        (&chat, "1", "model", true),
        (&chat, "2", "model", false),
        (&chat, "2", "status", true),
        (&chat, "2", "reload-mcp", true),
        (&chat, "2", "help", true),
        (&group, "1", "model", false),
        (&group, "2", "model", true),
        (&group, "1", "status", false),
        (&group, "1", "whoami", true),
    ] {
        let may = may_use_command(access, chat, user, command);
        assert_eq!(may, expected, "{user} {command} in {:?}", chat.kind);
    }
}

#[test]
fn a_stranger_is_told_the_command_that_its_operator_has() {
    let own = code_message("telegram", "ABCD2345", None);
    assert!(own.contains("`hermes pairing approve telegram ABCD2345`"));
    let hosted = code_message("telegram", "ABCD2345", Some("acme"));
    assert!(hosted.contains("`hermes tenant pairing acme approve telegram ABCD2345`"));
}
