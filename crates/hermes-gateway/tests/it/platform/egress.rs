//! What an operator's policy lets the clients of a tenant's platforms reach, beyond the address of the API.

use hermes_agent::policy::{AgentPolicy, PolicyHandle};
use hermes_config::{Platform, PlatformSettings, Secret};
use hermes_gateway::platform::{
    Account, Attachment, AttachmentKind, ChatAddress, ChatKind, ConnectionState, OutboundFile,
    OutboundMessage, PlatformClient, PostError, discord::DiscordClient, slack::SlackClient,
    telegram::TelegramClient,
};
use hermes_protocol::{Directives, Policy};
use hermes_testkit::{
    eventually,
    platform::{DiscordServer, SlackServer, TelegramFile, TelegramServer},
};
use serde_json::json;

use super::{LIMIT, ReceivingClient};

const TOKEN: &str = "123456:AAF-very-secret-token";

/// Nothing but the fakes on this machine may be reached.
fn only_the_fakes() -> PolicyHandle {
    let document = json!({"egress": {"allowHosts": ["127.0.0.1"]}});
    let policy = Policy::resolve(&document, &Policy::unrestricted()).unwrap();
    PolicyHandle::new(AgentPolicy::from(Directives::new(policy)))
}

fn settings(platform: Platform, base_url: String) -> PlatformSettings {
    let mut settings = PlatformSettings::default_of(platform);
    settings.token = Some(Secret::new(TOKEN.to_owned()));
    settings.base_url = base_url;
    settings
}

fn file_at(reference: &str) -> Attachment {
    Attachment {
        kind: AttachmentKind::Document,
        reference: reference.to_owned(),
        name: None,
        mime_type: None,
        size: None,
    }
}

/// Downloads a file that the policy does not allow; returns what is said.
async fn refused_download(client: &impl PlatformClient, attachment: &Attachment) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("received");
    let refused = client.download(attachment, &path, 1 << 20).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, PostError::Refused { .. }), "{refused:?}");
    assert!(!path.exists());
    refused.to_string()
}

#[tokio::test]
async fn files_are_fetched_only_from_hosts_that_the_policy_allows() {
    let policy = only_the_fakes();
    let discord = DiscordServer::start(TOKEN);
    let account = Account::first(Platform::Discord);
    let own = settings(Platform::Discord, discord.base_url());
    let client = DiscordClient::with_policy(account, &own, &policy).unwrap();
    let told = refused_download(&client, &file_at("https://cdn.discordapp.com/a.png")).await;
    assert!(told.contains("cdn.discordapp.com"), "{told}");
    assert!(told.contains("egress.allowHosts"), "{told}");

    let slack = SlackServer::start(TOKEN, "xapp-of-the-tests");
    let account = Account::first(Platform::Slack);
    let own = settings(Platform::Slack, slack.base_url());
    let client = SlackClient::with_policy(account, &own, &policy).unwrap();
    let told = refused_download(&client, &file_at("https://files.slack.com/a.png")).await;
    assert!(told.contains("egress.allowHosts"), "{told}");

    let telegram = TelegramServer::start(TOKEN);
    telegram.add_user(1001, "Ann");
    let account = Account::first(Platform::Telegram);
    let mut own = settings(Platform::Telegram, telegram.base_url());
    own.base_file_url = Some("https://files.example/file/bot".to_owned());
    let bot = ReceivingClient::start(TelegramClient::with_policy(account, &own, &policy).unwrap());
    telegram
        .message(1001, 1001)
        .file(TelegramFile::Document, "a.txt", b"x")
        .send();
    bot.wait_updates(1).await;
    let attachment = bot.messages()[0].attachments[0].clone();
    let told = refused_download(&*bot.client, &attachment).await;
    assert!(told.contains("files.example"), "{told}");
    assert!(!told.contains(TOKEN), "{told}");
}

#[tokio::test]
async fn a_websocket_is_opened_only_at_a_host_that_the_policy_allows() {
    let discord = DiscordServer::start(TOKEN);
    discord.set_gateway_address("wss://gateway.discord.gg");
    let account = Account::first(Platform::Discord);
    let own = settings(Platform::Discord, discord.base_url());
    let client = DiscordClient::with_policy(account, &own, &only_the_fakes()).unwrap();
    wait_for_refusal(&ReceivingClient::start(client)).await;
}

/// Waits until a client says that it may not connect.
async fn wait_for_refusal<C: PlatformClient>(receiver: &ReceivingClient<C>) {
    let is_told = || match receiver.health.state() {
        ConnectionState::Reconnecting { message, .. } => message.contains("egress.allowHosts"),
        _ => false,
    };
    assert!(
        eventually(LIMIT, is_told).await,
        "{:?}",
        receiver.health.state()
    );
}

#[tokio::test]
async fn on_slack_the_websocket_and_uploads_go_only_to_hosts_that_the_policy_allows() {
    let slack = SlackServer::start(TOKEN, "xapp-of-the-tests");
    slack.add_channel("C1", "general");
    slack.announce("https://elsewhere.example");
    let account = Account::first(Platform::Slack);
    let mut own = settings(Platform::Slack, slack.base_url());
    own.app_token = Some(Secret::new("xapp-of-the-tests".to_owned()));
    let client = SlackClient::with_policy(account, &own, &only_the_fakes()).unwrap();
    let receiver = ReceivingClient::start(client);
    wait_for_refusal(&receiver).await;
    assert_eq!(slack.opened_sockets(), 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "secret").unwrap();
    let message = OutboundMessage {
        files: vec![OutboundFile {
            path,
            kind: AttachmentKind::Document,
            name: "a.txt".into(),
        }],
        ..OutboundMessage::default()
    };
    let chat = ChatAddress::new("C1", ChatKind::Group);
    let refused = receiver.client.post(&chat, &message).await.unwrap_err();
    assert!(matches!(refused, PostError::Refused { .. }), "{refused:?}");
    assert!(
        refused.to_string().contains("elsewhere.example"),
        "{refused}"
    );
}
